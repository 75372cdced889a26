"""What both exact solvers begin with: the instance on its grid, a schedule, and what that rules out."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.oracle.instance import Grid, Instance, IntArray
from solver.oracle.result import (
    EndedBy,
    Limits,
    OracleResult,
    Spent,
    Status,
    checked,
    no_schedule,
    nothing_to_do,
)
from solver.oracle.search import search

_ACCURACY: Final = 1e-6


@dataclass(frozen=True)
class Fairness:
    """The fairness term of SIA (figure 5): weight x the integral of the largest use / quota of any pool.

    Attributes:
        weight: steps of waiting that a step of a pool's use at its quota costs, > 0.
        pool: (jobs,) rank of each job's pool among the quotas.
        quotas: (pools,) GPUs.
    """

    weight: float
    pool: IntArray
    quotas: NDArray[np.float64]

    @staticmethod
    def of(instance: Instance, weight: float) -> "Fairness | None":
        """For the jobs of an instance; None without weight.

        Raises:
            ValueError: if the weight is negative.
        """
        if weight < 0.0:
            raise ValueError(f"the weight of fairness is {weight}, must be >= 0")
        rank = {pool: k for k, pool in enumerate(instance.quotas)}
        pool = np.array([rank[job.pool] for job in instance.jobs], dtype=np.int64)
        quotas = np.array(list(instance.quotas.values()), dtype=float)
        return Fairness(weight, pool, quotas) if weight else None

    def cost(self, grid: Grid, starts: IntArray) -> float:
        """Of a schedule, steps."""
        ends = starts + grid.length
        change = np.zeros((self.quotas.size, int(ends.max()) + 1))
        np.add.at(change, (self.pool, starts), grid.width)
        np.add.at(change, (self.pool, ends), -grid.width)
        shares = change.cumsum(axis=1)[self.quotas > 0] / self.quotas[self.quotas > 0, None]
        return float(self.weight * shares.max(axis=0).sum())


@dataclass(frozen=True)
class Question:
    """Jobs on a grid: which starts in [submit, latest] cost least?

    Attributes:
        grid: the jobs; starts that no better schedule than `first` has may be left out.
        capacity_gpus: GPUs of the cluster.
        first: (jobs,) starts of a schedule, steps; None if none was found.
        fairness: of the fairness term, if there is one.
    """

    grid: Grid
    capacity_gpus: int
    first: IntArray | None
    fairness: Fairness | None = None

    def cost(self, starts: IntArray) -> float:
        """What is minimised: waiting and fairness, steps."""
        waiting = float((starts - self.grid.submit).sum())
        return waiting + (self.fairness.cost(self.grid, starts) if self.fairness else 0.0)

    @property
    def first_cost(self) -> float:
        """Of the first schedule, steps; infinite if there is none."""
        return math.inf if self.first is None else self.cost(self.first)

    @property
    def most_cost(self) -> float:
        """Who costs more is no better than the first schedule; without fairness costs are whole."""
        return self.first_cost + _ACCURACY - (0.0 if self.fairness else 1.0)

    def rounded(self, bound: float) -> float:
        """A lower bound of the cost, raised to the next cost there may be."""
        if self.fairness or not math.isfinite(bound):
            return bound
        return math.ceil(bound - _ACCURACY)

    def fits(self, starts: IntArray) -> bool:
        """Whether a schedule never exceeds the cluster."""
        begin = int(starts.min())
        change = np.zeros(int((starts + self.grid.length).max()) - begin + 1, dtype=np.int64)
        np.add.at(change, starts - begin, self.grid.width)
        np.add.at(change, starts + self.grid.length - begin, -self.grid.width)
        return bool((change.cumsum() <= self.capacity_gpus).all())

    def narrowed(self) -> "Question":
        """Without starts so late that their waiting alone is worse than the first schedule."""
        if self.first is None:
            return self
        most = int(self.first_cost + _ACCURACY)
        latest = np.minimum(self.grid.latest, self.grid.submit + most)
        return replace(self, grid=replace(self.grid, latest=latest))


@dataclass(frozen=True)
class Found:
    """What a solver says to a question.

    Attributes:
        starts: (jobs,) the best schedule, steps; None if there is none or none was found.
        bound: no schedule costs less, steps; infinite if there is none.
        ended_by: what stopped the solver.
        spent: how much of its limits it took.
    """

    starts: IntArray | None
    bound: float
    ended_by: EndedBy
    spent: Spent

    @staticmethod
    def of(
        question: Question, starts: IntArray | None, bound: float, ended_by: EndedBy, spent: Spent
    ) -> "Found":
        """The better of a solver's schedule and the first one; a proof closes the gap."""
        offers = [offer for offer in (starts, question.first) if offer is not None]
        best = min(offers, key=question.cost, default=None)
        cost = math.inf if best is None else question.cost(best)
        return Found(best, cost if ended_by is EndedBy.PROOF else min(bound, cost), ended_by, spent)

    @staticmethod
    def best_is_first(question: Question, spent: Spent) -> "Found":
        """Nothing is better than the first schedule, or there is none at all."""
        return Found(question.first, question.first_cost, EndedBy.PROOF, spent)


def prepare(
    instance: Instance, step_s: float, limits: Limits, fairness_weight: float = 0.0
) -> Question | OracleResult:
    """Put the question, or answer it where that takes no solver.

    Raises:
        ValueError: if a submit or a length is no whole number of steps, or the weight is negative.
    """
    fairness = Fairness.of(instance, fairness_weight)
    if not instance.jobs:
        return nothing_to_do()
    reason = instance.impossible()
    if reason is not None:
        return no_schedule(reason)
    grid = Grid.of(instance, step_s)
    if (grid.latest < grid.submit).any():
        return no_schedule(f"a job may start at no whole number of steps of {step_s:g} s")
    found = search(instance, moves=limits.moves, seed=limits.seed)
    first = None if found is None else grid.steps(instance, found)
    return Question(grid, instance.capacity_gpus, first, fairness).narrowed()


def answer(instance: Instance, question: Question, found: Found) -> OracleResult:
    """The better of a solver's schedule and the first one, checked."""
    offers = [offer for offer in (found.starts, question.first) if offer is not None]
    if not offers and found.ended_by is EndedBy.PROOF:
        return no_schedule("not every job can start by its latest start")
    if not offers:
        return no_schedule("none was found within the limit", found.ended_by, Status.UNKNOWN)
    best = min(offers, key=question.cost)
    step_s = question.grid.step_s
    ids = [job.job_id for job in instance.jobs]
    starts_s = dict(zip(ids, (best * step_s).tolist(), strict=True))
    fairness_s = question.fairness.cost(question.grid, best) * step_s if question.fairness else 0.0
    return checked(
        instance, starts_s, bound_s=found.bound * step_s, ended_by=found.ended_by, fairness_s=fairness_s
    )
