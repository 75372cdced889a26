"""Make data/philly_like.json: aggregate statistics of the Philly jobs submitted before the test span.

python -m benchmarks.fit_philly_like --jobs JOBS.csv --pools POOLS.csv --out data/philly_like.json
"""

import argparse
from pathlib import Path

import pandas as pd

from data.synthetic import fit

TRAIN_UNTIL_S = 1_641_600
SOURCE = (
    "Aggregate statistics of Microsoft's philly-traces (github.com/msr-fiddle/philly-traces, CC BY 4.0; "
    "Jeon et al., USENIX ATC 2019): jobs that passed, in the virtual clusters with at least 300 jobs, "
    "submitted in the first {days:g} days from 2017-09-25; quotas normalised to a load of 0.8 over the whole "
    "trace. Numbers only, no rows of the data."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--until", type=float, default=TRAIN_UNTIL_S, help="fit on submissions before this")
    options = parser.parse_args()

    jobs = pd.read_csv(options.jobs, dtype={"job_id": str, "pool": str})
    pools = pd.read_csv(options.pools, dtype={"pool": str})
    quotas = dict(zip(pools["pool"], pools["quota_gpus"].tolist(), strict=True))
    past = jobs[jobs["submit_s"] < options.until]
    source = SOURCE.format(days=options.until / 86_400)
    parameters = fit(past, quotas, span_s=options.until, source=source)
    options.out.write_text(parameters.to_json(), encoding="utf-8")
    print(f"{len(past)} of {len(jobs)} jobs, {len(parameters.pools)} pools -> {options.out}")
    for pool in parameters.pools:
        print(f"{pool.name:>8} {pool.jobs_per_day:8.1f} jobs/day, load {pool.load:.2f} on {pool.quota_gpus}")


if __name__ == "__main__":
    main()
