"""What classes, greedy and groups of pools lose against the exact model, on instances small enough for it.

    python -m benchmarks.aggregation_loss [--instances 300] [--large 6] [--csv FILE]

The exact model has one binary per job with the job's own life curve, on the same risk lines. Every other
plan is judged as a choice of jobs in that model: its loss is 1 - its objective / the exact optimum. 10 to 40
jobs wait in 4 pools of 160 GPUs together, in bursts of up to five (`benchmarks.lending_state`). The budget
is a random share, 5 to 60 %, of what starting everybody would risk; idle GPUs are cut so that a random
share, 30 to 120 %, of the width that waits fits. The second table is the same at the size of
`benchmarks.replan_speed`, 2,000 jobs that wait in 30 pools of 10,000 GPUs, where the exact model is solved
to a gap of 0.01 %.
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lending_state import Planning, make_book, make_state
from solver.lending.classes import DEFAULT_CLASSES, JobClasses, each_its_own, group
from solver.lending.decomposed import DecomposedSolver
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import IntArray, LendingProblem
from solver.lending.send_backs import one_level
from solver.lending.solve import Limits
from solver.lending.value import ValueSettings

LEAST_RISK_JOBS = 0.001
EXACT = Limits(gap=0.0, nodes=100_000, wall_s=60.0)


class Instance:
    """One problem, job by job, and the same in classes."""

    def __init__(self, planning: Planning, idle: int, budget_share: float) -> None:
        self._candidates = planning.candidates(ValueSettings())
        self._lines = planning.lines()
        self._send_back = planning.send_back_lines()
        self._idle = idle
        self._value = float(np.median(self._candidates.value))
        self._own = each_its_own(self._candidates)
        everybody = np.ones(len(self._own.members), dtype=np.int64)
        self.risk_of_all = self._problem(self._own, 1e9).risk_jobs(everybody)
        self.budget = budget_share * self.risk_of_all
        self.exact = self._problem(self._own, self.budget)

    def _problem(self, classes: JobClasses, budget: float) -> LendingProblem:
        return classes.problem(
            idle_gpus=self._idle,
            risk=self._lines,
            budget_jobs=budget,
            price=0.1 * self._value,
            send_back=one_level(self._send_back),
            send_back_price=0.02 * self._value,
        )

    def by_classes(self, solver: HighsSolver, max_classes: int) -> tuple[IntArray, int]:
        """Choice of jobs that the plan in classes makes, and how many classes."""
        classes = group(self._candidates, max_classes)
        row = {ids[0]: k for k, ids in enumerate(self._own.members)}
        members = [[row[job_id] for job_id in ids] for ids in classes.members]

        def jobs_of(counts: IntArray) -> IntArray:
            chosen = np.zeros(self.exact.num_classes, dtype=np.int64)
            for ids, count in zip(members, counts.tolist(), strict=True):
                chosen[ids[:count]] = 1
            return chosen

        asked = self._problem(classes, self.budget)
        plan = plan_lending(asked, solver, lambda counts: self.exact.risk_jobs(jobs_of(counts)))
        return jobs_of(plan.counts), len(members)


def small(seed: int) -> Instance:
    rng = np.random.Generator(np.random.PCG64(seed))
    jobs = int(rng.integers(10, 41))
    state = make_state(seed, gpus=160, pools=4, running=90, waiting=jobs, scenarios=100, pressure=5.0)
    planning = Planning(state)
    planning.look(make_book(state))
    width = int(state.waiting.width.sum())
    idle = max(1, min(state.idle, round(width * rng.uniform(0.3, 1.2))))
    return Instance(planning, idle, float(rng.uniform(0.05, 0.6)))


def large(seed: int) -> Instance:
    rng = np.random.Generator(np.random.PCG64(seed))
    state = make_state(seed)
    planning = Planning(state)
    planning.look(make_book(state))
    return Instance(planning, state.idle, float(rng.uniform(0.05, 0.6)))


def judged(instance: Instance, solver: HighsSolver, per_group: int, coarse: int) -> dict[str, float]:
    """Losses of all plans; empty if there is nothing to weigh."""
    if instance.risk_of_all < LEAST_RISK_JOBS:
        return {}
    best = plan_lending(instance.exact, solver)
    if best.objective <= 0.0:
        return {}
    row: dict[str, float] = {"jobs": instance.exact.num_classes, "optimum": best.objective}
    groups = DecomposedSolver(solver, classes_per_group=per_group, whole_up_to=0)
    choices: dict[str, IntArray] = {}
    choices["classes"], row["classes"] = instance.by_classes(solver, DEFAULT_CLASSES)
    choices["coarse classes"], row["coarse classes"] = instance.by_classes(solver, coarse)
    choices["groups of pools"] = plan_lending(instance.exact, groups).counts
    choices["greedy"] = greedy_counts(instance.exact)
    for name, counts in choices.items():
        broken = instance.exact.violations(counts)
        if broken:
            raise RuntimeError(f"{name}: {broken}")
        row[f"{name} loss %"] = 100.0 * (1.0 - instance.exact.objective(counts) / best.objective)
    return row


def print_table(title: str, rows: list[dict[str, float]], asked: int) -> None:
    jobs, fine, coarse = (
        np.array([row[name] for row in rows]) for name in ("jobs", "classes", "coarse classes")
    )
    print(f"{title}: {len(rows)} instances, {asked - len(rows)} more with next to no risk;")
    print(f"jobs per class {np.mean(jobs / fine):.2f}, and {np.mean(jobs / coarse):.2f} coarse")
    print("| plan | loss median % | p95 % | max % | within 0.01 % |")
    print("|---|---:|---:|---:|---:|")
    for name in ("classes", "coarse classes", "groups of pools", "greedy"):
        lost = np.array([row[f"{name} loss %"] for row in rows])
        middle, high, most = np.median(lost), np.quantile(lost, 0.95), lost.max()
        print(f"| {name} | {middle:.3f} | {high:.3f} | {most:.3f} | {np.mean(lost < 0.01):.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=300, help="drawn for the first table")
    parser.add_argument("--large", type=int, default=6, help="instances of the second table; 0 for none")
    parser.add_argument("--csv", type=Path, help="also write one row per instance as CSV")
    chosen = parser.parse_args()
    exact = HighsSolver(EXACT, is_isolated=False)
    rows = []
    for seed in range(chosen.instances):
        one = small(seed)
        rows.append(judged(one, exact, 1, coarse=max(4, one.exact.num_classes // 2)))
    kept = [{"seed": seed, **row} for seed, row in enumerate(rows) if row]
    print_table("10 to 40 jobs", kept, chosen.instances)
    if chosen.large:
        close = HighsSolver(replace(EXACT, gap=1e-4), is_isolated=False)
        found = [judged(large(seed), close, 400, coarse=800) for seed in range(chosen.large)]
        more = [{"seed": seed, **row} for seed, row in enumerate(found) if row]
        print_table("2,000 jobs", more, chosen.large)
        kept += more
    if chosen.csv is not None:
        chosen.csv.parent.mkdir(parents=True, exist_ok=True)
        with chosen.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(kept[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: round(value, 6) for name, value in row.items()} for row in kept)


if __name__ == "__main__":
    main()
