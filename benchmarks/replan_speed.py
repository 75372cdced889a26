"""How long a full replan of the lending takes, and a decision from the plan that stands.

    python -m benchmarks.replan_speed [--instances 20] [--sizes 1000 2500 ... 50000] [--csv FILE]
    python -m benchmarks.replan_speed --rides 200 [--instances 20] [--sizes 10000]

All instances at 10,000 GPUs, a quarter of them at the other sizes. Rows that the CSV has are kept.

A replan: life book and need ahead, risk lines, values and classes, hint and integer program until the exact
risk fits the budget, and 2,000 fresh draws. Synthetic states (`benchmarks.lending_state`): 30 pools and
2,000 waiting jobs at 10,000 GPUs, and in proportion. Wall seconds are what a user waits for; CPU seconds
(solver in this process) are what a busy machine does not blur. Budgets of 0.05, 0.5 and 5 jobs in turn: the
first binds, the last does not.

With `--rides` every instance is planned twice, one right after the other: as it is, and with so many
generated candidates for riding. Printed are seconds with them, and in brackets how many times the seconds
without; no CSV is written.
"""

import argparse
import csv
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.lending_state import (
    Planning,
    State,
    chosen_rows,
    make_book,
    make_rides,
    make_state,
    rows_of,
)
from solver.lending.classes import DEFAULT_CLASSES, JobClasses, group
from solver.lending.decomposed import DecomposedSolver
from solver.lending.incremental import Arrival, OpenPlan
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import IntArray, LendingPlan, LendingProblem
from solver.lending.solve import LendingSolver, Limits
from solver.lending.value import ValueSettings
from solver.lending.verify import verify
from solver.packing.rides import Ride

BUDGETS = (0.05, 0.5, 5.0)
SIZES = [1_000, 2_500, 5_000, 10_000, 25_000, 50_000]
MAIN_GPUS = 10_000
EVENTS = 1000
COMPARED = {"total wall": ("total", "wall_s"), "total cpu": ("total", "cpu_s"), "plan cpu": ("plan", "cpu_s")}
STAGES = ("look ahead", "lines", "classes", "plan", "verify", "total")


@dataclass
class Watch:
    """Wall and CPU seconds of the stages of one replan."""

    wall_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def lap(self, stage: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.wall_s[stage], self.cpu_s[stage] = wall - self._wall, cpu - self._cpu
        self._wall, self._cpu = wall, cpu

    def done(self) -> None:
        self.wall_s["total"], self.cpu_s["total"] = sum(self.wall_s.values()), sum(self.cpu_s.values())


@dataclass
class Replan:
    watch: Watch
    plan: LendingPlan
    problem: LendingProblem
    classes: JobClasses
    planning: Planning
    verified_jobs: float
    standard_error: float


def replan(
    state: State, solver: LendingSolver, max_classes: int, seed: int, rides: Sequence[Ride] = ()
) -> Replan:
    """One full replan; rides are given, as they are what a policy enumerates."""
    book = make_book(state)  # kept up to date by events, so not part of a replan
    watch = Watch()
    planning = Planning(state)
    planning.look(book)
    watch.lap("look ahead")
    lines, send_back = planning.lines(), planning.send_back_lines()
    watch.lap("lines")
    classes = group(planning.candidates(ValueSettings()), max_classes)
    problem = planning.problem(classes, lines, send_back, "lowest-use")
    problem = planning.with_rides(problem, classes, rides) if rides else problem
    rows = rows_of(classes)
    watch.lap("classes")

    def started(choice: IntArray) -> IntArray:
        if not rides:
            return chosen_rows(rows, choice)
        return np.array([int(one[1:]) for one in problem.started(classes.members, choice)], dtype=np.int64)

    plan = plan_lending(problem, solver, lambda choice: planning.exact_risk(started(choice)), classes.members)
    watch.lap("plan")
    starts = np.zeros(state.waiting.size, dtype=bool)
    starts[started(plan.choice(problem))] = True
    found = verify(planning.situation(), starts & ~state.waiting.can_go_back, seed)
    watch.lap("verify")
    watch.done()
    return Replan(watch, plan, problem, classes, planning, found.slowed_jobs, found.standard_error)


def decisions_ms(done: Replan, seed: int) -> list[float]:
    """Milliseconds of single decisions: arrivals, ends and lost nodes in a random order."""
    rng = np.random.Generator(np.random.PCG64(seed))
    problem = done.problem
    margin = (done.plan.exact_risk_jobs or 0.0) / max(done.plan.risk_jobs, 1e-9)
    opened = OpenPlan(problem, done.plan.counts, done.classes.members, margin)
    standing = list(done.plan.job_ids)
    taken_ms = []
    # CPU time: what other processes do in between is none of a decision's
    for number in range(EVENTS):
        kind, one = rng.random(), int(rng.integers(problem.num_classes))
        width, is_requeueable = int(problem.width_gpus[one]), bool(problem.is_requeueable[one])
        value = float(problem.value[one])
        arrival = Arrival(f"n{number}", width, value, problem.alive_gpus[one].copy(), is_requeueable)
        begun_s = time.process_time()
        if kind < 0.65 or not standing:
            if opened.arrived(arrival).starts:
                standing.append(arrival.job_id)
        elif kind < 0.99:
            opened.ended(standing.pop(int(rng.integers(len(standing)))))
        else:
            opened.lost(8, 1)
        taken_ms.append(1000.0 * (time.process_time() - begun_s))
    return taken_ms


def state_of(gpus: int, seed: int) -> State:
    """In proportion to 10,000 GPUs; pools grow more slowly."""
    pools = {1_000: 10, 50_000: 100}.get(gpus, max(2, round(0.3 * gpus**0.5)))
    state = make_state(seed, gpus=gpus, pools=pools, running=gpus // 2, waiting=gpus // 5)
    return replace(state, budget=BUDGETS[seed % len(BUDGETS)])


def measure(gpus: int, instances: int, solver: LendingSolver, max_classes: int) -> dict[str, object]:
    replans: list[Watch] = []
    events_ms: list[float] = []
    gaps, rounds, classes, over, cut = [], [], [], 0, 0
    for seed in range(instances):
        state = state_of(gpus, seed)
        done = replan(state, solver, max_classes, seed)
        replans.append(done.watch)
        events_ms += decisions_ms(done, seed)
        gaps.append(done.plan.gap)
        rounds.append(done.plan.rounds)
        classes.append(done.problem.num_classes)
        cut += done.plan.is_cut
        over += done.verified_jobs - 2 * done.standard_error > state.budget
    row: dict[str, object] = {"gpus": gpus, "instances": instances}
    for stage in STAGES:
        for name, of in (("wall", "wall_s"), ("cpu", "cpu_s")):
            taken = [getattr(watch, of)[stage] for watch in replans]
            row[f"{stage} {name} p50 s"] = round(float(np.quantile(taken, 0.5)), 4)
            row[f"{stage} {name} p95 s"] = round(float(np.quantile(taken, 0.95)), 4)
    row["classes p50"] = int(np.median(classes))
    row["rounds max"] = max(rounds)
    row["gap max %"] = round(100.0 * max(gaps), 4)
    row["cut by wall"] = cut
    row["over budget by draws"] = int(over)
    row["decision p50 ms"] = round(float(np.quantile(events_ms, 0.5)), 4)
    row["decision p99 ms"] = round(float(np.quantile(events_ms, 0.99)), 4)
    row["peak MiB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return row


def compare(
    gpus: int, instances: int, solver: LendingSolver, max_classes: int, size: int
) -> dict[str, object]:
    """Each instance with and without candidates for riding, in turn which comes first."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in COMPARED}
    chosen, gaps, over, cut = [], [], 0, 0
    for seed in range(instances):
        state = state_of(gpus, seed)
        rides = make_rides(state, size, seed)
        pair = (0, 1) if seed % 2 else (1, 0)
        done = {one: replan(state, solver, max_classes, seed, rides if one else ()) for one in pair}
        for (stage, clock), (without, with_them) in zip(COMPARED.values(), taken.values(), strict=True):
            without.append(getattr(done[0].watch, clock)[stage])
            with_them.append(getattr(done[1].watch, clock)[stage])
        chosen.append(len(done[1].plan.rides))
        gaps.append(done[1].plan.gap)
        cut += done[1].plan.is_cut
        slowed = done[1].verified_jobs + done[1].plan.ride_jobs
        over += slowed - 2 * done[1].standard_error > state.budget
    row: dict[str, object] = {"gpus": gpus, "instances": instances, "rides": size}
    for name, (without, with_them) in taken.items():
        for level in (0.5, 0.95, 0.99):
            before, after = (float(np.quantile(one, level)) for one in (without, with_them))
            row[f"{name} p{100 * level:.0f} s"] = f"{after:.3f} ({after / before:.2f} x)"
    row["ride p50"] = int(np.median(chosen))
    row["gap max %"] = round(100.0 * max(gaps), 4)
    row["cut by wall"], row["over budget by draws"] = cut, int(over)
    return row


def print_compared(rows: list[dict[str, object]]) -> None:
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---:|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


def print_table(rows: list[dict[str, object]]) -> None:
    names = ("total wall p50 s", "total wall p95 s", "total cpu p50 s", "total cpu p95 s")
    names += ("plan cpu p95 s", "verify cpu p95 s", "classes p50", "rounds max", "gap max %", "cut by wall")
    names += ("over budget by draws", "decision p50 ms", "decision p99 ms", "peak MiB")
    print("| GPUs | instances | solved | " + " | ".join(names) + " |")
    print("|---:|---:|---|" + "---:|" * len(names))
    for row in rows:
        print(
            f"| {int(str(row['gpus'])):,} | {row['instances']} | {row['solved']} | "
            + " | ".join(str(row[name]) for name in names)
            + " |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--decompose-from", type=int, default=25_000, help="GPUs from which groups are solved too"
    )
    parser.add_argument(
        "--wall-limit-s",
        type=float,
        default=Limits().wall_s,
        help="kill switch of a plan; out of reach where a busy machine is to tell CPU time",
    )
    parser.add_argument("--rides", type=int, default=0, help="compare with so many candidates for riding")
    parser.add_argument("--isolated", action="store_true", help="solver in a process of its own")
    parser.add_argument("--csv", type=Path, help="also write all stages as CSV")
    chosen = parser.parse_args()
    if chosen.rides:
        highs = HighsSolver(Limits(wall_s=chosen.wall_limit_s), is_isolated=chosen.isolated)
        print_compared(
            [compare(gpus, chosen.instances, highs, DEFAULT_CLASSES, chosen.rides) for gpus in chosen.sizes]
        )
        highs.close()
        return
    rows = read_rows(chosen.csv)
    done = {(str(row["solved"]), int(str(row["gpus"]))) for row in rows}
    highs = HighsSolver(Limits(wall_s=chosen.wall_limit_s), is_isolated=chosen.isolated)
    for gpus in chosen.sizes:
        instances = chosen.instances if gpus == MAIN_GPUS else max(3, chosen.instances // 4)
        is_large = gpus >= chosen.decompose_from
        classes = DEFAULT_CLASSES * 4 if is_large else DEFAULT_CLASSES
        solvers: dict[str, LendingSolver] = {"whole": highs}
        if is_large:
            solvers["by groups"] = DecomposedSolver(highs)
        for name, solver in solvers.items():
            if (name, gpus) not in done:
                rows.append({"solved": name, **measure(gpus, instances, solver, classes)})
                write_rows(chosen.csv, rows)
    highs.close()
    print_table(sorted(rows, key=lambda row: (int(str(row["gpus"])), str(row["solved"]))))


def read_rows(path: Path | None) -> list[dict[str, object]]:
    """Rows that are there already: those are not measured again."""
    if path is None or not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [dict(row) for row in csv.DictReader(file)]


def write_rows(path: Path | None, rows: list[dict[str, object]]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
