"""What the relaxation of the time-indexed model proves before anything is searched.

Round by round: solve the relaxation, place the jobs in the order in which it starts them (perhaps a better
schedule), leave out every start whose reduced cost exceeds the distance between bound and schedule, and add
the cuts that the point breaks. Nothing that is left out is part of a schedule better than the best known.
"""

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers import highs_pb2

from solver.oracle.cuts import cuts
from solver.oracle.pulses import Pulses, pulses
from solver.oracle.question import Question
from solver.oracle.result import Limits, Spent
from solver.oracle.search import in_order

FloatArray = NDArray[np.float64]

IMPOSSIBLE: Final = frozenset(
    {mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED}
)
_ACCURACY: Final = 1e-6
_SLACK: Final = 1e-3
_ROUNDS: Final = 20
_PATIENCE: Final = 3
_LEAST_GAIN: Final = 0.01
_STARTED_SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Relaxed:
    """What is left to search.

    Attributes:
        question: with the best schedule known as its first.
        model: with the starts that a better schedule may have, and the cuts that bind.
        bound: no schedule costs less, unless it is the first; steps.
        spent: of the limits.
    """

    question: Question
    model: Pulses
    bound: float
    spent: Spent

    @property
    def is_closed(self) -> bool:
        """Whether no schedule is better than the first, or there is none at all."""
        is_worse = self.bound > self.question.most_cost or math.isinf(self.bound)
        return is_worse or not self.model.has_every_job


def relax(question: Question, limits: Limits) -> Relaxed:
    """Narrow a question by its relaxation until cuts gain little or nothing is left to search.

    Args:
        question: to narrow.
        limits: of which only the wall clock matters; the number of rounds is limited by itself.
    """
    now = Relaxed(question, pulses(question), 0.0, Spent())
    stale = 0
    for _ in range(_ROUNDS):
        before = now
        if now.spent.wall_s >= limits.wall_s:
            return now
        result = mathopt.solve(
            now.model.model(is_relaxed=True),
            mathopt.SolverType.HIGHS,
            params=parameters(limits.after(now.spent), is_relaxed=True),
        )
        spent = now.spent + Spent(wall_s=result.solve_stats.solve_time.total_seconds())
        now = replace(now, spent=spent)
        if result.termination.reason in IMPOSSIBLE:
            return replace(now, bound=math.inf)
        if result.termination.reason is not mathopt.TerminationReason.OPTIMAL:
            return now
        now = _narrowed(now, result)
        gap = now.question.first_cost - before.bound
        stale = stale + 1 if now.bound - before.bound < _LEAST_GAIN * gap else 0
        if now.is_closed or stale == _PATIENCE or not now.model.cuts:
            return now
    return now


def _narrowed(now: Relaxed, result: mathopt.SolveResult) -> Relaxed:
    """After a solved relaxation: a better schedule, fewer starts, other cuts."""
    model = now.model
    size = model.job.size
    values, costs = _by_column(result.variable_values(), size), _by_column(result.reduced_costs(), size)
    bound = max(now.bound, float(result.termination.objective_bounds.dual_bound) - _ACCURACY)
    question = _improved(now.question, model, values)
    found = cuts(model.running(values), model.grid.width, question.capacity_gpus)
    slack = np.array([cut.limit for cut in model.cuts])
    if model.cuts:
        slack = slack - model.cut_rows() @ values
    binding = tuple(cut for cut, left in zip(model.cuts, slack, strict=True) if left < _SLACK)
    dual_bound = float(result.termination.objective_bounds.dual_bound)
    model = model.kept(costs <= question.most_cost - dual_bound + _ACCURACY)
    model = replace(model, cuts=binding + tuple(found))
    return replace(now, question=question, model=model, bound=question.rounded(bound))


def _by_column(values: dict[mathopt.Variable, float], size: int) -> FloatArray:
    by_id = np.zeros(max(variable.id for variable in values) + 1)
    for variable, value in values.items():
        by_id[variable.id] = value
    return by_id[:size]


def _improved(question: Question, model: Pulses, values: FloatArray) -> Question:
    """With a better first schedule, if placing the jobs in the order of a fractional point makes one."""
    running_sum = np.cumsum(values)
    ends = np.flatnonzero(np.diff(model.job, append=-1))
    before = np.concatenate([[0.0], running_sum[ends[:-1]]])[model.job]
    best = question.first
    for share in _STARTED_SHARES:
        reached = np.flatnonzero(running_sum - before >= share)
        _, first = np.unique(model.job[reached], return_index=True)
        if first.size < ends.size:
            continue
        order = np.lexsort((model.grid.submit, model.step[reached[first]]))
        offer = in_order(question.grid, question.capacity_gpus, order.tolist())
        if offer is not None and (best is None or question.cost(offer) < question.cost(best)):
            best = offer
    return replace(question, first=best)


def parameters(limits: Limits, *, is_relaxed: bool = False) -> mathopt.SolveParameters:
    """For HiGHS: to the proof, on one thread."""
    return mathopt.SolveParameters(
        time_limit=timedelta(seconds=limits.wall_s),
        node_limit=None if is_relaxed else limits.nodes,
        lp_algorithm=mathopt.LPAlgorithm.BARRIER if is_relaxed else None,
        relative_gap_tolerance=None if is_relaxed else 0.0,
        absolute_gap_tolerance=None if is_relaxed else 0.0,
        highs=highs_pb2.HighsOptionsProto(int_options={"threads": 1, "random_seed": limits.seed}),
    )
