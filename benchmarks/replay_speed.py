"""Time and memory of whole replays, forecasts and training included.

    python -m benchmarks.replay_speed [--jobs jobs.csv --pools pools.csv --train-until S] [--policies a,b]

Without files a generated month stands in. Each policy runs in a process of its own, one at a time.
"""

import argparse
import multiprocessing
import resource
import time
from pathlib import Path

from data.history import from_frame
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from data.synthetic import philly_like
from simulator.replay import replay
from simulator.workload import Workload, make_workload

DAYS = 30
TRAIN_DAYS = 10


def load(jobs: Path | None, pools: Path | None, train_until_s: float) -> Workload:
    if jobs is not None and pools is not None:
        quotas = read_pools(pools)
        return make_workload(
            READERS["csv"](jobs, quotas), quotas, train_until_s=train_until_s, eval_from_s=train_until_s
        )
    made = philly_like(7, days=DAYS, load=0.9)
    history = from_frame(made.frame, source="generated", quotas=made.quotas)
    cut_s = TRAIN_DAYS * 86_400.0
    return make_workload(history, made.quotas, train_until_s=cut_s, eval_from_s=cut_s)


def measure(policy: str, jobs: Path | None, pools: Path | None, train_until_s: float) -> None:
    workload = load(jobs, pools, train_until_s)
    begun_s = time.perf_counter()
    done = replay(workload, policy, {})
    taken_s = time.perf_counter() - begun_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = round(done.schedule.events / taken_s)
    print(f"{policy:13} {len(workload.jobs):>7} jobs {taken_s:7.1f} s {rate:>8} events/s {peak_mib:5.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path)
    parser.add_argument("--pools", type=Path)
    parser.add_argument("--train-until", type=float, default=0.0)
    parser.add_argument("--policies", default="fcfs,maxmin,reclaim,sia,anticipatory")
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for policy in chosen.policies.split(","):
        process = context.Process(
            target=measure, args=(policy, chosen.jobs, chosen.pools, chosen.train_until)
        )
        process.start()
        process.join()


if __name__ == "__main__":
    main()
