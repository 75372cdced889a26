"""What forecasts over HTTP cost once warm, and what it adds to a decision to say who waits.

    python -m benchmarks.forecast_api [--days 14] [--times 40]

A service in this process, its forecasts in its warm child, on a generated cluster of 8 pools: 1,000 jobs a
call, each different from all others and told of by its fields at submit; demand of all pools for a day by the
hour. Before that, without a service, what it takes to find the reasons of a cluster with 5,000 jobs that run
and 2,000 that wait. Milliseconds; wall clock, so run it on an idle machine.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from app.store.engine import upgrade
from benchmarks.live_world import begin, ok, serving
from data.history import from_frame, to_jobs
from data.synthetic import philly_like
from domain.jobs import Job
from solver.explain.codes import Waits, starts_by_limits
from solver.plan_rules import STRICT, Known, Standing, state_of
from solver.policies.base import Lends

DAY_S = 86_400.0
JOBS = 1_000
LEVELS = [0.1, 0.25, 0.5, 0.75, 0.9]


def timed(what: str, call: Callable[[], object], times: int) -> None:
    """Print median, 95th percentile and most, milliseconds."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        spent.append(1e3 * (time.perf_counter() - begun))
    spent.sort()
    p95 = spent[min(int(0.95 * len(spent)), len(spent) - 1)]
    print(f"{what}: median {statistics.median(spent):.2f} ms, p95 {p95:.2f} ms, most {spent[-1]:.2f} ms")


def over_http(days: float, times: int) -> None:
    """Forecasts of a cluster that has learned from so many days."""
    made = philly_like(3, days=days + 4.0, num_pools=8)
    frame = from_frame(made.frame, source="generated", quotas=made.quotas).frame
    coming = to_jobs(frame[frame["submit_s"] >= days * DAY_S])[0][:JOBS]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/antecast.db"
        upgrade(url)
        with serving(url) as (client, _):
            begin(client, url, "c", made.quotas, frame[frame["submit_s"] < days * DAY_S], days * DAY_S)
            jobs = [
                {
                    "job": {
                        "pool": job.pool,
                        "num_gpus": job.num_gpus,
                        "user": job.user,
                        "name": f"{job.name}-{k}",
                    }
                }
                for k, job in enumerate(coming)
            ]
            body = {"jobs": jobs, "levels": LEVELS, "within_s": [3600.0, DAY_S]}
            path = "/v1/clusters/c/forecasts"
            begun = time.perf_counter()
            while ok(client.post(f"{path}/lifetime", json=body))["held_out"]["state"] == "pending":
                time.sleep(0.5)
            print(f"trained, and scored beside: {time.perf_counter() - begun:.1f} s")
            timed(
                f"lifetimes of {len(jobs)} jobs",
                lambda: ok(client.post(f"{path}/lifetime", json=body)),
                times,
            )
            timed("demand of 8 pools, 24 steps", lambda: ok(client.get(f"{path}/demand")), times)


def reasons(times: int) -> None:
    """Reasons of the first of 2,000 jobs that wait, beside 5,000 that run."""
    quotas = {f"p{k:02d}": 334 for k in range(30)}
    names = list(quotas)
    line = [
        Known(
            Job(f"r{k}", names[k % 30], float(k), 2, limit_s=9e4), Standing.OWN if k % 10 else Standing.GUEST
        )
        for k in range(5_000)
    ]
    line += [Known(Job(f"w{k}", names[k % 30], 5_000.0 + k, 8, limit_s=9e4)) for k in range(2_000)]
    state = state_of(9_000.0, 4, quotas, line)
    waits = Waits(state, STRICT, Lends.REQUEUEABLE, True, True, ())
    started_s = {f"r{k}": float(k) for k in range(5_000)}
    timed("reasons of 100 of 2,000 that wait", lambda: waits.first(100), times)
    timed("and by when, by limits", lambda: starts_by_limits(state, started_s, set(quotas)), times)


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=float, default=14.0, help="of history")
    parser.add_argument("--times", type=int, default=40, help="calls of each kind")
    given = parser.parse_args()
    reasons(10 * given.times)
    over_http(given.days, given.times)


if __name__ == "__main__":
    main()
