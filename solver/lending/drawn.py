"""A plan checked on fresh draws before it leaves: lives, kin and arrivals that it was not made from.

Lines and normal sums stand behind a plan; draws know neither. A plan passes if the mean number of jobs that
the draws see slowed, less two of its standard errors, is within the budget. One that fails loses the guests
worth least until it passes. Rides are charged first, with what they were planned at: nothing is drawn of
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from solver.lending.greedy import trimmed
from solver.lending.plan import plan_fields
from solver.lending.problem import Fallback, IntArray, LendingPlan, LendingProblem, PlanStatus
from solver.lending.verify import Verified

_ERRORS: Final = 2.0
"""A mean that is above the budget by no more standard errors may be chance."""

Draws = Callable[[IntArray], Verified]
"""What fresh draws say of those that a choice starts, always the same draws; riders left out."""


def passed_draws(
    problem: LendingProblem,
    plan: LendingPlan,
    draws: Draws,
    members: Sequence[Sequence[str]] = (),
) -> LendingPlan:
    """The plan with what the draws say of it, without the guests with whom it fails.

    Args:
        problem: that the plan answers.
        plan: not yet carried out.
        draws: see there; asked for nothing where nobody who must run to the end is lent to.
        members: ids of each class's jobs, in the order in which they start.
    """
    if not plan.counts[~problem.is_requeueable].any():
        return plan

    def least(choice: IntArray) -> float:
        found = draws(choice)
        return problem.ride_jobs(choice) + found.slowed_jobs - _ERRORS * found.standard_error

    before = plan.choice(problem)
    choice = trimmed(problem, before, least, problem.allowed_jobs)
    found = draws(choice)
    slowed_jobs = problem.ride_jobs(choice) + found.slowed_jobs
    plan = replace(plan, drawn_jobs=slowed_jobs, drawn_error=found.standard_error)
    taken = int((before - choice).sum())
    if not taken:
        return plan
    return replace(
        plan,
        **plan_fields(problem, choice, members),
        status=PlanStatus.FEASIBLE,
        exact_risk_jobs=None,
        fallback=Fallback.FAILED_DRAWS,
        reason=f"{taken} guests taken out: fresh draws slow more than the budget",
    )
