"""How often the interval in which a waiting job was expected to start held its real start.

A generated cluster is replayed once to its end and once up to each of several instants; there, whoever waits
is explained, and the interval is set against the start in the full replay.
"""

import argparse
import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.services.ingest import Source, load
from data.synthetic import philly_like, write_csv
from simulator.replay import replay
from simulator.waiting import explain_at
from simulator.workload import Workload

_DAY_S = 86_400.0
_SETTINGS = {
    "fcfs": {},
    "reclaim": {"requeueable": "0.5"},
    "sia": {},
    "anticipatory": {"lives": "learned", "arrivals": "learned"},
}
_COLUMNS = ("policy", "waiting", "inside_pct", "earlier_pct", "later_pct")


def measure(workload: Workload, policy: str, instants_s: Sequence[float]) -> dict[str, object]:
    """One row: of all jobs that waited at the instants, how many started inside their interval."""
    schedule = replay(workload, policy, _SETTINGS[policy]).schedule
    starts: dict[str, list[float]] = {}
    for stretch in schedule.stretches:
        starts.setdefault(stretch.job_id, []).append(stretch.start_s)
    asked = earlier = later = 0
    for at_s in instants_s:
        for one in explain_at(workload, policy, _SETTINGS[policy], at_s).waiting:
            start_s = min(start_s for start_s in starts[one.job.job_id] if start_s >= at_s)
            asked += 1
            earlier += one.earliest_s is not None and start_s < one.earliest_s
            later += one.latest_s is not None and start_s > one.latest_s
    shares = [100.0 * count / asked if asked else 0.0 for count in (asked - earlier - later, earlier, later)]
    return dict(zip(_COLUMNS, (policy, asked, *(f"{share:.1f}" for share in shares)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=float, default=4.0, help="days of jobs to generate")
    parser.add_argument("--load", type=float, default=1.1, help="average load of each pool")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--instants", type=int, default=6, help="how many instants to ask at")
    parser.add_argument("--policies", default=",".join(_SETTINGS), help=f"of {', '.join(_SETTINGS)}")
    parser.add_argument("--csv", type=Path, help="write the rows here, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(philly_like(asked.seed, days=asked.days, load=asked.load, num_pools=4), folder)
        begins_s = asked.days * _DAY_S * 0.3
        workload = load(Source(folder / "jobs.csv", folder / "pools.csv", train_until_s=begins_s)).workload
    step_s = (asked.days * _DAY_S - begins_s) / (asked.instants + 1)
    instants_s = [begins_s + step_s * (k + 1) for k in range(asked.instants)]
    rows = [measure(workload, policy, instants_s) for policy in asked.policies.split(",")]
    print("| " + " | ".join(_COLUMNS) + " |")
    print("|---" * len(_COLUMNS) + "|")
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in _COLUMNS) + " |")
    if asked.csv is not None:
        with asked.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
