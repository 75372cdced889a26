"""Choices of `packing` on workloads made of the past alone: sixteen of them, for means that tell something.

Each has widths in fixed shares, lives and hours of day drawn from jobs that ended before the benchmark
begins, arrivals stretched to a load of 1.1 to 1.2, models and deadlines drawn at random. Nothing of the
benchmark's own jobs is looked at.

    python -m benchmarks.packing_validation --bench BENCH/packing --out var/validation packing lucid
"""

import argparse
import csv
import math
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import pandas as pd

from app.services.compare import Choice, parse_choice
from app.services.ingest import Inputs, Source, load
from benchmarks.rows import say
from data.pairs import PairTable, read_pairs
from simulator.replay import replay

WIDTHS: Final = {1: 0.74, 2: 0.04, 4: 0.15, 8: 0.06, 16: 0.01}
"""Shares of the jobs by width."""
LEARNED_UNTIL_S: Final = -9 * 86_400.0
LONGEST_S: Final = 86_400.0
LOADS: Final = (1.1, 1.2)
GPUS: Final = 32
SETS: Final = 8


class Made(NamedTuple):
    """A workload: its number of jobs, seed, and shortest life, seconds."""

    num_jobs: int
    seed: int
    shortest_s: float


def workloads() -> list[Made]:
    """Eight of 150 jobs and eight of 300."""
    return [Made(150, seed, 1500.0) for seed in range(SETS)] + [
        Made(300, 10 + seed, 60.0) for seed in range(SETS)
    ]


def write(made: Made, past: pd.DataFrame, models: Sequence[str], path: Path) -> None:
    """Draw a workload and write it as CSV."""
    rng = random.Random(made.seed)  # noqa: S311 - no secret
    short = past[past["duration_s"] <= LONGEST_S]
    usual = short[(short["duration_s"] >= made.shortest_s) & (short["num_gpus"] <= max(WIDTHS))]
    drawn: list[tuple[int, float]] = []
    for width, share in WIDTHS.items():
        pool = usual[usual["num_gpus"] == width]
        lives = (pool if len(pool) else short[short["num_gpus"] == width])["duration_s"].tolist()
        drawn += [(width, rng.choice(lives)) for _ in range(round(made.num_jobs * share))]
    submits = usual["submit_s"].tolist()
    jobs = sorted((rng.choice(submits), width, life_s) for width, life_s in drawn)
    first_s, last_s = jobs[0][0], jobs[-1][0]
    work = sum(width * life_s for _, width, life_s in jobs)
    stretch = work / (rng.uniform(*LOADS) * GPUS) / (last_s - first_s)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("job_id", "pool", "submit_s", "num_gpus", "duration_s", "model", "deadline_s"))
        for k, (at_s, width, life_s) in enumerate(jobs):
            submit_s, life = round((at_s - first_s) * stretch), round(life_s)
            model, deadline_s = rng.choice(models), round(submit_s + rng.uniform(1.5, 2.5) * life)
            writer.writerow((f"v{k:05d}", "all", submit_s, width, life, model, deadline_s))


def make_all(bench: Path, out: Path) -> list[Inputs]:
    """Write all workloads, and read them as a replay does."""
    out.mkdir(parents=True, exist_ok=True)
    past = pd.read_csv(bench / "history.csv").sort_values("submit_s", kind="stable")
    models = read_pairs(bench / "pairs.csv").models
    history = out / "history.csv"
    past[past["submit_s"] + past["duration_s"] < LEARNED_UNTIL_S].to_csv(history, index=False)
    found = []
    for made in workloads():
        path = out / f"jobs_{made.num_jobs}_{made.seed}.csv"
        write(made, past, models, path)
        source = Source(
            path, bench / f"pools_{GPUS}.csv", history, nodes=bench / f"nodes_{GPUS}.csv", eval_from_s=0.0
        )
        found.append(load(source))
    return found


class Measures(NamedTuple):
    """Mean completion time and queueing, seconds; share of deadlines met; last end, hours."""

    jct_s: float
    queue_s: float
    in_time: float
    makespan_h: float


def measured(inputs: Inputs, choice: Choice, pairs: PairTable) -> Measures:
    """One replay."""
    done = replay(inputs.workload, choice.policy, choice.settings, pairs=pairs)
    jobs = inputs.workload.jobs
    starts, ends = done.schedule.first_starts(), done.schedule.last_ends()
    in_time = [ends[job.job_id] <= (job.deadline_s or math.inf) for job in jobs]
    first_s = min(job.submit_s for job in jobs)
    return Measures(
        fmean(ends[job.job_id] - job.submit_s for job in jobs),
        fmean(starts[job.job_id] - job.submit_s for job in jobs),
        fmean(map(float, in_time)),
        (max(ends.values()) - first_s) / 3600.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--bench", type=Path, required=True, help="folder with history, pairs, pools, nodes")
    parser.add_argument("--out", type=Path, required=True, help="folder for the workloads")
    parser.add_argument("policies", nargs="+", help="policies, with settings as name:key=value:key=value")
    chosen = parser.parse_args()
    pairs = read_pairs(chosen.bench / "pairs.csv")
    every = make_all(chosen.bench, chosen.out)
    say("geometric means; deadlines: arithmetic mean")
    for text in chosen.policies:
        found = [measured(inputs, parse_choice(text), pairs) for inputs in every]
        jct, queue, last = (math.exp(fmean(math.log(max(1e-9, row[k])) for row in found)) for k in (0, 1, 3))
        in_time = fmean(row.in_time for row in found)
        say(f"{text}: JCT {jct:.0f} s, queue {queue:.0f} s, in time {in_time:.3f}, makespan {last:.2f} h")


if __name__ == "__main__":
    main()
