"""From problem to plan: hint, solver, check, fallback, and the margin that makes the exact risk fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from solver.lending.greedy import greedy_counts, trimmed
from solver.lending.problem import Fallback, IntArray, LendingPlan, LendingProblem, PlanStatus
from solver.lending.solve import Answer, LendingSolver

ExactRisk = Callable[[IntArray], float]
"""Jobs expected to be newly slowed by those that a choice starts, by the exact model; riders left out."""

ROUNDS: Final = 4
"""Solves at most; what still does not fit then is trimmed."""
_HASTE: Final = 0.97
"""The next budget for the lines is a little below what proportion suggests, to be done sooner."""
_USED: Final = 0.9
"""A plan whose exact risk uses this share of the budget is not worth another round."""
_BINDING: Final = 0.98
"""The lines decide if the choice uses this share of what they were given."""
_MOST_LOOSER: Final = 2.0
"""However little the exact risk, the lines get at most so many times what they used."""
_LEAST_SHARE: Final = 1e-3
"""However much the exact risk, riders keep a budget while the lines get so little."""


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A checked choice, and what was proven about it."""

    choice: IntArray
    status: PlanStatus
    bound: float
    fallback: Fallback
    reason: str
    exact: float | None = None


def plan_lending(
    problem: LendingProblem,
    solver: LendingSolver | None,
    exact_risk: ExactRisk | None = None,
    members: Sequence[Sequence[str]] = (),
) -> LendingPlan:
    """Choose whom to lend to.

    The lines do not see that chosen guests add to the spread of the need, and they see each guest as if
    nobody of its pool were in line before it. So the exact risk of the choice is asked for: while it exceeds
    the budget the lines get less of it and the problem is solved again, and if it leaves much of the budget
    that the lines have used up they get more. The best choice whose exact risk fits is the plan. Rides are
    charged first: their charges are exact, so the exact model of the others is held to what they leave, and
    only what the lines say of those is scaled.

    Args:
        problem: of this instant.
        solver: None for the greedy plan.
        exact_risk: the exact model; None to believe the lines.
        members: ids of each class's jobs, in the order in which they start.

    Returns:
        A plan that keeps to every row, by its own check and not by the solver's word: to the budget by the
        exact model where there is one, else by the lines. Status and bound are those of the problem with
        the lines' budget of its round.
    """
    empty = _why_empty(problem)
    if empty:
        nothing = np.zeros(problem.num_classes + problem.num_rides, dtype=np.int64)
        return _plan(problem, _Found(nothing, PlanStatus.EMPTY, 0.0, Fallback.NONE, empty))
    best: _Found | None = None
    asked, work, wall_s, rounds, is_cut = problem, 0.0, 0.0, 0, False
    while True:
        rounds += 1
        answer, found = _choose(asked, solver, wall_s)
        work, wall_s = work + answer.work, wall_s + answer.wall_s
        is_cut |= answer.is_cut
        if exact_risk is None:
            best = found
            break
        found = replace(found, exact=problem.ride_jobs(found.choice) + exact_risk(found.choice))
        if _fits(problem, found) and (best is None or _worth(problem, found) > _worth(problem, best)):
            best = found
        if rounds == ROUNDS or _is_close_enough(problem, asked, found):
            break
        if solver is not None and wall_s >= solver.limits.wall_s:
            is_cut = True
            break
        asked = problem.with_lines_budget(_next_budget(problem, asked, found))
    if best is None:
        best = _trim(problem, found, exact_risk)
    return replace(_plan(problem, best, members, (work, wall_s, rounds)), is_cut=is_cut)


def _fits(problem: LendingProblem, found: _Found) -> bool:
    return found.exact is not None and found.exact <= problem.allowed_jobs


def _worth(problem: LendingProblem, found: _Found) -> float:
    return problem.objective(found.choice)


def _is_close_enough(problem: LendingProblem, asked: LendingProblem, found: _Found) -> bool:
    """Whether another budget for the lines would not help: it fits and uses its budget, or needs none."""
    if problem.budget_jobs <= 0.0 or found.exact is None:
        return True
    if found.exact > problem.allowed_jobs:
        return False
    is_bound = asked.risk_jobs(found.choice) >= _BINDING * asked.budget_jobs
    return not is_bound or found.exact >= _USED * problem.budget_jobs


def _next_budget(problem: LendingProblem, asked: LendingProblem, found: _Found) -> float:
    """What the lines may use so that the exact risk comes to just below the budget, by proportion."""
    rides = problem.ride_jobs(found.choice)
    exact = max((found.exact or 0.0) - rides, (problem.budget_jobs - rides) / _MOST_LOOSER)
    lines = asked.risk_jobs(found.choice) - asked.ride_jobs(found.choice)
    if problem.rides is None:
        return lines * _HASTE * problem.budget_jobs / exact
    share = lines * _HASTE / exact if exact > 0.0 else 0.0
    return max(share, _LEAST_SHARE) * problem.budget_jobs


def _why_empty(problem: LendingProblem) -> str:
    if problem.num_classes == 0 or not problem.count.any():
        return "nobody waits"
    if problem.most_rides().any():
        return ""
    if problem.idle_gpus == 0:
        return "no GPU is idle"
    if problem.most().any():
        return ""
    if problem.budget_jobs <= 0.0 and not problem.is_requeueable.any():
        return "the budget is used up, and nobody who waits can be sent back"
    return "nobody who may start is narrow enough for the idle GPUs"


def _choose(problem: LendingProblem, solver: LendingSolver | None, spent_s: float) -> tuple[Answer, _Found]:
    """Ask the solver, check what it says, and keep the greedy choice where that is better."""
    greedy = greedy_counts(problem)
    if solver is None or not problem.bounds().any():
        return Answer(None), _Found(greedy, PlanStatus.GREEDY, np.inf, Fallback.NONE, "")
    answer = solver.solve(problem, greedy, solver.limits.wall_s - spent_s)
    if answer.counts is None:
        return answer, _no_answer(greedy, answer)
    # what a solver tolerates on the budget's row is taken out again
    choice = trimmed(problem, answer.counts, problem.risk_jobs, problem.allowed_jobs)
    broken = problem.violations(choice)
    if broken:
        found = _no_answer(greedy, answer)
        return answer, replace(found, reason=f"the solver's choice fails the check: {broken[0]}")
    status = PlanStatus.OPTIMAL if answer.is_proven else PlanStatus.FEASIBLE
    reason = "the wall clock ended the search" if answer.is_cut else ""
    if answer.failure:
        reason = f"the solver failed in a part of it: {answer.failure}"
    if problem.objective(greedy) > problem.objective(choice):
        return answer, _Found(greedy, status, answer.bound, Fallback.GREEDY_BETTER, reason)
    return answer, _Found(choice, status, answer.bound, Fallback.NONE, reason)


def _no_answer(greedy: IntArray, answer: Answer) -> _Found:
    if answer.is_killed:
        reason = "the solver did not stop at its limit and was ended"
        return _Found(greedy, PlanStatus.FEASIBLE, answer.bound, Fallback.KILLED, reason)
    reason = "the solver found no choice before its limit"
    if answer.failure:
        reason = f"the solver failed: {answer.failure}"
    return _Found(greedy, PlanStatus.GREEDY, answer.bound, Fallback.GREEDY_NO_ANSWER, reason)


def _trim(problem: LendingProblem, found: _Found, exact_risk: ExactRisk | None) -> _Found:
    """Take guests out until the exact risk fits the budget."""
    if exact_risk is None:
        return found

    def risk_of(choice: IntArray) -> float:
        return problem.ride_jobs(choice) + exact_risk(choice)

    choice = trimmed(problem, found.choice, risk_of, problem.allowed_jobs)
    reason = f"{int((found.choice - choice).sum())} guests taken out: the exact risk exceeded the budget"
    return _Found(choice, PlanStatus.FEASIBLE, found.bound, Fallback.TRIMMED, reason, risk_of(choice))


def _plan(
    problem: LendingProblem,
    found: _Found,
    members: Sequence[Sequence[str]] = (),
    effort: tuple[float, float, int] = (0.0, 0.0, 0),
) -> LendingPlan:
    reason = found.reason
    if not found.choice.any() and not reason:
        reason = "nobody who fits the idle GPUs and the budget is worth the price"
    return LendingPlan(
        **plan_fields(problem, found.choice, members),
        status=found.status,
        bound=found.bound,
        exact_risk_jobs=found.exact,
        work=effort[0],
        wall_s=effort[1],
        rounds=effort[2],
        fallback=found.fallback,
        reason=reason,
        value_unit=problem.value_unit,
    )


def plan_fields(
    problem: LendingProblem, choice: IntArray, members: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """The fields of a plan that follow from its choice alone."""
    return {
        "counts": problem.starts_of(choice),
        "rides": tuple(np.flatnonzero(problem.rides_of(choice)).tolist()),
        "job_ids": problem.started(members, choice),
        "objective": problem.objective(choice),
        "risk_jobs": problem.risk_jobs(choice),
        "ride_jobs": problem.ride_jobs(choice),
        "send_backs": problem.send_backs(choice),
    }
