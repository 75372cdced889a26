"""How large the instances may be that both exact oracles solve, and whether they find the same optimum.

python -m benchmarks.oracle_sizes --csv benchmarks/results/oracle_sizes.csv --sizes 20 40 60 --seeds 10

The first jobs of SIA's workload in whole minutes, their submits drawn together so that they wait. Each
instance is solved as CP-SAT intervals and as the time-indexed MILP, with deterministic limits; --wall is the
kill switch. Rows that the file has already are not measured again. Exits with 1 where the two contradict
each other: both proven and not equal, or a schedule better than the other's bound.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.sia_yardstick import STEP_S, Row, read, write
from data.history import from_frame, to_jobs
from data.synthetic import sia_workload
from solver.oracle.instance import Instance, rounded_up
from solver.oracle.intervals import solve_intervals
from solver.oracle.result import Limits, OracleResult, Status
from solver.oracle.time_indexed import solve_time_indexed

SOLVERS: Final[dict[str, Callable[[Instance, float, Limits], OracleResult]]] = {
    "intervals": solve_intervals,
    "time-indexed": solve_time_indexed,
}
COLUMNS: Final = ("jobs", "seed", "solver", "waiting_min", "bound_min", "status", "ended_by", "cpu_s")


def crowded(seed: int, count: int) -> Instance:
    """The first jobs of SIA's workload in whole minutes, their submits drawn together."""
    made = sia_workload(seed, load_scale=1.05)
    jobs, outcomes = to_jobs(from_frame(made.frame, source="sia", quotas=made.quotas).frame)
    jobs = [replace(one, submit_s=one.submit_s // 1.5) for one in jobs[:count]]
    lengths_s = {one.job_id: outcomes[one.job_id].duration_s for one in jobs}
    return Instance.of(*rounded_up(jobs, lengths_s, STEP_S), made.quotas)


def measured(asked: Instance, solver: str, limits: Limits) -> Row:
    """One solver's answer."""
    begun_s = time.process_time()
    result = SOLVERS[solver](asked, STEP_S, limits)
    return {
        "solver": solver,
        "waiting_min": f"{result.waiting_s / 60:g}",
        "bound_min": f"{result.bound_s / 60:g}",
        "status": result.status.value,
        "ended_by": result.ended_by.value,
        "cpu_s": f"{time.process_time() - begun_s:.1f}",
    }


def contradictions(rows: list[Row]) -> list[str]:
    """Instances in which one solver's schedule is better than the other's bound allows."""
    found = []
    for size, seed in sorted({(int(row["jobs"]), int(row["seed"])) for row in rows}):
        of = [row for row in rows if (row["jobs"], row["seed"]) == (str(size), str(seed))]
        least, bound = (
            min(float(row["waiting_min"]) for row in of),
            max(float(row["bound_min"]) for row in of),
        )
        if bound > least + 1e-6:
            found.append(f"{size} jobs, seed {seed}: a schedule of {least:g} min, a bound of {bound:g} min")
    return found


def table(rows: list[Row]) -> None:
    """Print one line per size and solver."""
    print("| jobs | solver | instances | proven | largest gap % | CPU p50 s | CPU worst s |")
    print("|---|---|---|---|---|---|---|")
    for size in sorted({int(row["jobs"]) for row in rows}):
        for solver in SOLVERS:
            mine = [row for row in rows if row["jobs"] == str(size) and row["solver"] == solver]
            if mine:
                proven = sum(row["status"] == Status.OPTIMAL.value for row in mine)
                cpu_s = [float(row["cpu_s"]) for row in mine]
                print(
                    f"| {size} | {solver} | {len(mine)} | {proven} | {max(map(gap_pct, mine)):.2f} "
                    f"| {median(cpu_s):.1f} | {max(cpu_s):.1f} |"
                )


def gap_pct(row: Row) -> float:
    """What is not proven, percent of the waiting."""
    waiting, bound = float(row["waiting_min"]), float(row["bound_min"])
    return 100.0 * (waiting - bound) / waiting if waiting > 0.0 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 40, 60])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--work", type=float, default=60.0, help="deterministic seconds of CP-SAT")
    parser.add_argument("--wall", type=float, default=600.0)
    options = parser.parse_args()
    rows = read(options.csv)
    known = {tuple(row[name] for name in COLUMNS[:3]) for row in rows}
    asked = [
        (size, seed, solver) for size in options.sizes for seed in range(options.seeds) for solver in SOLVERS
    ]
    for size, seed, solver in asked:
        if (str(size), str(seed), solver) in known:
            continue
        row = measured(crowded(seed, size), solver, Limits(work=options.work, wall_s=options.wall))
        rows.append({"jobs": str(size), "seed": str(seed)} | row)
        write(options.csv, rows, COLUMNS)
    table(rows)
    wrong = contradictions(rows)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
