"""How good lifetime forecasts are: variants of our model beside the baselines, chosen on a validation span.

python -m benchmarks.lifetime_scores --jobs ../shared/bench/philly-pools/jobs.csv
python -m benchmarks.lifetime_scores --jobs var/traces/venus.csv --shares 0.5,0.7

Any file in the canonical columns will do. Trained on what had ended by --train-until, scored on the jobs
submitted from then until --valid-until, forecast at their submit by models told the record as it happens;
nothing submitted later is told to anybody. With --shares the two instants are those at which these shares of
the jobs had been submitted. What a scored job lived beyond --cut is not looked at: it counts with its age.
`antecast evaluate` prints the same of the model in use, on any split.
"""

import argparse
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from data.readers import READERS
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from models.backtest import Record, forecasts_at_submit, learn, record_of
from models.evaluation.lives import BASELINES, groups, scores_of, tails
from models.lifetime.hazard import HazardLifetimes

DAY_S = 86_400.0


class RunningTables(HazardLifetimes):
    """The hazard model's running life tables by themselves: told the same, never trained."""

    def survival(self, job: Job) -> tuple[float, ...]:
        return self.table_survival(job)


MODELS: dict[str, Callable[[], LifetimeForecaster]] = {
    **BASELINES,
    "running tables": RunningTables,
    "hazard": lambda: HazardLifetimes(half_life_s=10 * DAY_S),
    "hazard, unforgetting": HazardLifetimes,
    "hazard, retrained": lambda: HazardLifetimes(retrain_every_s=2 * DAY_S, half_life_s=10 * DAY_S),
}


def scored(record: Record, make: Callable[[], LifetimeForecaster], from_s: float) -> dict[str, Any]:
    model = make()
    begun_s = time.process_time()
    learn(model, record, from_s)
    fit_s = time.process_time() - begun_s
    made = forecasts_at_submit(model, record, from_s, math.inf)
    each_us = 1e6 * (time.process_time() - begun_s - fit_s) / max(1, len(made.places))
    found: dict[str, Any] = dict(scores_of(record, made))
    within = groups(record, made)
    for kind in ("pools", "user_deciles"):
        shares = [row["coverage_80"] for row in within[kind]]
        found[f"{kind}: lowest coverage_80"] = min(shares, default=math.nan)
        found[f"{kind}: highest coverage_80"] = max(shares, default=math.nan)
    found["groups outside 70-90 %"] = within["outside_70_90"]
    for row in tails(record, made):
        given = f" given > {row['given_h']:g} h" if row["given_h"] else ""
        found[f"> {row['beyond_h']:g} h{given}: said"] = row["said"]
        found[f"> {row['beyond_h']:g} h{given}: seen"] = row["seen"]
    return found | {"fit, CPU s": fit_s, "all per forecast, CPU us": each_us}


def print_table(columns: Mapping[str, Mapping[str, float]]) -> None:
    print(f"| {'':34} | " + " | ".join(f"{name:>20}" for name in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for measure in dict.fromkeys(name for column in columns.values() for name in column):
        cells = (f"{column.get(measure, math.nan):20,.3f}" for column in columns.values())
        print(f"| {measure:34} | " + " | ".join(cells) + " |")


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--train-until", type=float, default=12 * DAY_S)
    parser.add_argument("--valid-until", type=float, default=18 * DAY_S)
    parser.add_argument("--cut", type=float, help="default: day 19, or with --shares no cut")
    parser.add_argument("--shares", help="two shares of the jobs by submit, in place of the instants")
    parser.add_argument("--models", default=";".join(MODELS), help="which ones, by name, between semicolons")
    return parser.parse_args()


def main() -> None:
    options = chosen()
    frame = READERS["csv"](options.jobs, None).frame
    train_until_s, valid_until_s = options.train_until, options.valid_until
    cut_s = options.cut if options.cut is not None else math.inf if options.shares else 19 * DAY_S
    if options.shares:
        submits_s = frame["submit_s"].to_numpy()
        train_until_s, valid_until_s = (
            float(submits_s[min(int(float(share) * len(submits_s)), len(submits_s) - 1)])
            for share in options.shares.split(",")
        )
    record = record_of(frame[frame["submit_s"] < valid_until_s], cut_s)
    print(f"jobs submitted from {train_until_s:,.0f} to {valid_until_s:,.0f} s\n")
    print_table({name: scored(record, MODELS[name], train_until_s) for name in options.models.split(";")})


if __name__ == "__main__":
    main()
