"""SIA's synthetic yardstick against the exact oracle: how long jobs wait, and how many are slowed.

python -m benchmarks.sia_yardstick --csv benchmarks/results/sia_yardstick.csv

Pools of 8 GPUs with the paper's bursts, widths and lives, in whole minutes: two weeks to learn from, then
three days that are replayed on an empty cluster. The oracle is the time-indexed MILP on a grid of a minute;
it stops after --nodes nodes (deterministic; --wall is the kill switch) and states what it has proven by
then. Rows that the file has already are not measured again.
"""

import argparse
import csv
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from data.history import from_frame
from data.synthetic import sia_workload
from domain.measures import is_slowed, speedup_of_means
from simulator.replay import replay
from simulator.report import Lived, reference_of
from simulator.workload import Workload, make_workload
from solver.oracle.instance import Instance
from solver.oracle.result import Limits
from solver.oracle.time_indexed import solve_time_indexed

STEP_S: Final = 60.0
DAY_S: Final = 86_400.0
ORACLE: Final = "oracle"
POLICIES: Final[dict[str, dict[str, str]]] = {
    "planned-perfect": {"moves": "1000", "heat": "0.2"},
    "anticipatory-perfect": {},
    "sia-perfect": {},
    "sia-vc": {},
    "sia": {},
    "maxmin": {},
    "gssf": {},
    "fcfs": {},
}
COLUMNS: Final = (
    "pools",
    "load_scale",
    "seed",
    "policy",
    "jobs",
    "waiting_h",
    "bound_h",
    "speedup_ratio_of_means",
    "slowed",
    "worst_min",
    "status",
    "cpu_s",
)
KEY: Final = COLUMNS[:4]
Row = dict[str, str]


def yardstick(pools: int, load_scale: float, seed: int, learn_days: float, days: float) -> Workload:
    """The workload in whole minutes."""
    made = sia_workload(seed, num_pools=pools, days=learn_days + days, load_scale=load_scale)
    frame = made.frame.copy()
    for name in ("submit_s", "duration_s"):
        frame[name] = (np.ceil(frame[name] / STEP_S) * STEP_S).astype(np.int64)
    history = from_frame(frame, source="sia", quotas=made.quotas)
    begin_s = learn_days * DAY_S
    return make_workload(history, made.quotas, train_until_s=begin_s, eval_from_s=begin_s)


def measured(workload: Workload, lived: Lived) -> Row:
    """What a schedule did to the jobs."""
    reference = reference_of(workload)
    late_s = [lived.end_s[job.job_id] - reference.end_s[job.job_id] for job in workload.jobs]
    waiting_s = math.fsum(lived.start_s[job.job_id] - job.submit_s for job in workload.jobs)
    ratio = speedup_of_means(
        [reference.end_s[job.job_id] - job.submit_s for job in workload.jobs],
        [lived.end_s[job.job_id] - job.submit_s for job in workload.jobs],
    )
    return {
        "jobs": str(len(workload.jobs)),
        "waiting_h": f"{waiting_s / 3600:.4f}",
        "bound_h": "",
        "speedup_ratio_of_means": f"{ratio:.4f}",
        "slowed": str(sum(is_slowed(late) for late in late_s)),
        "worst_min": f"{max(0.0, *late_s) / 60:.1f}",
        "status": "",
    }


def by_oracle(workload: Workload, limits: Limits) -> Row:
    """The oracle's row: its best schedule and what it has proven."""
    lengths_s = workload.durations_s()
    asked = Instance.of(workload.jobs, lengths_s, workload.cluster.quotas())
    result = solve_time_indexed(asked, STEP_S, limits)
    ends_s = {job_id: start_s + lengths_s[job_id] for job_id, start_s in result.starts_s.items()}
    row = measured(workload, Lived(result.starts_s, ends_s))
    return row | {"bound_h": f"{result.bound_s / 3600:.4f}", "status": result.reason or result.status}


def by_policy(workload: Workload, policy: str) -> Row:
    """A policy's row."""
    lived = Lived.of(replay(workload, policy, POLICIES[policy], may_see_truth=True).schedule)
    return measured(workload, lived)


def missing(
    options: argparse.Namespace, known: set[tuple[str, ...]]
) -> Iterator[tuple[int, float, int, str]]:
    """Instances and policies that are not measured yet."""
    for pools in options.pools:
        for scale in options.scales:
            for seed in options.seeds:
                for policy in (ORACLE, *POLICIES):
                    if (str(pools), f"{scale:g}", str(seed), policy) not in known:
                        yield pools, scale, seed, policy


def table(rows: list[Row]) -> None:
    """Print one line per policy and size: waiting over the oracle's, each instance counting the same."""
    oracle = {tuple(row[name] for name in KEY[:3]): row for row in rows if row["policy"] == ORACLE}
    print("| pools | policy | waiting / oracle's | worst | / proven bound | ratio of means | slowed |")
    print("|---|---|---|---|---|---|---|")
    for pools in sorted({row["pools"] for row in rows}):
        for policy in (ORACLE, *POLICIES):
            mine = [row for row in rows if row["pools"] == pools and row["policy"] == policy]
            pairs = [(row, oracle.get(tuple(row[name] for name in KEY[:3]))) for row in mine]
            found = [(row, best) for row, best in pairs if best is not None]
            if not found:
                continue
            to_oracle = [float(row["waiting_h"]) / float(best["waiting_h"]) for row, best in found]
            waited = sum(float(row["waiting_h"]) for row, _ in found)
            proven = sum(float(best["bound_h"]) for _, best in found)
            ratio = fmean(float(row["speedup_ratio_of_means"]) for row, _ in found)
            slowed, jobs = (sum(int(row[name]) for row, _ in found) for name in ("slowed", "jobs"))
            print(
                f"| {pools} | {policy} | {fmean(to_oracle):.2f} | {max(to_oracle):.2f} "
                f"| {waited / proven:.2f} | {ratio:.2f} | {slowed} of {jobs:,} |"
            )


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Row], columns: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--pools", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--learn-days", type=float, default=14.0)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--wall", type=float, default=1200.0)
    options = parser.parse_args()
    rows = read(options.csv)
    limits = Limits(nodes=options.nodes, wall_s=options.wall)
    for pools, scale, seed, policy in missing(options, {tuple(row[n] for n in KEY) for row in rows}):
        workload = yardstick(pools, scale, seed, options.learn_days, options.days)
        begun_s = time.process_time()
        row = by_oracle(workload, limits) if policy == ORACLE else by_policy(workload, policy)
        key = dict(zip(KEY, (str(pools), f"{scale:g}", str(seed), policy), strict=True))
        rows.append(key | row | {"cpu_s": f"{time.process_time() - begun_s:.1f}"})
        write(options.csv, rows, COLUMNS)
    table(rows)


if __name__ == "__main__":
    main()
