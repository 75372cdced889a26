"""Large problems by groups of pools, one after another, guided by the linear relaxation of the whole.

The relaxation, all counts continuous, is solved at once: it is a linear program with a few hundred rows,
whatever the size of the cluster, and its optimum bounds every choice. Then each group of pools is solved in
integers with what is left when the groups before it have what they chose and those after it have what the
relaxation gives them: idle GPUs, budget, cells of nodes; the risk lines are shifted by what the others lend
ahead. The relaxation's own choice for the group fits there, so a group loses only what its own integers
cost, and what it leaves goes to the next. What the last one leaves is offered to all, greedily.

A ride belongs to the group of its rider, wherever its host is. Of a host's GPUs a group may have what no
group before it has taken and the relaxation does not give whole to one after it: parts of rides keep nobody
off, so who comes first has its pick there.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from solver.lending.curves import FloatArray
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver
from solver.lending.problem import IntArray, LendingProblem, Placeability, Utility, gap_of
from solver.lending.solve import Answer, Limits

DEFAULT_GROUP: Final = 1500
DEFAULT_WHOLE: Final = 2500


class DecomposedSolver:
    """Solves what is small whole, and what is large by groups of pools.

    Args:
        inner: solves the groups and the relaxation.
        classes_per_group: pools are put together up to so many classes; one pool alone may have more.
        whole_up_to: problems of at most so many classes are solved whole.
    """

    def __init__(
        self, inner: HighsSolver, classes_per_group: int = DEFAULT_GROUP, whole_up_to: int = DEFAULT_WHOLE
    ) -> None:
        self._inner = inner
        self._classes_per_group = classes_per_group
        self._whole_up_to = whole_up_to

    @property
    def limits(self) -> Limits:
        """When it stops."""
        return self._inner.limits

    def solve(
        self, problem: LendingProblem, hint: IntArray | None = None, wall_s: float | None = None
    ) -> Answer:
        """The best choice found, with the relaxation's bound."""
        limit_s = self.limits.wall_s if wall_s is None else wall_s
        groups = pool_groups(problem, self._classes_per_group)
        if problem.num_classes <= self._whole_up_to or len(groups) == 1:
            return self._inner.solve(problem, hint, wall_s)
        relaxed = self._inner.relax(problem, limit_s)
        if relaxed.values is None:
            return Answer(
                None,
                is_cut=relaxed.is_cut,
                is_killed=relaxed.is_killed,
                wall_s=relaxed.wall_s,
                failure=relaxed.failure,
            )
        choice, work, spent_s = relaxed.values.copy(), relaxed.work, relaxed.wall_s
        is_cut, failure = False, ""
        for members in groups:
            part, places = _part(problem, choice, members)
            found = greedy_counts(part)
            if part.bounds().any() and spent_s < limit_s:
                answer = self._inner.solve(part, found, limit_s - spent_s)
                work, spent_s = work + answer.work, spent_s + answer.wall_s
                is_cut |= answer.is_cut
                failure = failure or answer.failure
                if answer.counts is not None:
                    found = answer.counts
            choice[places] = found
        counts = np.rint(choice).astype(np.int64)
        counts = counts + greedy_counts(_rest(problem, counts))
        return Answer(
            counts,
            bound=relaxed.bound,
            is_proven=gap_of(problem.objective(counts), relaxed.bound, problem.value_unit) <= self.limits.gap,
            is_cut=is_cut or spent_s >= limit_s,
            work=work,
            wall_s=spent_s,
            failure=failure,
        )


def pool_groups(problem: LendingProblem, classes_per_group: int) -> list[IntArray]:
    """Classes of each group: pools in order of rank, as many as fit into one group."""
    groups: list[list[int]] = [[]]
    for pool in np.unique(problem.pool):
        members = np.flatnonzero(problem.pool == pool).tolist()
        if groups[-1] and len(groups[-1]) + len(members) > classes_per_group:
            groups.append([])
        groups[-1] += members
    return [np.array(sorted(group), dtype=np.int64) for group in groups if group]


def _rest(problem: LendingProblem, choice: IntArray) -> LendingProblem:
    """The same problem with what a whole choice leaves."""
    gone = problem.starts_of(choice)
    if problem.rides is not None:
        gone = gone + problem.rides.by_class(problem.rides_of(choice), problem.num_classes)
    return replace(_left_by(problem, choice.astype(float)), count=problem.count - gone)


def _left_by(problem: LendingProblem, others: FloatArray) -> LendingProblem:
    """The same problem when so many jobs of each class have started already; counts are left as they are."""
    utility, rows = problem.utility, problem.placeability
    starts = problem.starts_of(others)
    if utility is not None:
        widths = starts * problem.width_gpus
        granted = np.bincount(problem.pool, weights=widths, minlength=utility.slope.shape[0])
        utility = Utility(utility.slope, utility.intercept + utility.slope * granted[:, None])
    if rows is not None:
        rows = Placeability(rows.units, np.maximum(rows.available - rows.units @ starts, 0.0))
    held = problem.held_ahead(others)
    return replace(
        problem,
        idle_gpus=max(int(np.floor(problem.idle_gpus - starts @ problem.width_gpus + 1e-6)), 0),
        risk=problem.risk.shifted(problem.lent_ahead(others)),
        budget_jobs=problem.budget_jobs - problem.risk_jobs(others),
        send_back=None if problem.send_back is None else problem.send_back.shifted(held),
        utility=utility,
        placeability=rows,
        rides=None if problem.rides is None else problem.rides.left_by(problem.rides_of(others)),
    )


def _part(problem: LendingProblem, choice: FloatArray, members: IntArray) -> tuple[LendingProblem, IntArray]:
    """The problem of one group, when all others have what the choice gives them, and its entries there."""
    places = members
    if problem.rides is not None:
        of_group = np.flatnonzero(np.isin(problem.rides.of_class, members))
        places = np.concatenate([members, problem.num_classes + of_group])
    others = choice.copy()
    others[places] = 0.0
    left = _left_by(problem, others)
    rows = left.placeability
    part = replace(
        left,
        pool=problem.pool[members],
        width_gpus=problem.width_gpus[members],
        count=problem.count[members],
        value=problem.value[members],
        alive_gpus=problem.alive_gpus[members],
        is_requeueable=problem.is_requeueable[members],
        repeats=None if problem.repeats is None else problem.repeats[members],
        placeability=None if rows is None else Placeability(rows.units[:, members], rows.available),
        rides=None if left.rides is None else left.rides.of(members),
    )
    return part, places
