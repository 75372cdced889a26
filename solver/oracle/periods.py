"""Large questions in pieces: the periods in which somebody waits, solved one by one.

Take any set of jobs. In every schedule of all jobs those of the set wait at least as long as in the best
schedule of the set alone. So the best waits of disjoint sets add up to a lower bound of the whole. Here the
sets are the periods of a schedule in which somebody waits, and to each set comes what is certain of all
other jobs: one that has to start by L and is submitted at s holds its GPUs over [L, s + length) in any case.

A period has waited w in the best schedule U known, and at least b. No better schedule lets it wait more than
U minus the b of all others; that brings L forward, makes more certain, and raises the b of other periods.
Where this comes to an end with w > b, the period and its nearest neighbour become one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.oracle.instance import Grid, IntArray
from solver.oracle.question import Found, Question
from solver.oracle.result import EndedBy, Limits, Spent

Solve = Callable[[Question, Limits], Found]

_SHARE: Final = 0.5
"""Of the limits that are left, what one period may take at most."""
_WORTH_IT: Final = 1.02
"""A period is solved again when this many times as much is certain of the other jobs."""
_SMALL_JOBS: Final = 40
"""Neighbours that have no more jobs together are one period from the beginning."""


@dataclass(eq=False)
class _Period:
    """Jobs that are solved together.

    Attributes:
        jobs: their places in the question.
        low: they wait at least this, steps.
        ended_by: what stopped the solver the last time; None before.
        certain: GPU-steps that were certain of the other jobs when it was solved the last time.
    """

    jobs: IntArray
    low: float = 0.0
    ended_by: EndedBy | None = None
    certain: float | None = None


def solve_by_periods(question: Question, limits: Limits, solve: Solve) -> Found:
    """Answer a question period by period; as a whole if there is fairness or nothing to begin with.

    Args:
        question: of all jobs.
        limits: of all solving together; each call gets half of the deterministic ones left.
        solve: answers a question as a whole.
    """
    if question.first is None or question.fairness is not None:
        return solve(question, limits)
    return _Solving(question, question.first, limits, solve).run()


class _Solving:
    def __init__(self, question: Question, first: IntArray, limits: Limits, solve: Solve) -> None:
        self._question = question
        self._grid = question.grid
        self._best = first
        self._limits = limits
        self._solve = solve
        self._spent = Spent()
        self._periods = [_Period(jobs) for jobs in _joined(periods_of(question.grid, first))]

    def run(self) -> Found:
        """Until every period is closed or no more can be done."""
        while True:
            is_better = True
            while is_better:
                is_better = False
                for period in self._open():
                    is_better = self._try(period) or is_better
            if not self._merge():
                break
        stopped = [period.ended_by for period in self._open() if period.ended_by is not EndedBy.PROOF]
        ended_by = EndedBy.PROOF
        if stopped:
            ended_by = EndedBy.WALL_LIMIT if EndedBy.WALL_LIMIT in stopped else EndedBy.WORK_LIMIT
        return Found(self._best, sum(period.low for period in self._periods), ended_by, self._spent)

    def _waits(self, jobs: IntArray) -> int:
        return int((self._best - self._grid.submit)[jobs].sum())

    def _open(self) -> list[_Period]:
        return [period for period in self._periods if period.low < self._waits(period.jobs)]

    def _latest(self) -> IntArray:
        """(jobs,) latest start in any schedule that is at least as good as the best known."""
        least = sum(period.low for period in self._periods)
        spare = self._waits(np.arange(self._best.size)) - least
        most = np.full(self._best.size, spare)
        for period in self._periods:
            most[period.jobs] += period.low
        return np.minimum(self._grid.latest, self._grid.submit + most.astype(np.int64))

    def _try(self, period: _Period) -> bool:
        """Solve a period again if more is certain than the last time; whether that has helped."""
        part = self._part(period.jobs, replace(self._grid, latest=self._latest()))
        others = slice(period.jobs.size, None)
        certain = float(part.grid.length[others] @ part.grid.width[others])
        if period.certain is not None and certain <= period.certain * _WORTH_IT:
            return False
        period.certain = certain
        found = self._ask(part)
        period.ended_by = found.ended_by
        low = max(period.low, min(found.bound, self._waits(period.jobs)))
        is_raised = low > period.low
        period.low = low
        return self._adopt(period, found) or is_raised

    def _ask(self, part: Question) -> Found:
        left = self._limits.after(self._spent)
        left = replace(left, work=left.work * _SHARE, nodes=int(left.nodes * _SHARE))
        found = self._solve(part, left)
        self._spent += found.spent
        return found

    def _part(self, jobs: IntArray, grid: Grid) -> Question:
        """The question of some jobs, beside what is certain of the others."""
        others = np.ones(grid.submit.size, dtype=bool)
        others[jobs] = False
        ends = grid.submit + grid.length
        begin, end = grid.submit[jobs].min(), (grid.latest + grid.length)[jobs].max()
        certain = np.flatnonzero(others & (grid.latest < ends) & (grid.latest < end) & (ends > begin))
        part = Grid(
            grid.step_s,
            np.concatenate([grid.submit[jobs], grid.latest[certain]]),
            np.concatenate([grid.latest[jobs], grid.latest[certain]]),
            np.concatenate([grid.length[jobs], (ends - grid.latest)[certain]]),
            np.concatenate([grid.width[jobs], grid.width[certain]]),
        )
        first = np.concatenate([self._best[jobs], grid.latest[certain]])
        return Question(part, self._question.capacity_gpus, first).narrowed()

    def _adopt(self, period: _Period, found: Found) -> bool:
        """Take a period's better starts over: as they are, or else solved with all others where they are."""
        jobs = period.jobs
        if found.starts is None or found.starts[: jobs.size].sum() >= self._best[jobs].sum():
            return False
        starts = self._with(jobs, found.starts)
        if not self._question.fits(starts):
            fixed_submit, fixed_latest = self._best.copy(), self._best.copy()
            fixed_submit[jobs], fixed_latest[jobs] = self._grid.submit[jobs], self._grid.latest[jobs]
            grid = replace(self._grid, submit=fixed_submit, latest=fixed_latest)
            found = self._ask(self._part(jobs, grid))
            if found.starts is None or found.starts[: jobs.size].sum() >= self._best[jobs].sum():
                return False
            starts = self._with(jobs, found.starts)
        self._best = starts
        return True

    def _with(self, jobs: IntArray, starts: IntArray) -> IntArray:
        best = self._best.copy()
        best[jobs] = starts[: jobs.size]
        return best

    def _merge(self) -> bool:
        """Make one of an open period and its nearest neighbour, unless a limit has ended one of them."""
        for period in self._open():
            if period.ended_by is not EndedBy.PROOF:
                continue
            near = [other for other in self._periods if other is not period and not self._is_hard(other)]
            if near:
                other = min(near, key=lambda other: self._distance(other, period))
                jobs = np.sort(np.concatenate([period.jobs, other.jobs]))
                self._periods = [one for one in self._periods if one not in (period, other)]
                self._periods.append(_Period(jobs, period.low + other.low))
                return True
            if len(self._periods) == 1 and period.jobs.size < self._best.size:
                self._periods = [_Period(np.arange(self._best.size), period.low)]
                return True
        return False

    def _is_hard(self, period: _Period) -> bool:
        """Whether a limit has left a period open."""
        is_ended = period.ended_by in {EndedBy.WORK_LIMIT, EndedBy.WALL_LIMIT}
        return is_ended and period.low < self._waits(period.jobs)

    def _distance(self, one: _Period, other: _Period) -> int:
        """Steps between the submits of two periods."""
        submit = self._grid.submit
        first, last = sorted((one.jobs, other.jobs), key=lambda jobs: int(submit[jobs].min()))
        return int(submit[last].min() - submit[first].max())


def periods_of(grid: Grid, starts: IntArray) -> list[IntArray]:
    """Jobs by the period in which somebody waits that they matter to, in the order of time.

    A job belongs to the period in which it is submitted, or else to the next one if it runs into it; the
    jobs that do neither are in none.
    """
    waits = np.flatnonzero(starts > grid.submit)
    if not waits.size:
        return []
    order = waits[np.argsort(grid.submit[waits], kind="stable")]
    until = np.maximum.accumulate(starts[order])
    is_new = np.concatenate([[True], grid.submit[order][1:] >= until[:-1]])
    begins = grid.submit[order][is_new]
    ends = until[np.concatenate([is_new[1:], [True]])]
    place = np.searchsorted(ends, grid.submit, side="right")
    within = place < begins.size
    begin = begins[np.minimum(place, begins.size - 1)]
    matters: NDArray[np.bool_] = within & ((grid.submit >= begin) | (starts + grid.length > begin))
    return [np.flatnonzero(matters & (place == k)) for k in range(begins.size)]


def _joined(periods: list[IntArray]) -> list[IntArray]:
    """Small neighbours together."""
    joined: list[IntArray] = []
    for jobs in periods:
        if joined and joined[-1].size + jobs.size <= _SMALL_JOBS:
            joined[-1] = np.concatenate([joined[-1], jobs])
        else:
            joined.append(jobs)
    return [np.sort(jobs) for jobs in joined]
