"""Score the demand forecasts beside three baselines, on the stretch after what they have learned from.

python -m benchmarks.demand_scores --jobs JOBS.csv --pools POOLS.csv \\
    --train-until 1036800 --valid-until 1641600 --retrain-days 1
python -m benchmarks.demand_scores --levels LEVELS.csv --train-until 864000 --valid-until 1382400

--jobs: one row a job (job_id, pool, submit_s, num_gpus, duration_s); every job is told as if it had started
on arrival, and none that is submitted later is looked at. --levels: GPUs wanted by pool and minute (pool,
time_s, gpus, quota_gpus). What is printed is what `models.demand.scoring` says.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from domain.jobs import Job
from models.demand.levels import LevelDemand
from models.demand.pools import PoolDemand
from models.demand.scoring import BASELINES, score_demand, score_levels

DAY_S = 86_400.0


def read_jobs(path: Path, until_s: float) -> list[tuple[Job, float]]:
    frame = pd.read_csv(path, dtype={"job_id": str, "pool": str})
    frame = frame[frame["submit_s"] < until_s].sort_values("submit_s", kind="stable")
    return [
        (Job(row.job_id, row.pool, float(row.submit_s), int(row.num_gpus)), float(row.duration_s))
        for row in frame.itertuples()
    ]


def read_levels(path: Path, until_s: float) -> list[tuple[float, dict[str, tuple[float, float]]]]:
    frame = pd.read_csv(path, dtype={"pool": str})
    frame = frame[frame["time_s"] <= until_s].sort_values("time_s", kind="stable")
    series: dict[float, dict[str, tuple[float, float]]] = {}
    columns = (frame[name].tolist() for name in ("time_s", "pool", "gpus", "quota_gpus"))
    for time_s, pool, gpus, quota in zip(*columns, strict=True):
        series.setdefault(time_s, {})[pool] = (gpus, quota)
    return list(series.items())


def fitted(
    lived: list[tuple[Job, float]], quotas: dict[str, int], now_s: float, retrain_every_s: float | None
) -> PoolDemand:
    early = [(job, life_s) for job, life_s in lived if job.submit_s < now_s]
    past = [one for one in early if one[0].submit_s + one[1] <= now_s]
    censored = [(job, now_s - job.submit_s) for job, life_s in early if job.submit_s + life_s > now_s]
    demand = PoolDemand(quotas, retrain_every_s=retrain_every_s)
    demand.fit(past, censored, now_s)
    return demand


def print_arrivals(scores: Mapping[float, Mapping[str, Any]]) -> None:
    print("| window | arrivals in | yes in | precision | recall |")
    print("|---|---:|---:|---:|---:|")
    for window_s, own in scores.items():
        keys = ("arrivals_in", "yes_in", "precision", "recall")
        print(f"| {window_s / 60:g} min | " + " | ".join(f"{own[key]:.3f}" for key in keys) + " |")


def print_quantiles(scores: Mapping[float, Mapping[str, Any]], targets: tuple[str, ...]) -> None:
    names = " | ".join(name.replace("_", " ") for name in BASELINES)
    print(f"\n| window | GPUs | pinball | {names} | to best | 95 % covers | after change | raw | pools |")
    print("|---|---|" + "---:|" * (len(BASELINES) + 6))
    for window_s, all_of in scores.items():
        for target in targets:
            own = all_of["held"] if target == "held" else all_of
            losses = " | ".join(f"{own['baselines'][name]:.3f}" for name in BASELINES)
            ratio = own["pinball"] / own["pinball_best_baseline"]
            raw = f"{own['coverage_95_below']:.3f} to {own['coverage_95_at_or_below']:.3f}"
            pools = "{:.2f} to {:.2f}".format(*own["coverage_95_of_pools"])
            covers = f"{own['coverage_95']:.3f} | {own['coverage_95_after_change']:.3f}"
            cells = f"{own['pinball']:.3f} | {losses} | {ratio:.2f} | {covers} | {raw} | {pools}"
            print(f"| {window_s / 60:g} min | {target} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=Path)
    parser.add_argument("--pools", type=Path)
    parser.add_argument("--levels", type=Path)
    parser.add_argument("--train-until", type=float, required=True, help="seconds")
    parser.add_argument("--valid-until", type=float, required=True, help="seconds")
    parser.add_argument("--retrain-days", type=float, default=0.0, help="0: learned once")
    options = parser.parse_args()

    span = {"from_s": options.train_until, "until_s": options.valid_until}
    retrain_every_s = options.retrain_days * DAY_S or None
    begin_s = time.process_time()
    if options.levels:
        series = read_levels(options.levels, options.valid_until)
        scores = score_levels(LevelDemand(retrain_every_s=retrain_every_s), series, **span)
        print_quantiles(scores, ("wanted",))
        for window_s, own in scores.items():
            print(f"\n{window_s / 60:g} min: pinball of the last value {own['pinball_last_value']:.3f}")
    else:
        lived = read_jobs(options.jobs, options.valid_until)
        quotas = pd.read_csv(options.pools, dtype={"pool": str}).set_index("pool")["quota_gpus"].to_dict()
        demand = fitted(lived, quotas, options.train_until, retrain_every_s)
        scores = score_demand(demand, lived, **span)
        print_arrivals(scores)
        print_quantiles(scores, ("requested", "held"))
    print(f"\n{time.process_time() - begin_s:.0f} s of one CPU")


if __name__ == "__main__":
    main()
