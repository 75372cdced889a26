"""What is lost by choosing gangs before looking for nodes, and by groups of pools; what rows of cells cost.

    python -m benchmarks.joint_placement [--instances 200] [--large 4] [--csv FILE]

Nodes of 8; a drawn share of the idle GPUs is spread over them at random, the rest are whole nodes. Small
instances have more wide gangs than a real queue and idle GPUs for a third to all of them. Plans are judged by
the same problem, whose rows say what fits the nodes, against its exact optimum.

- counts, then nodes: the plan without rows; who finds no cells is left out.
- filled up: after that, others are offered what is left, dearest per GPU first (a replay asks again).
- groups of pools: with rows, one group after another.
- greedy: with rows.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lending_state import Planning, State, make_book, make_state
from benchmarks.replan_speed import state_of
from solver.lending.classes import each_its_own, group
from solver.lending.decomposed import DecomposedSolver
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import IntArray, LendingProblem, placeability
from solver.lending.solve import Limits
from solver.lending.value import ValueSettings
from solver.placement.cells import CellCount, place_rows

NODE_GPUS = 8
EXACT = Limits(gap=0.0, nodes=100_000, wall_s=60.0)
CLOSE = Limits(gap=1e-3, nodes=2000, wall_s=60.0)
PLANS = ("counts, then nodes", "filled up", "groups of pools", "greedy")


def free_of(rng: np.random.Generator, gpus: int, idle: int) -> IntArray:
    """Free GPUs of each node."""
    nodes = gpus // NODE_GPUS
    whole = min(int(idle * (1.0 - rng.uniform(0.3, 1.0))) // NODE_GPUS, nodes)
    spread = rng.choice((nodes - whole) * NODE_GPUS, size=idle - whole * NODE_GPUS, replace=False)
    scattered = np.bincount(spread // NODE_GPUS, minlength=nodes - whole)
    return np.concatenate([np.full(whole, NODE_GPUS), scattered]).astype(np.int64)


def asked_of(state: State, seed: int, *, is_exact: bool) -> tuple[LendingProblem, IntArray]:
    """A problem with rows, and the nodes behind them."""
    planning = Planning(state)
    planning.look(make_book(state))
    candidates = planning.candidates(ValueSettings())
    classes = each_its_own(candidates) if is_exact else group(candidates)
    asked = planning.problem(classes, planning.lines(), planning.send_back_lines(), "lowest-use")
    rng = np.random.Generator(np.random.PCG64(seed))
    free = free_of(rng, int(state.capacity), asked.idle_gpus)
    rows = place_rows(asked.width_gpus.tolist(), free, NODE_GPUS)
    return replace(asked, placeability=placeability(rows)), free


def placed(asked: LendingProblem, counts: IntArray, free: Sequence[int] | IntArray) -> IntArray:
    """As much of a choice as finds cells, in the order of the classes."""
    cells = CellCount(free, NODE_GPUS)
    widths = asked.width_gpus.tolist()
    return np.array(
        [sum(cells.admit(width) for _ in range(count)) for width, count in zip(widths, counts, strict=True)]
    )


def filled(asked: LendingProblem, counts: IntArray) -> IntArray:
    """A choice, and beside it who still fits and is worth it, dearest per GPU first."""
    done, worth = counts.copy(), asked.objective(counts)
    for one in np.argsort(-asked.value / asked.width_gpus, kind="stable").tolist():
        while done[one] < asked.count[one]:
            done[one] += 1
            more = asked.objective(done)
            if more <= worth or asked.violations(done):
                done[one] -= 1
                break
            worth = more
    return done


def small(seed: int, solver: HighsSolver) -> dict[str, float]:
    """Losses of all plans on one small instance; empty if nobody is worth lending to."""
    rng = np.random.Generator(np.random.PCG64(seed))
    state = make_state(seed, gpus=160, pools=4, running=90, waiting=40, scenarios=100, pressure=5.0)
    width = rng.choice([1, 2, 4, 8, 16], size=state.waiting.size, p=[0.4, 0.2, 0.2, 0.15, 0.05])
    idle = min(state.idle, round(int(width.sum()) * rng.uniform(0.3, 1.0)))
    state = replace(state, waiting=replace(state.waiting, width=width), idle=idle)
    asked, free = asked_of(state, seed, is_exact=True)
    best = plan_lending(asked, solver)
    if best.objective <= 0.0:
        return {}
    counted = plan_lending(replace(asked, placeability=None), solver).counts
    after = placed(asked, counted, free)
    groups = DecomposedSolver(solver, classes_per_group=1, whole_up_to=0)
    grouped = plan_lending(asked, groups).counts
    choices = dict(zip(PLANS, (after, filled(asked, after), grouped, greedy_counts(asked)), strict=True))
    row = {"seed": float(seed), "optimum": best.objective}
    row["gangs without nodes %"] = 100.0 * float((counted - after).sum()) / max(int(counted.sum()), 1)
    for name, counts in choices.items():
        row[f"{name} loss %"] = 100.0 * (1.0 - asked.objective(counts) / best.objective)
    return row


def large(seed: int) -> dict[str, float]:
    """CPU seconds of a plan with and without rows, and its gap."""
    asked, free = asked_of(state_of(10_000, seed), seed, is_exact=False)
    row = {"seed": float(seed), "classes": float(asked.num_classes), "nodes": float(free.size)}
    for name, one in (("without rows", replace(asked, placeability=None)), ("with rows", asked)):
        begun_s = time.process_time()
        plan = plan_lending(one, HighsSolver(CLOSE, is_isolated=False))
        row[f"{name} cpu s"] = time.process_time() - begun_s
        row[f"{name} gap %"] = 100.0 * plan.gap
        row[f"{name} gangs without nodes"] = float((plan.counts - placed(asked, plan.counts, free)).sum())
    return row


def print_losses(rows: list[dict[str, float]]) -> None:
    bound = [row for row in rows if row["gangs without nodes %"]]
    share = np.mean([row["gangs without nodes %"] for row in bound])
    print(f"{len(bound)} of {len(rows)} small instances in which nodes matter: of the gangs chosen by count")
    print(f"{share:.1f} % find none there")
    print("| plan | loss median % | p95 % | max % | within 0.01 % |\n|---|---:|---:|---:|---:|")
    for name in PLANS:
        lost = np.array([row[f"{name} loss %"] for row in bound])
        middle, high = np.quantile(lost, [0.5, 0.95])
        print(f"| {name} | {middle:.3f} | {high:.3f} | {lost.max():.3f} | {np.mean(lost < 0.01):.0%} |")


def print_rows(rows: list[dict[str, float]]) -> None:
    print("| " + " | ".join(rows[0]) + " |\n|" + "---:|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{value:.4g}" for value in row.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=200, help="drawn for the first table")
    parser.add_argument("--large", type=int, default=4, help="instances of the second table; 0 for none")
    parser.add_argument("--csv", type=Path, help="also write one row per small instance as CSV")
    chosen = parser.parse_args()
    solver = HighsSolver(EXACT)  # in a process of its own: it prints
    rows = [row for seed in range(chosen.instances) if (row := small(seed, solver))]
    solver.close()
    print_losses(rows)
    if chosen.csv is not None:
        chosen.csv.parent.mkdir(parents=True, exist_ok=True)
        with chosen.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: round(value, 6) for name, value in row.items()} for row in rows)
    if chosen.large:
        print_rows([large(seed) for seed in range(chosen.large)])


if __name__ == "__main__":
    main()
