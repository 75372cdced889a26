"""What would be known of lives if each name's own future were: a bound on ordering jobs by their names.

python -m benchmarks.hindsight --jobs var/traces/google2011.csv --from 1209600 --longest 2e6

Each job submitted from --from on is given the mean ln life of the *other* jobs of its user and name submitted
from then on, later ones too, or where there are none those of its user; printed is the C-index of that. No
forecast may know this. Lives beyond --longest are records without an end and are left out.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from data.readers import READERS
from models.scores import concordance


def others_mean(frame: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Mean ln life of the other jobs with the same keys, NaN where there are none."""
    groups = frame.groupby(keys, dropna=False)["ln_life"]
    number = groups.transform("count")
    return (groups.transform("sum") - frame["ln_life"]) / (number - 1).where(number > 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--from", dest="from_s", type=float, required=True)
    parser.add_argument("--longest", type=float, default=float("inf"))
    options = parser.parse_args()
    frame = READERS["csv"](options.jobs, None).frame
    frame = frame[(frame["submit_s"] >= options.from_s) & (frame["duration_s"] < options.longest)].copy()
    frame["ln_life"] = np.log(np.maximum(frame["duration_s"], 1.0))
    said = others_mean(frame, ["user", "name"]).fillna(others_mean(frame, ["user"]))
    said = said.fillna(frame["ln_life"].mean())
    found = concordance(said.to_numpy(), frame["duration_s"].to_numpy(), np.ones(len(frame), bool))
    print(f"{len(frame):,} jobs: C-index {found:.3f}")


if __name__ == "__main__":
    main()
