"""The lending problem of one instant, and the plan that answers it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.lending.curves import FloatArray, RiskLines
from solver.lending.rides import RideRows, started
from solver.lending.send_backs import SendBacks
from solver.placement.cells import PlaceRows

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Vector = NDArray[Any]
"""One number per class, and maybe one per ride after them."""

TOLERANCE: Final = 1e-5
"""Slack, relative to the side it is compared with, that rounding may use up: ten times a solver's own."""

SAME_WORTH: Final = 1e-6
"""Worths that differ by less are the same to a solver, in units of value (`LendingProblem.value_unit`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Utility:
    """Concave gain of pools from the GPUs they get, beside the value of the jobs: how pools are treated.

    For each pool u_p = min over its lines of (slope x GPUs granted + intercept); the plan gains the sum.

    Attributes:
        slope, intercept: (pools, lines) value per GPU, and value at none.
    """

    slope: FloatArray
    intercept: FloatArray

    def __post_init__(self) -> None:
        if self.slope.ndim != 2 or self.slope.shape != self.intercept.shape:
            raise ValueError(f"slopes {self.slope.shape} and intercepts {self.intercept.shape} differ")
        if (self.slope < 0.0).any():
            raise ValueError("a pool does not lose by getting more")

    def at(self, granted_gpus: FloatArray) -> FloatArray:
        """(pools,) gain at (pools,) GPUs granted."""
        lines = self.slope * granted_gpus[:, None] + self.intercept
        return np.asarray(lines.min(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Placeability:
    """What fits the nodes: at each level, the units all chosen jobs need against those there are.

    Attributes:
        units: (levels, classes) cells of at least the level's size that one job of the class takes.
        available: (levels,) such cells there are.
    """

    units: FloatArray
    available: FloatArray

    def __post_init__(self) -> None:
        if self.units.ndim != 2 or self.available.shape != self.units.shape[:1]:
            raise ValueError(f"units {self.units.shape} and available {self.available.shape} do not fit")
        if (self.units < 0.0).any() or (self.available < 0.0).any():
            raise ValueError("units and what is available are at least 0")


def placeability(rows: PlaceRows) -> Placeability:
    """Rows of cells, one gang of each class a column; where too few are left for what is held, none are."""
    return Placeability(rows.taken.astype(float), np.maximum(rows.free, 0).astype(float))


@dataclass(frozen=True, slots=True, eq=False)
class LendingProblem:
    """Which of the waiting jobs to start early, in classes of jobs that are alike.

    maximise  sum_c value_c n_c + utility - price x sum_k r_k - send_back_price x sum_jk (s_j - s_j-1) q_jk
    subject to sum_c width_c n_c <= idle, sum_k r_k <= budget, 0 <= n_c <= count_c, the rows of
    placeability, r_k = risk_k(x_k), q_jk = send_back_jk(x_k + y_jk), where x_k sums alive_ck n_c over the
    classes that must run to their end and y_jk over those that can be sent back and then repeat a share
    of at least s_j (`solver.lending.send_backs`).

    Where jobs may ride with others (`solver.lending.rides`), a binary u_q for each candidate gains value_q -
    price x charge_q, takes charge_q of the budget and one job of its class: n_c + sum_q u_q <= count_c.

    A *choice* is what solvers look for: the counts, class by class, and after them the rides, 0 or 1 each;
    one that is as long as the counts lets nobody ride.

    Attributes:
        pool: (classes,) rank of the pool.
        width_gpus: (classes,) of one job.
        count: (classes,) jobs that wait.
        value: (classes,) of one job, at least 0.
        alive_gpus: (classes, cells) what one started job adds to the need of each cell, GPUs.
        is_requeueable: (classes,) whether its jobs can be sent back.
        idle_gpus: GPUs that may be lent now.
        risk: jobs slowed, cell by cell, by guests that must run to their end.
        budget_jobs: how many may be expected to be slowed; at 0 (or below) only jobs that can be sent
            back are lent to.
        price: value one job slowed is worth.
        send_back: what it costs to send guests back when the chosen ones hold so many GPUs ahead, by the
            share that they repeat.
        send_back_price: value of one GPU of a cell all of whose work is repeated.
        repeats: (classes,) share of its run that being sent back costs a job, in (0, 1]: work to repeat and
            time to be back; None: all of it. Of those that must run to their end it means nothing.
        utility: how pools are treated; None where the values say it all.
        placeability: rows of what fits the nodes; None where only counts are planned.
        rides: candidates for riding; None where nobody may.

    Raises:
        ValueError: if shapes differ or a number makes no sense.
    """

    pool: IntArray
    width_gpus: IntArray
    count: IntArray
    value: FloatArray
    alive_gpus: FloatArray
    is_requeueable: BoolArray
    idle_gpus: int
    risk: RiskLines
    budget_jobs: float
    price: float = 0.0
    send_back: SendBacks | None = None
    send_back_price: float = 0.0
    repeats: FloatArray | None = None
    utility: Utility | None = None
    placeability: Placeability | None = None
    rides: RideRows | None = None

    def __post_init__(self) -> None:
        shape = self.pool.shape
        columns = (self.width_gpus, self.count, self.value, self.is_requeueable)
        if len(shape) != 1 or any(column.shape != shape for column in columns):
            raise ValueError("pool, width, count, value and is_requeueable have one entry per class")
        if self.alive_gpus.shape != (*shape, self.risk.num_cells):
            raise ValueError(f"alive_gpus is {self.alive_gpus.shape}, not classes x cells")
        if self.send_back is not None and self.send_back.num_cells != self.risk.num_cells:
            raise ValueError("risk and send_back are of different grids")
        if self.placeability is not None and self.placeability.units.shape[1] != shape[0]:
            raise ValueError("placeability is of other classes")
        if self.repeats is not None and self.repeats.shape != shape:
            raise ValueError("repeats has one entry per class")
        if self.rides is not None and (self.rides.of_class >= shape[0]).any():
            raise ValueError("a ride is of a class that there is not")
        self._check_numbers()

    def _check_numbers(self) -> None:
        if (self.width_gpus < 1).any() or (self.count < 0).any() or (self.pool < 0).any():
            raise ValueError("widths are at least 1, counts and pools at least 0")
        if not (np.isfinite(self.value).all() and np.isfinite(self.alive_gpus).all()):
            raise ValueError("values and GPUs alive are finite")
        if (self.value < 0.0).any() or (self.alive_gpus < 0.0).any():
            raise ValueError("values and GPUs alive are at least 0")
        if self.idle_gpus < 0 or self.price < 0.0 or self.send_back_price < 0.0:
            raise ValueError("idle_gpus and prices are at least 0")
        if self.repeats is not None and not ((self.repeats > 0.0) & (self.repeats <= 1.0)).all():
            raise ValueError("shares repeated lie in (0, 1]")
        if not np.isfinite(self.budget_jobs):
            raise ValueError(f"the budget is {self.budget_jobs} jobs")

    @property
    def num_classes(self) -> int:
        """Classes of waiting jobs."""
        return int(self.pool.size)

    @property
    def num_rides(self) -> int:
        """Candidates for riding."""
        return 0 if self.rides is None else self.rides.size

    @property
    def value_unit(self) -> float:
        """Value of the dearest start or ride, 1 where none is worth anything: the unit solvers count in."""
        dearest = float(self.value.max(initial=0.0))
        if self.rides is not None:
            dearest = max(dearest, float(self.rides.value.max(initial=0.0)))
        return dearest or 1.0

    @property
    def allowed_jobs(self) -> float:
        """The budget, and what rounding may use up beside it."""
        return max(self.budget_jobs, 0.0) * (1.0 + TOLERANCE) + 1e-9

    def most(self) -> IntArray:
        """(classes,) the most jobs of each class that can start by width, count and budget."""
        fits = np.minimum(self.count, self.idle_gpus // self.width_gpus)
        if self.budget_jobs <= 0.0:
            fits = np.where(self.is_requeueable, fits, 0)
        return np.asarray(fits, dtype=np.int64)

    def most_rides(self) -> IntArray:
        """(rides,) 1 for those that may be chosen by budget and are worth their price, else 0."""
        if self.rides is None:
            return np.zeros(0, dtype=np.int64)
        pays = self.rides.value > self.price * self.rides.charge_jobs
        return (self._may_ride(self.rides) & pays).astype(np.int64)

    def _may_ride(self, rides: RideRows) -> BoolArray:
        """(rides,) whether the budget allows each by itself; without one it is as with those who start."""
        if self.budget_jobs > 0.0:
            return np.asarray(rides.is_open & (rides.charge_jobs <= self.allowed_jobs))
        return np.asarray(rides.is_open & (rides.charge_jobs == 0.0) & self.is_requeueable[rides.of_class])

    def bounds(self) -> IntArray:
        """(classes + rides,) the most of each entry of a choice."""
        return np.concatenate([self.most(), self.most_rides()])

    def with_lines_budget(self, budget_jobs: float) -> "LendingProblem":
        """The same problem when the lines may use so much, as they say too much or too little of the risk.

        Charges of rides are no lines: each still takes the same share of the budget, and costs its price.
        """
        if self.rides is None or self.budget_jobs <= 0.0:
            return replace(self, budget_jobs=budget_jobs)
        rides = self.rides.scaled(budget_jobs / self.budget_jobs, self.price)
        return replace(self, budget_jobs=budget_jobs, rides=rides)

    def starts_of(self, choice: Vector) -> Vector:
        """(classes,) the counts of a choice."""
        return choice[: self.num_classes]

    def rides_of(self, choice: Vector) -> Vector:
        """(rides,) which rides a choice takes."""
        taken = choice[self.num_classes :]
        return taken if taken.size else np.zeros(self.num_rides, dtype=choice.dtype)

    def started(self, members: Sequence[Sequence[str]], choice: IntArray) -> tuple[str, ...]:
        """Ids of the jobs that a choice starts by themselves; `members` are those of each class in order."""
        riding = frozenset[str]() if self.rides is None else self.rides.riding(self.rides_of(choice))
        return started(members, self.starts_of(choice).tolist(), riding)

    def lent_ahead(self, choice: Vector) -> FloatArray:
        """(cells,) x: GPUs that chosen guests which must run to their end still hold."""
        return np.asarray(np.where(self.is_requeueable, 0, self.starts_of(choice)) @ self.alive_gpus)

    def holds(self) -> BoolArray:
        """(levels, classes) whether a class holds GPUs at each level of `send_back`; one level without it."""
        if self.send_back is None or self.repeats is None:
            levels = 1 if self.send_back is None else self.send_back.levels.size
            return np.ones((levels, self.num_classes), dtype=np.bool_)
        return self.send_back.holds(np.where(self.is_requeueable, self.repeats, 1.0))

    def held_ahead(self, choice: Vector) -> FloatArray:
        """(levels, cells) x + y_j: the same of the chosen guests of each level and above."""
        holds, counts = self.holds(), self.starts_of(choice)
        if holds.shape[0] == 1:
            return np.asarray(counts @ self.alive_gpus)[None, :]
        return np.asarray(np.where(holds, counts, 0) @ self.alive_gpus)

    def ride_jobs(self, choice: Vector) -> float:
        """Jobs expected to be slowed by the rides."""
        return 0.0 if self.rides is None else float(self.rides_of(choice) @ self.rides.charge_jobs)

    def risk_jobs(self, choice: Vector) -> float:
        """Jobs expected to be slowed: by the lines, and by the rides."""
        return float(self.risk.at(self.lent_ahead(choice)).sum()) + self.ride_jobs(choice)

    def send_backs(self, choice: Vector) -> float:
        """Expected cost of sending guests back, by the lines, before its price."""
        if self.send_back is None:
            return 0.0
        return float(self.send_back.at(self.held_ahead(choice)))

    def objective(self, choice: Vector) -> float:
        """What a choice is worth, whether it keeps to the rows or not."""
        counts = self.starts_of(choice)
        worth = float(counts @ self.value) - self.price * self.risk_jobs(choice)
        if self.rides is not None:
            worth += float(self.rides_of(choice) @ self.rides.value)
        worth -= self.send_back_price * self.send_backs(choice)
        if self.utility is not None:
            granted = np.bincount(  # GPUs by pool
                self.pool, weights=counts * self.width_gpus, minlength=self.utility.slope.shape[0]
            )
            worth += float(self.utility.at(granted.astype(float)).sum())
        return worth

    def violations(self, choice: IntArray) -> tuple[str, ...]:
        """Rows a choice breaks, in words; empty if it is a plan."""
        found: list[str] = []
        if choice.size not in (self.num_classes, self.num_classes + self.num_rides):
            return (f"{choice.size} counts for {self.num_classes} classes and {self.num_rides} rides",)
        counts = self.starts_of(choice)
        asked = counts
        if self.rides is not None:
            taken = self.rides_of(choice)
            found += self.rides.violations(taken)
            if (taken[~self._may_ride(self.rides)] > 0).any():
                found.append("a ride that the budget does not allow")
            asked = counts + self.rides.by_class(taken, self.num_classes)
        if (counts < 0).any() or (asked > self.count).any():
            found.append("a class starts more jobs than wait, or fewer than none")
        used = int(counts @ self.width_gpus)
        if used > self.idle_gpus:
            found.append(f"{used} GPUs of {self.idle_gpus} idle ones")
        if self.budget_jobs <= 0.0 and bool((counts[~self.is_requeueable] > 0).any()):
            found.append("a guest that must run to its end, without a budget")
        risk = self.risk_jobs(choice)
        if risk > self.allowed_jobs:
            found.append(f"{risk:.6g} jobs expected to be slowed, {self.budget_jobs:.6g} allowed")
        if self.placeability is not None:
            taken = self.placeability.units @ counts
            if (taken > self.placeability.available * (1.0 + TOLERANCE) + 1e-9).any():
                found.append("more cells than there are")
        return tuple(found)


def gap_of(objective: float, bound: float, value_unit: float) -> float:
    """How far what is worth `objective` may be from the best, as a share of the larger of it and the bound.

    It is 0 where both are the same to a solver: of a plan worth nothing, rounding would else be any number
    of per cent. Infinite where there is no bound.
    """
    if not np.isfinite(bound):
        return float("inf")
    missing = bound - objective
    return 0.0 if missing <= SAME_WORTH * value_unit else missing / max(abs(objective), abs(bound))


class PlanStatus(StrEnum):
    """What is known about a plan, within the lines of the round it was chosen in (`LendingPlan.bound`)."""

    OPTIMAL = "optimal"
    """No choice is better by more than the gap that was asked for."""
    FEASIBLE = "feasible"
    """Checked; a limit ended the search before more was proven."""
    GREEDY = "greedy"
    """The greedy plan: no solver was asked, or it had nothing to say."""
    EMPTY = "empty"
    """Nothing is lent, and `reason` says why."""


class Fallback(StrEnum):
    """What stood in for the solver's own answer."""

    NONE = "none"
    GREEDY_BETTER = "greedy-better"
    """The solver's plan was worse than the greedy one, within the gap or because a limit ended it."""
    GREEDY_NO_ANSWER = "greedy-no-answer"
    """The solver found nothing that passes the check before its limit."""
    KILLED = "killed"
    """The solver did not stop at its limit and was stopped from outside."""
    TRIMMED = "trimmed"
    """Guests were taken out again, because the exact risk stayed above the budget."""
    FAILED_DRAWS = "failed-draws"
    """Guests were taken out again, because fresh draws slow more jobs than the budget allows."""


@dataclass(frozen=True, slots=True, eq=False)
class LendingPlan:
    """Which jobs to start early, and how good that is.

    Attributes:
        counts: (classes,) jobs to start.
        job_ids: the same by name, in the order of the classes; empty where the problem names no jobs.
        status: what is known about it.
        objective: what it is worth.
        bound: no choice is worth more that keeps to the lines with the budget they had in the round of this
            choice; infinite where nothing is proven. One that only the exact risk lets pass may be.
        gap: (bound - objective) / max(|objective|, |bound|), 0 where they hardly differ (`gap_of`).
        risk_jobs: jobs expected to be slowed, by the lines.
        exact_risk_jobs: the same by the exact model; None where none was given. Where it is given it keeps
            to the budget, and the lines may exceed it.
        drawn_jobs: the same as the mean over fresh draws; None where nothing was drawn.
        drawn_error: standard error of that mean.
        send_backs: expected cost of sending guests back, unpriced.
        work: the solver's deterministic measure of its work (`solve.Answer`), all rounds together.
        wall_s: seconds it took, as the solver tells; never decided by.
        rounds: solves, the first included, until the exact risk fitted the budget.
        fallback: what stood in for the solver's own answer.
        reason: in words, why the plan is empty or a fallback.
        is_cut: the wall clock ended a solve, or left no time for another: the plan need not repeat.
        value_unit: value of the dearest start or ride (`LendingProblem.value_unit`).
        rides: numbers of the candidates that ride, in the order of `LendingProblem.rides`.
        ride_jobs: jobs that these are expected to slow; part of `risk_jobs` and of `exact_risk_jobs`.
    """

    counts: IntArray
    status: PlanStatus
    objective: float
    bound: float
    risk_jobs: float
    send_backs: float
    job_ids: tuple[str, ...] = ()
    exact_risk_jobs: float | None = None
    work: float = 0.0
    wall_s: float = 0.0
    rounds: int = 1
    fallback: Fallback = Fallback.NONE
    reason: str = ""
    is_cut: bool = False
    drawn_jobs: float | None = None
    drawn_error: float | None = None
    value_unit: float = 1.0
    rides: tuple[int, ...] = ()
    ride_jobs: float = 0.0

    def choice(self, problem: LendingProblem) -> IntArray:
        """(classes + rides,) what it chose of the problem that it answers."""
        taken = np.zeros(problem.num_rides, dtype=np.int64)
        taken[list(self.rides)] = 1
        return np.concatenate([self.counts, taken])

    def said(self) -> dict[str, Any]:
        """Everything but names and seconds as plain values: what is not proven is None, not infinite."""
        said = {
            "status": self.status.value,
            "starts": int(self.counts.sum()) + len(self.rides),
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "risk_jobs": self.risk_jobs if self.exact_risk_jobs is None else self.exact_risk_jobs,
            "drawn_jobs": self.drawn_jobs,
            "drawn_error": self.drawn_error,
            "send_backs": self.send_backs,
            "work": self.work,
            "rounds": self.rounds,
            "fallback": self.fallback.value,
            "reason": self.reason,
            "is_cut": self.is_cut,
        }
        return {name: None if value in {math.inf, -math.inf} else value for name, value in said.items()}

    @property
    def gap(self) -> float:
        """How far the plan may be from what `bound` allows, as a share (`gap_of`); 0 if proven best there."""
        return gap_of(self.objective, self.bound, self.value_unit)
