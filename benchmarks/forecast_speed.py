"""What forecasts cost: bulk queries of lives, learning from one job, scenarios.

python -m benchmarks.forecast_speed [--jobs 5000] [--out benchmarks/results/forecast_speed.csv]

Each line: the best and the median of many repetitions, in milliseconds of one core, and the limit there is.
"""

import argparse
import csv
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from app.services.kept_models import kept_or_made, key_of
from data.history import from_frame, to_jobs
from data.synthetic import philly_like
from domain.forecasts import LIFE_EDGES_S
from models import Training
from models.backtest import Kind, facts, learn, record_of
from models.lifetime.bulk import alive_shares
from models.lifetime.hazard import HazardLifetimes
from simulator.forecasting import ForecastChoice, build
from simulator.workload import before

DAY_S = 86_400.0
AHEAD_S = np.array([60.0 * 2**k for k in range(12)])
COLUMNS = ("what", "size", "best_ms", "median_ms", "limit_ms")


def timed(call: Callable[[], object], times: int) -> tuple[float, float]:
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        spent.append(1e3 * (time.perf_counter() - begun))
    return min(spent), statistics.median(spent)


def bulk(number: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    hazards = rng.uniform(0.01, 0.3, (number, len(LIFE_EDGES_S)))
    curves, ages_s = np.cumprod(1.0 - hazards, axis=1), rng.uniform(0.0, DAY_S, number)
    best, median = timed(lambda: alive_shares(curves, ages_s, AHEAD_S), 200)
    return dict(zip(COLUMNS, ("S(age + t) / S(age)", f"{number} jobs x 12", best, median, 5.0), strict=True))


def stream() -> list[dict[str, object]]:
    """Training, then one job after another: told its submit, start and end, and asked nine quantiles."""
    frame = from_frame(philly_like(3, days=14, num_pools=8).frame, source="generated").frame
    record = record_of(frame, np.inf)
    model = HazardLifetimes(half_life_s=10 * DAY_S)
    begun = time.perf_counter()
    learn(model, record, 10 * DAY_S)
    fit_ms = 1e3 * (time.perf_counter() - begun)
    told, asked = [], []
    for fact in facts(record, 10 * DAY_S, np.inf):
        job = record.jobs[fact.place]
        begun = time.perf_counter()
        if fact.kind is Kind.SUBMITTED:
            model.submitted(job, fact.at_s)
            told.append(1e3 * (time.perf_counter() - begun))
            begun = time.perf_counter()
            [model.quantile_s(job, level / 10) for level in range(1, 10)]
            asked.append(1e3 * (time.perf_counter() - begun))
        elif fact.kind is Kind.STARTED:
            model.started(job, fact.at_s)
        else:
            model.ended(job, fact.at_s, float(record.lived_s[fact.place]))
    past = len(to_jobs(frame[frame["submit_s"] < 10 * DAY_S])[0])
    return [
        dict(zip(COLUMNS, ("train once", f"{past} jobs", fit_ms, fit_ms, None), strict=True)),
        dict(
            zip(
                COLUMNS,
                ("features of a submit", "1 job", min(told), statistics.median(told), None),
                strict=True,
            )
        ),
        dict(
            zip(
                COLUMNS,
                ("curve, nine quantiles", "1 job", min(asked), statistics.median(asked), None),
                strict=True,
            )
        ),
    ]


def kept() -> list[dict[str, object]]:
    """Forecasters of a desk, trained and kept, and then read back as a process that starts again does."""
    frame = from_frame(philly_like(3, days=14, num_pools=8).frame, source="generated").frame
    past, censored = before(frame, 13 * DAY_S)
    quotas = {str(pool): 64 for pool in sorted(frame["pool"].unique())}
    training = Training(quotas, past, censored, 13 * DAY_S)
    choice = ForecastChoice("hazard", "corrected", 0.0)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for what in ("train lives and demand, keep them", "read them back"):
            begun = time.process_time()
            key = key_of(choice, training, frame, [])
            kept_or_made(Path(folder), key, choice, training, lambda: build(choice, training))
            spent_ms = 1e3 * (time.process_time() - begun)
            row = (what, f"{len(past)} jobs", spent_ms, spent_ms, None)
            rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [bulk(options.jobs), *stream(), *kept()]
    print("| what | size | best ms | median ms | limit ms |")
    print("|---|---|---:|---:|---:|")
    for row in rows:
        limit = "" if row["limit_ms"] is None else f"{row['limit_ms']:g}"
        print(f"| {row['what']} | {row['size']} | {row['best_ms']:.3f} | {row['median_ms']:.3f} | {limit} |")
    if options.out is not None:
        with options.out.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
