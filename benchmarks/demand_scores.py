"""Score the demand forecasts on the stretch after the one they have learned from.

python -m benchmarks.demand_scores --jobs JOBS.csv --pools POOLS.csv \\
    --train-until 1036800 --valid-until 1641600

No job submitted later is looked at, and every job is told as if it had started on arrival. Three tables:
1. WillJobsArrive over (pool, instant) cells on a raster of 5 min, and where jobs did arrive, how often the
   forecast load covered theirs (both capped by the quota);
2. the same for each pool: recall, mean GPUs forecast for mean GPUs that came;
3. for each cell of the time grid, hourly: how often the sum over pools of min(quota, peak) stayed at or below
   its quantile over the scenarios, and the longest run of hours in which it did not.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domain.jobs import Job
from domain.timegrid import default_grid
from models.demand.features import ENDED, WINDOWS_S, history_facts
from models.demand.pools import PoolDemand
from models.scenarios.stretches import cell_peaks

TICK_S = 300.0
HOUR_S = 3600.0
LEVELS = (0.5, 0.9, 0.95, 0.99)
Floats = NDArray[np.float64]


@dataclass
class Truth:
    """What one pool was asked for."""

    quota: int
    submit_s: Floats
    end_s: Floats
    gpus: NDArray[np.int64]

    def load(self, from_s: float, until_s: float) -> int:
        first, beyond = np.searchsorted(self.submit_s, [from_s, until_s], "right")
        return int(self.gpus[first:beyond].sum())


def read(jobs: Path, pools: Path, until_s: float) -> tuple[list[tuple[Job, float]], dict[str, Truth]]:
    frame = pd.read_csv(jobs, dtype={"job_id": str, "pool": str})
    frame = frame[frame["submit_s"] < until_s].sort_values("submit_s", kind="stable")
    lived = [
        (Job(row.job_id, row.pool, float(row.submit_s), int(row.num_gpus)), float(row.duration_s))
        for row in frame.itertuples()
    ]
    quotas = pd.read_csv(pools, dtype={"pool": str}).set_index("pool")["quota_gpus"]
    truth = {}
    for pool, quota in quotas.items():
        own = frame[frame["pool"] == pool]
        submit_s = own["submit_s"].to_numpy(float)
        end_s = submit_s + own["duration_s"].to_numpy(float)
        truth[str(pool)] = Truth(int(quota), submit_s, end_s, own["num_gpus"].to_numpy(np.int64))
    return lived, truth


def fitted(
    lived: Sequence[tuple[Job, float]], truth: dict[str, Truth], options: argparse.Namespace
) -> PoolDemand:
    now_s = options.train_until
    early = [(job, duration_s) for job, duration_s in lived if job.submit_s < now_s]
    past = [one for one in early if one[0].submit_s + one[1] <= now_s]
    censored = [(job, now_s - job.submit_s) for job, life_s in early if job.submit_s + life_s > now_s]
    demand = PoolDemand(
        {pool: one.quota for pool, one in truth.items()},
        retrain_every_s=options.retrain_days * 24 * HOUR_S or None,
        count_quiet=options.count_quiet,
    )
    demand.fit(past, censored, now_s)
    return demand


def ticks(
    demand: PoolDemand, lived: Sequence[tuple[Job, float]], options: argparse.Namespace
) -> Iterator[float]:
    """Tell what happens up to each tick, then yield it."""
    facts = [fact for fact in history_facts(lived, (), np.inf) if fact[0] >= options.train_until]
    place = 0
    for now_s in np.arange(options.train_until, options.valid_until, TICK_S).tolist():
        while place < len(facts) and facts[place][0] <= now_s:
            at_s, kind, job, duration_s = facts[place]
            if kind == ENDED:
                demand.ended(job, at_s, duration_s)
            else:
                (demand.submitted, demand.started)[kind](job, at_s)
            place += 1
        yield now_s


def window_rows(
    demand: PoolDemand, truth: dict[str, Truth], now_s: float, until_s: float
) -> Iterator[dict[str, object]]:
    for window_s in WINDOWS_S:
        if now_s + window_s > until_s:
            continue
        will, load = demand.will_jobs_arrive(window_s, now_s), demand.new_load_gpus(window_s, now_s)
        for pool, one in truth.items():
            came = one.load(now_s, now_s + window_s)
            yield {
                "window": window_s,
                "pool": pool,
                "will": will[pool],
                "came": came > 0,
                "before": one.load(now_s - window_s, now_s) > 0,
                "forecast": min(one.quota, load[pool]),
                "load": min(one.quota, came),
            }


def print_windows(rows: pd.DataFrame) -> None:
    """WillJobsArrive, and as a baseline the answer that the window before would have deserved."""
    print("| window | arrivals in | yes in | precision | recall | F | mean recall of pools | load covered |")
    print("|---|---|---|---|---|---|---|---|")
    for window_s, own in rows.groupby("window"):
        for said, name in (("will", ""), ("before", ", as before")):
            hits = (own[said] & own["came"]).sum()
            precision, recall = hits / own[said].sum(), hits / own["came"].sum()
            of_pools = own[own["came"]].groupby("pool")[said].mean().mean()
            is_covered = own.loc[own["came"], "load"] <= own.loc[own["came"], "forecast"]
            covered = is_covered.mean() if said == "will" else np.nan
            score = 2 * precision * recall / (precision + recall)
            shares = (own["came"].mean(), own[said].mean(), precision, recall, score, of_pools, covered)
            cells = " | ".join(f"{share:.2f}" for share in shares).replace("nan", "")
            print(f"| {window_s / 60:g} min{name} | {cells} |")


def print_pools(rows: pd.DataFrame, truth: dict[str, Truth]) -> None:
    print("\n| pool | quota | " + " | ".join(f"{window_s / 60:g} min" for window_s in WINDOWS_S) + " |")
    print("|---|---|" + "---|" * len(WINDOWS_S))
    for pool, one in truth.items():
        cells = []
        for window_s in WINDOWS_S:
            own = rows[(rows["pool"] == pool) & (rows["window"] == window_s)]
            recall = own.loc[own["came"], "will"].mean()
            cells.append(f"{recall:.2f}, {own['forecast'].mean():.1f} for {own['load'].mean():.1f}")
        print(f"| {pool} | {one.quota} | " + " | ".join(cells) + " |")


def print_peaks(drawn: dict[float, Floats], truth: dict[str, Truth], until_s: float) -> None:
    """`drawn`: for each instant the sums over pools, shape (scenarios, cells)."""
    edges = np.array(default_grid().edges_s)
    instants = np.array(list(drawn))
    real = np.zeros((len(instants), len(edges) - 1))
    for one in truth.values():
        real += np.minimum(one.quota, cell_peaks(one.submit_s, one.end_s, one.gpus, instants, edges))
    sums = np.array(list(drawn.values()))
    print("\n| cell ends at | instants | GPUs, real | drawn | " + " | ".join(f"{x:g}" for x in LEVELS) + " |")
    print("|---|---|---|---|" + "---|" * len(LEVELS))
    for cell, end_s in enumerate(edges[1:]):
        is_over = instants + end_s <= until_s
        if not is_over.any():
            continue
        held, scenarios = real[is_over, cell], sums[is_over, :, cell]
        levels = []
        for level in LEVELS:
            misses = held > np.quantile(scenarios, level, axis=1, method="higher")
            run = max((len(list(run)) for is_miss, run in groupby(misses) if is_miss), default=0)
            levels.append(f"{1 - misses.mean():.2f} ({run})")
        figures = f"{is_over.sum()} | {held.mean():.1f} | {scenarios.mean():.1f}"
        print(f"| {end_s / 60:g} min | {figures} | " + " | ".join(levels) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--train-until", type=float, required=True)
    parser.add_argument("--valid-until", type=float, required=True)
    parser.add_argument("--retrain-days", type=float, default=0.0)
    parser.add_argument("--count-quiet", action="store_true", help="SIA's own NewLoadEstimate")
    options = parser.parse_args()

    lived, truth = read(options.jobs, options.pools, options.valid_until)
    quotas = np.array([one.quota for one in truth.values()])
    begin_s = time.process_time()
    demand = fitted(lived, truth, options)
    print(f"{len(lived)} jobs, learned in {time.process_time() - begin_s:.1f} s\n")
    rows, drawn = [], {}
    for now_s in ticks(demand, lived, options):
        rows += window_rows(demand, truth, now_s, options.valid_until)
        if now_s % HOUR_S == 0:
            drawn[now_s] = np.minimum(quotas[:, None], demand.peaks(now_s)).sum(axis=1)
    table = pd.DataFrame(rows)
    print_windows(table)
    print_pools(table, truth)
    print_peaks(drawn, truth, options.valid_until)


if __name__ == "__main__":
    main()
