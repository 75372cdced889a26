"""Events per second of the engine under each policy, against the number of pools and of pending jobs.

    python -m benchmarks.engine_speed [--out benchmarks/results/engine_speed.csv] [--quick]

Each figure is the best of three runs. `ratio` is the cost of an event over that of the table's first row
of the same policy: a policy whose cost does not grow stays near 1.
"""

import argparse
import csv
import resource
import time
from pathlib import Path

import numpy as np

from data.history import from_frame, to_jobs
from data.synthetic import sia_workload
from domain.jobs import Job, JobOutcome
from simulator.engine import Engine
from simulator.truth import TrueLives
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings

RUNS = 3
COLUMNS = ("table", "policy", "size", "events", "events_per_s", "us_per_event", "ratio")
GPUS_PER_POOL = 8
Case = tuple[list[Job], dict[str, JobOutcome], dict[str, int]]


def steady(num_pools: int, num_jobs: int) -> Case:
    """SIA's synthetic workload at its own load (short queues), on so many pools, cut to so many jobs."""
    days = max(3, round(3 * 4 / num_pools * num_jobs / 500))
    made = sia_workload(1, num_pools=num_pools, gpus_per_pool=GPUS_PER_POOL, days=days)
    history = from_frame(made.frame.head(num_jobs), source="sia", quotas=made.quotas)
    jobs, outcomes = to_jobs(history.frame)
    return jobs, outcomes, made.quotas


def backlog(num_jobs: int) -> Case:
    """So many jobs submitted within one second to 16 pools: all but a few are pending."""
    rng = np.random.Generator(np.random.PCG64(1))
    quotas = {f"pool{k:02}": GPUS_PER_POOL for k in range(16)}
    widths = rng.choice([1, 2, 4, 8], size=num_jobs, p=[0.7, 0.1, 0.15, 0.05])
    lives = rng.integers(60, 6000, size=num_jobs)
    submits = rng.random(num_jobs)
    jobs = [
        Job(f"j{k:07}", f"pool{k % 16:02}", float(submits[k]), int(widths[k]), requeue_u=0.0)
        for k in range(num_jobs)
    ]
    outcomes = {
        job.job_id: JobOutcome(job.job_id, float(life)) for job, life in zip(jobs, lives, strict=True)
    }
    return jobs, outcomes, quotas


def seconds_and_events(policy: str, case: Case) -> tuple[float, int]:
    jobs, outcomes, quotas = case
    spec = POLICIES[policy]
    best_s, events = float("inf"), 0
    for _ in range(RUNS):
        context = PolicyContext(quotas, TrueLives(outcomes))
        built = spec.build(context, parse_settings(policy, spec.settings, {}))
        engine = Engine(jobs=jobs, outcomes=outcomes, capacity_gpus=sum(quotas.values()), policy=built)
        begun_s = time.perf_counter()
        schedule = engine.run()
        best_s = min(best_s, time.perf_counter() - begun_s)
        events = schedule.events
    return best_s, events


def measure(table: str, sizes: list[int], cases: dict[int, Case]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for policy in POLICIES:
        first_us: float | None = None
        for size in sizes:
            taken_s, events = seconds_and_events(policy, cases[size])
            cost_us = 1e6 * taken_s / events
            first_us = first_us or cost_us
            rate, ratio = round(events / taken_s), cost_us / first_us
            figures = (table, policy, size, events, rate, f"{cost_us:.2f}", f"{ratio:.2f}")
            rows.append(dict(zip(COLUMNS, figures, strict=True)))
            print(
                f"{table:8} {policy:9} {size:>7} {events:>8} {rate:>9}/s {cost_us:7.2f} us/event x{ratio:.2f}"
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="also write the table as CSV")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    chosen = parser.parse_args()
    num_jobs = 5_000 if chosen.quick else 40_000
    pools = [4, 16, 64] if chosen.quick else [4, 16, 64, 256]
    pending = [1_000, 4_000] if chosen.quick else [1_000, 10_000, 40_000]
    rows = measure("pools", pools, {size: steady(size, num_jobs) for size in pools})
    rows += measure("pending", pending, {size: backlog(size) for size in pending})
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak_mib:.0f} MiB")
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        with chosen.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
