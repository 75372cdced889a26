"""Score the joint scenarios of demand on the stretch after the one they have learned from.

python -m benchmarks.scenario_scores --jobs JOBS.csv --pools POOLS.csv \\
    --train-until 1036800 --valid-until 1641600
python -m benchmarks.scenario_scores --speed

No job submitted later is looked at, and every job is told as if it had started on arrival. Asked every hour
(`--offset-s` after it) or after arrivals (`--at-arrivals`), which is when a planner asks; a cell counts once
it is over. For each generator:
1. for each cell, the sum over pools of min(quota, peak): its mean, the CRPS, the width of the central 90 %
   interval, the interval score at 90 % (width + 20 x what lies outside it: Gneiting and Raftery, JASA 102,
   2007), the share of hours in which it stayed at or below its quantiles, and the longest run in which it
   did not; CRPS / quota and coverage of the single pools;
2. the same over groups of cells, scores as shares of the bootstrap's, with the width at the same coverage: of
   the narrowest equal-tailed interval of each generator that held 90 % of what came;
3. energy score (same paper) over the vector of pools and cells, each pool scaled by its quota.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domain.jobs import Job
from domain.timegrid import default_grid
from models.demand.features import ENDED, SUBMITTED, history_facts
from models.scenarios import SCENARIO_MODELS
from models.scenarios.stretches import PastStretches, cell_peaks
from models.scores import covered, longest_run

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
LEVELS: Final = (0.5, 0.9, 0.95, 0.99)
EDGES_S: Final = np.array(default_grid().edges_s)
GROUPS: Final = {
    "to 8 min": slice(0, 4),
    "to 2 h": slice(4, 8),
    "to 1 day": slice(8, 12),
    "to 4 days": slice(12, 14),
}
ENERGY_GROUPS: Final = {"to 64 min": slice(0, 7), "to 1 day": slice(7, 12), "all": slice(0, 15)}
SAME_COVERAGE: Final = 0.9
SPEED_POOLS: Final = 30
SPEED_DAYS: Final = 30
SPEED_SCENARIOS: Final = 200
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Lived = Sequence[tuple[Job, float]]


class Scores(NamedTuple):
    """Of one generator; arrays begin with (instants, cells) but for the last two.

    `energy` is (instants, groups of cells), `sums` (instants, scenarios ascending, cells).
    """

    held: Floats
    drawn: Floats
    crps_sum: Floats
    crps_pools: Floats
    width: Floats
    interval: Floats
    is_within: Bools
    pools_within: Floats
    energy: Floats
    sums: Floats


def crps(observed: Floats, draws: Floats) -> Floats:
    """E|X - y| - E|X - X'| / 2 of the empirical distribution of draws, which lie on the last axis."""
    number = draws.shape[-1]
    spread = np.sort(draws, axis=-1) @ (2.0 * np.arange(1, number + 1) - number - 1)
    return np.asarray(np.abs(draws - observed[..., None]).mean(axis=-1) - spread / number**2)


def energy_score(observed: Floats, draws: Floats) -> float:
    """E|X - y| - E|X - X'| / 2 with Euclidean distances; observed (dims,), draws (scenarios, dims)."""
    inner = draws @ draws.T
    squares = np.diag(inner)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * inner, 0.0))
    return float(np.linalg.norm(draws - observed, axis=1).mean() - apart.mean() / 2)


def score(peaks: Floats, held: Floats, quotas: Floats, is_over: Bools) -> Scores:
    """Scores of draws (instants, scenarios, pools, cells) against (instants, pools, cells)."""
    drawn, real = np.minimum(peaks, quotas[:, None]), np.minimum(held, quotas[:, None])
    sums, total = drawn.sum(axis=2), real.sum(axis=1)
    low, high = np.quantile(sums, (0.05, 0.95), axis=1, method="higher")
    outside = np.maximum(low - total, 0.0) + np.maximum(total - high, 0.0)
    limits = np.quantile(sums, LEVELS, axis=1, method="higher")
    pool_limits = np.quantile(drawn, LEVELS, axis=1, method="higher")
    energy = np.full((len(real), len(ENERGY_GROUPS)), np.nan)
    for k, cells in enumerate(is_over):
        for group, span in enumerate(ENERGY_GROUPS.values()):
            wanted = np.flatnonzero(cells[span]) + span.start
            if wanted.size:
                scaled = (drawn[k] / quotas[:, None])[:, :, wanted].reshape(len(drawn[k]), -1)
                energy[k, group] = energy_score((real[k] / quotas[:, None])[:, wanted].ravel(), scaled)
    return Scores(
        total,
        sums.mean(axis=1),
        crps(total, np.moveaxis(sums, 1, -1)),
        (crps(real, np.moveaxis(drawn, 1, -1)) / quotas[:, None]).mean(axis=1),
        high - low,
        high - low + 20.0 * outside,
        np.moveaxis(total <= limits, 0, -1),
        np.moveaxis((real <= pool_limits).mean(axis=2), 0, -1),
        energy,
        np.sort(sums, axis=1),
    )


def read(jobs: Path, pools: Path, until_s: float) -> tuple[Lived, dict[str, int]]:
    frame = pd.read_csv(jobs, dtype={"job_id": str, "pool": str})
    frame = frame[frame["submit_s"] < until_s].sort_values("submit_s", kind="stable")
    quotas = pd.read_csv(pools, dtype={"pool": str}).set_index("pool")["quota_gpus"]
    frame = frame[frame["pool"].isin(quotas.index)]
    lived = [
        (Job(row.job_id, row.pool, float(row.submit_s), int(row.num_gpus)), float(row.duration_s))
        for row in frame.itertuples()
    ]
    return lived, {str(pool): int(quota) for pool, quota in quotas.items()}


def real_peaks(lived: Lived, pools: Sequence[str], instants: Floats) -> Floats:
    """What each pool's new jobs held in each cell, shape (instants, pools, cells)."""
    held = np.zeros((len(instants), len(pools), len(EDGES_S) - 1))
    for place, pool in enumerate(pools):
        own = [
            (job.submit_s, job.submit_s + life_s, job.num_gpus) for job, life_s in lived if job.pool == pool
        ]
        if own:
            submit_s, end_s, gpus = np.array(own).T
            held[:, place] = cell_peaks(submit_s, end_s, gpus.astype(np.int64), instants, EDGES_S)
    return held


def tell(stretches: PastStretches, lived: Lived, instants: Floats) -> Iterator[float]:
    """Tell what happens before each instant, then yield it."""
    facts, place = history_facts(lived, (), np.inf), 0
    for now_s in instants.tolist():
        while place < len(facts) and facts[place][0] < now_s:
            at_s, kind, job, duration_s = facts[place]
            if kind == ENDED:
                stretches.ended(job, at_s, duration_s)
            else:
                (stretches.arrived if kind == SUBMITTED else stretches.started)(job, at_s)
            place += 1
        yield now_s


def draws(
    name: str, lived: Lived, quotas: dict[str, int], instants: Floats, options: argparse.Namespace
) -> Floats:
    """Peaks at each instant, shape (instants, scenarios, pools, cells)."""
    stretches = SCENARIO_MODELS[name](
        quotas, options.seed, options.scenarios, since_s=lived[0][0].submit_s, begin_s=options.train_until
    )
    begin_s, taken, drawn = time.process_time(), [], []
    for now_s in tell(stretches, lived, instants):
        asked_s = time.process_time()
        drawn.append(stretches.draw(now_s)[0])
        taken.append(1000 * (time.process_time() - asked_s))
    whole_s = time.process_time() - begin_s
    took = f"{whole_s:.1f} s of CPU, a draw {np.median(taken):.1f} ms (median), {max(taken):.0f} ms at most"
    print(f"{name}: {took}")
    return np.array(drawn)


def table(*heads: str) -> None:
    print("\n| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))


def print_cells(scores: Scores, is_over: Bools) -> None:
    heads = ("cell ends at", "instants", "GPUs, real", "drawn", "CRPS", "width", "interval score")
    levels = [f"{level:g}" for level in LEVELS]
    table(*heads, *levels, "pools: CRPS / quota", *levels)
    for cell, end_s in enumerate(EDGES_S[1:]):
        over = is_over[:, cell]
        if not over.any():
            continue
        held, drawn, of_sum, of_pools, width, interval = (one[over, cell].mean() for one in scores[:6])
        sums = [f"{one.mean():.2f} ({longest_run(~one)})" for one in scores.is_within[over, cell].T]
        pools = [f"{share:.2f}" for share in scores.pools_within[over, cell].mean(axis=0)]
        first = f"{end_s / 60:g} min | {over.sum()} | {held:.1f} | {drawn:.1f} | {of_sum:.2f}"
        second = f"{width:.1f} | {interval:.1f} | {' | '.join(sums)}"
        print(f"| {first} | {second} | {of_pools:.4f} | {' | '.join(pools)} |")


def grouped(values: Floats, is_over: Bools) -> Floats:
    """Mean over the instants of which a cell is over, shape (cells,)."""
    return np.array(
        [values[over, cell].mean() if over.any() else np.nan for cell, over in enumerate(is_over.T)]
    )


def width_at(coverage: float, scores: Scores, is_over: Bools) -> Floats:
    """Width per cell of the narrowest equal-tailed interval that covered so much, infinite where none did."""
    widths = np.where(is_over.any(axis=0), np.inf, np.nan)
    for cell, over in enumerate(is_over.T):
        sums, held = scores.sums[over, :, cell], scores.held[over, cell]
        for k in range(sums.shape[1] // 2 if over.any() else 0):
            low, high = sums[:, k], sums[:, -1 - k]
            if covered(held, low, high).mean() < coverage:
                break
            widths[cell] = (high - low).mean()
    return widths


def print_summary(all_scores: dict[str, Scores], is_over: Bools) -> None:
    heads = ("generator", "cells", "CRPS of the sum", "CRPS of pools", "width", "interval score")
    table(*heads, "width at the same coverage", *(f"{level:g}" for level in LEVELS))
    base = all_scores["bootstrap"]
    for name, one in all_scores.items():
        shares = [
            grouped(getattr(one, what), is_over) / grouped(getattr(base, what), is_over)
            for what in ("crps_sum", "crps_pools", "width", "interval")
        ]
        shares.append(width_at(SAME_COVERAGE, one, is_over) / width_at(SAME_COVERAGE, base, is_over))
        within = [grouped(one.is_within[:, :, k].astype(float), is_over) for k in range(len(LEVELS))]
        for label, cells in GROUPS.items():
            figures = " | ".join(f"{figure[cells].mean():.2f}" for figure in (*shares, *within))
            print(f"| {name} | {label} | {figures} |")
    table("generator", *(f"energy score {label}" for label in ENERGY_GROUPS))
    for name, one in all_scores.items():
        means, bases = np.nanmean(one.energy, axis=0), np.nanmean(base.energy, axis=0)
        figures = " | ".join(f"{mean:.4f} ({mean / was:.3f})" for mean, was in zip(means, bases, strict=True))
        print(f"| {name} | {figures} |")


def synthetic(seed: int) -> tuple[Lived, dict[str, int]]:
    """Bursts of jobs in many pools, by day more of them than by night."""
    rng = np.random.default_rng(seed)
    lived: list[tuple[Job, float]] = []
    for pool in range(SPEED_POOLS):
        for burst, at_s in enumerate(np.sort(rng.uniform(0, (SPEED_DAYS + 1) * DAY_S, 500)).tolist()):
            if rng.random() < 0.3 + 0.7 * (0.3 < at_s / DAY_S % 1 < 0.8):
                for k in range(int(rng.geometric(0.25))):
                    job = Job(f"{pool}-{burst}-{k}", f"pool{pool}", at_s + 20.0 * k, int(rng.integers(1, 9)))
                    lived.append((job, float(rng.lognormal(6.0, 2.0))))
    lived.sort(key=lambda one: (one[0].submit_s, one[0].job_id))
    return lived, {f"pool{pool}": 64 for pool in range(SPEED_POOLS)}


def print_speed(seed: int) -> None:
    lived, quotas = synthetic(seed)
    print(f"{SPEED_POOLS} pools, {SPEED_DAYS} days, {len(lived)} jobs, {SPEED_SCENARIOS} scenarios\n")
    table("generator", "first draw, ms", "draw in a new slot, ms", "in the same slot, ms", "intake, ms")
    instants = SPEED_DAYS * DAY_S + np.arange(0.0, DAY_S + 1.0, HOUR_S / 4)
    is_intake = instants % (12 * HOUR_S) == 0
    for name, model in SCENARIO_MODELS.items():
        stretches = model(quotas, seed, SPEED_SCENARIOS, since_s=0.0, begin_s=float(instants[0]))
        taken = np.empty((len(instants), 2))
        for k, now_s in enumerate(tell(stretches, lived, instants)):
            for again in range(2):
                begin_s = time.process_time()
                stretches.need(now_s)
                taken[k, again] = 1000 * (time.process_time() - begin_s)
        plain, same = np.median(taken[~is_intake], axis=0)
        intake = np.median(taken[is_intake][1:, 0]) - plain
        print(f"| {name} | {taken[0, 0]:.0f} | {plain:.1f} | {same:.2f} | {intake:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=Path)
    parser.add_argument("--pools", type=Path)
    parser.add_argument("--train-until", type=float)
    parser.add_argument("--valid-until", type=float)
    parser.add_argument("--offset-s", type=float, default=0.0, help="ask so long after each hour")
    parser.add_argument("--at-arrivals", type=int, metavar="N", help="ask 1 s after every Nth arrival")
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="+", default=list(SCENARIO_MODELS), choices=list(SCENARIO_MODELS))
    parser.add_argument("--brief", action="store_true", help="no table of cells")
    parser.add_argument("--speed", action="store_true", help="time the draws on a synthetic history instead")
    options = parser.parse_args()

    if options.speed:
        print_speed(options.seed)
        return
    lived, quotas = read(options.jobs, options.pools, options.valid_until)
    instants = np.arange(options.train_until, options.valid_until, HOUR_S) + options.offset_s
    if options.at_arrivals:
        came_s = np.array([job.submit_s for job, _ in lived if job.submit_s >= options.train_until])
        instants = np.unique(came_s[:: options.at_arrivals]) + 1.0
    is_over = instants[:, None] + EDGES_S[1:] <= options.valid_until
    held = real_peaks(lived, list(quotas), instants)
    gpus = np.array(list(quotas.values()), dtype=np.float64)
    all_scores = {}
    for name in dict.fromkeys(("bootstrap", *options.models)):
        all_scores[name] = score(draws(name, lived, quotas, instants, options), held, gpus, is_over)
    if not options.brief:
        for name, scores in all_scores.items():
            print(f"\n**{name}**")
            print_cells(scores, is_over)
    print_summary(all_scores, is_over)


if __name__ == "__main__":
    main()
