"""What a whole decision between two plans costs: lanes, books and lending, not the answer of the plan alone.

python -m benchmarks.decision_speed [--pools 30] [--days 2] [--load 1.0]

`planned` replays a generated cluster, once for each way to answer between plans. Processor time of each
decision that did not plan and after which somebody still waits or has just been lent to.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from data.history import from_frame
from data.synthetic import philly_like
from domain.plans import Plan
from simulator.replay import replay
from simulator.workload import Workload, make_workload
from solver.policies.planned import Between, Planned

DAY_S = 86_400.0


@contextmanager
def timed() -> Iterator[list[float]]:
    """Milliseconds of the decisions of `planned` that did not plan, where somebody waits."""
    spent_ms: list[float] = []
    decide = Planned.decide

    def measured(self: Planned, now_s: float, idle_gpus: int) -> Plan:
        waiting = bool(self._jobs)
        begun_s = time.process_time()
        plan = decide(self, now_s, idle_gpus)
        if waiting and self.plan_behind() is None:
            spent_ms.append(1e3 * (time.process_time() - begun_s))
        return plan

    Planned.decide = measured  # type: ignore[method-assign]
    try:
        yield spent_ms
    finally:
        Planned.decide = decide  # type: ignore[method-assign]


def workload(pools: int, days: float, load: float, seed: int) -> Workload:
    """A generated cluster; the first day is learned from."""
    made = philly_like(seed, days=days, load=load, num_pools=pools)
    history = from_frame(made.frame, source="generated", quotas=made.quotas)
    return make_workload(history, made.quotas, train_until_s=DAY_S, eval_from_s=DAY_S)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pools", type=int, default=30)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    given = workload(asked.pools, asked.days, asked.load, asked.seed)
    print("| between | GPUs | decisions | p50 ms | p99 ms |\n|---|---:|---:|---:|---:|")
    for between in Between:
        with timed() as spent_ms:
            replay(given, "planned", {"between": between.value})
        p50, p99 = np.quantile(spent_ms, [0.5, 0.99])
        gpus = sum(given.cluster.quotas().values())
        print(f"| {between.value} | {gpus:,} | {len(spent_ms):,} | {p50:.2f} | {p99:.2f} |", flush=True)


if __name__ == "__main__":
    main()
