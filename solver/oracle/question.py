"""What both exact solvers begin with: the instance on its grid, a schedule, and what that rules out."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from solver.oracle.instance import Grid, Instance, IntArray
from solver.oracle.result import (
    EndedBy,
    Limits,
    OracleResult,
    Status,
    checked,
    no_schedule,
    nothing_to_do,
)
from solver.oracle.search import search

_ACCURACY: Final = 1e-6


@dataclass(frozen=True)
class Question:
    """An instance that may have a schedule.

    Attributes:
        instance: what is asked.
        grid: the same in whole steps, without the starts that no better schedule than `first` has.
        first: (jobs,) starts of a schedule, steps; None if none was found.
        fairness_weight: of the fairness term, see `fairness_s`.
    """

    instance: Instance
    grid: Grid
    first: IntArray | None
    fairness_weight: float

    @property
    def pool_rank(self) -> IntArray:
        """(jobs,) rank of each job's pool among the quotas."""
        rank = {pool: k for k, pool in enumerate(self.instance.quotas)}
        return np.array([rank[job.pool] for job in self.instance.jobs], dtype=np.int64)

    def fairness_s(self, starts: IntArray) -> float:
        """Weight x the integral over time of the largest use / quota of any pool (SIA, figure 5), seconds."""
        if self.fairness_weight == 0.0:
            return 0.0
        quotas = np.array(list(self.instance.quotas.values()), dtype=float)
        ends = starts + self.grid.length
        change = np.zeros((quotas.size, int(ends.max()) + 1))
        np.add.at(change, (self.pool_rank, starts), self.grid.width)
        np.add.at(change, (self.pool_rank, ends), -self.grid.width)
        shares = change.cumsum(axis=1)[quotas > 0] / quotas[quotas > 0, None]
        return float(self.fairness_weight * shares.max(axis=0).sum() * self.grid.step_s)

    def answer(self, starts: IntArray | None, bound_steps: float, ended_by: EndedBy) -> OracleResult:
        """The better of a solver's schedule and the first one, checked.

        Args:
            starts: (jobs,) steps; None if the solver found none.
            bound_steps: what it has proven of the objective, steps.
            ended_by: what stopped it.
        """
        offers = [offer for offer in (starts, self.first) if offer is not None]
        if not offers:
            return no_schedule("none was found within the limit", ended_by, Status.UNKNOWN)
        best = min(offers, key=self._objective_s)
        ids = [job.job_id for job in self.instance.jobs]
        starts_s = dict(zip(ids, (best * self.grid.step_s).tolist(), strict=True))
        bound_s = bound_steps * self.grid.step_s
        return checked(
            self.instance, starts_s, bound_s=bound_s, ended_by=ended_by, fairness_s=self.fairness_s(best)
        )

    def _objective_s(self, starts: IntArray) -> float:
        return float((starts - self.grid.submit).sum()) * self.grid.step_s + self.fairness_s(starts)

    @property
    def first_objective(self) -> float:
        """Of the first schedule, steps; infinite if there is none."""
        return math.inf if self.first is None else self._objective_s(self.first) / self.grid.step_s

    def narrowed(self) -> "Question":
        """Without starts so late that their waiting alone is worse than the first schedule."""
        if self.first is None:
            return self
        most = int(self.first_objective + _ACCURACY)
        latest = np.minimum(self.grid.latest, self.grid.submit + most)
        return replace(self, grid=replace(self.grid, latest=latest))


def prepare(
    instance: Instance, step_s: float, limits: Limits, fairness_weight: float = 0.0
) -> Question | OracleResult:
    """Put the question, or answer it where that takes no solver.

    Raises:
        ValueError: if a submit or a length is no whole number of steps, or the weight is negative.
    """
    if fairness_weight < 0.0:
        raise ValueError(f"the weight of fairness is {fairness_weight}, must be >= 0")
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
    return Question(instance, grid, first, fairness_weight).narrowed()
