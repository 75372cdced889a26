"""HiGHS against CP-SAT on the same lending problems, to the same gap.

    python -m benchmarks.lending_solvers [--instances 6] [--gpus 10000] [--csv FILE]

One thread each, in this process; CPU seconds, building the model included, hint and checks left out. Every
instance is solved with budgets of 0.05, 0.2 and 0.5 jobs.
"""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lending_state import Planning, make_book
from benchmarks.replan_speed import state_of
from solver.lending.classes import group
from solver.lending.cpsat import CpSatSolver
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver
from solver.lending.problem import LendingProblem
from solver.lending.solve import LendingSolver, Limits
from solver.lending.value import ValueSettings

BUDGETS = (0.05, 0.2, 0.5)
LIMITS = Limits(gap=1e-3, nodes=2000, work=10.0, wall_s=120.0)


def problems(gpus: int, instances: int) -> list[LendingProblem]:
    found = []
    for seed in range(instances):
        state = state_of(gpus, seed)
        planning = Planning(state)
        planning.look(make_book(state))
        classes = group(planning.candidates(ValueSettings()))
        lines, send_back = planning.lines(), planning.send_back_lines()
        asked = planning.problem(classes, lines, send_back, "lowest-use")
        found += [replace(asked, budget_jobs=budget) for budget in BUDGETS]
    return found


def measured(name: str, solver: LendingSolver, asked: list[LendingProblem]) -> dict[str, object]:
    taken_s, gaps, broken, objectives = [], [], 0, []
    for one in asked:
        hint = greedy_counts(one)
        begun_s = time.process_time()
        answer = solver.solve(one, hint)
        taken_s.append(time.process_time() - begun_s)
        if answer.counts is None:
            gaps.append(np.inf)
            objectives.append(one.objective(hint))
            continue
        objectives.append(one.objective(answer.counts))
        gaps.append(answer.bound / objectives[-1] - 1.0)
        broken += bool(one.violations(answer.counts))
    return {
        "solver": name,
        "problems": len(asked),
        "cpu p50 s": round(float(np.quantile(taken_s, 0.5)), 3),
        "cpu p95 s": round(float(np.quantile(taken_s, 0.95)), 3),
        "cpu max s": round(max(taken_s), 3),
        "gap p50 %": round(100.0 * float(np.quantile(gaps, 0.5)), 4),
        "gap max %": round(100.0 * max(gaps), 4),
        "over the budget by rounding": broken,
        "objective sum": round(float(np.sum(objectives)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=6)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--csv", type=Path)
    chosen = parser.parse_args()
    asked = problems(chosen.gpus, chosen.instances)
    rows = [
        measured("HiGHS", HighsSolver(LIMITS, is_isolated=False), asked),
        measured("CP-SAT", CpSatSolver(LIMITS), asked),
    ]
    print("| " + " | ".join(rows[0]) + " |")
    print("|---|" + "---:|" * (len(rows[0]) - 1))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    if chosen.csv is not None:
        chosen.csv.parent.mkdir(parents=True, exist_ok=True)
        with chosen.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
