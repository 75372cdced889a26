"""A plan checked on fresh draws before it leaves: lives, kin and arrivals that it was not made from.

Lines and normal sums stand behind a plan; draws know neither. A plan passes if the mean number of jobs that
the draws see slowed, less two of its standard errors, is within the budget. One that fails loses the guests
worth least until it passes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from solver.lending.greedy import trimmed
from solver.lending.problem import Fallback, IntArray, LendingPlan, LendingProblem, PlanStatus
from solver.lending.verify import Verified

_ERRORS: Final = 2.0
"""A mean that is above the budget by no more standard errors may be chance."""

Draws = Callable[[IntArray], Verified]
"""What fresh draws say of a choice, always the same draws."""


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

    def least(counts: IntArray) -> float:
        found = draws(counts)
        return found.slowed_jobs - _ERRORS * found.standard_error

    counts = trimmed(problem, plan.counts, least, problem.allowed_jobs)
    found = draws(counts)
    plan = replace(plan, drawn_jobs=found.slowed_jobs, drawn_error=found.standard_error)
    taken = int((plan.counts - counts).sum())
    if not taken:
        return plan
    pairs = zip(members, counts.tolist(), strict=False)
    return replace(
        plan,
        counts=counts,
        job_ids=tuple(job_id for ids, count in pairs for job_id in ids[:count]),
        status=PlanStatus.FEASIBLE,
        objective=problem.objective(counts),
        risk_jobs=problem.risk_jobs(counts),
        send_backs=problem.send_backs(counts),
        exact_risk_jobs=None,
        fallback=Fallback.FAILED_DRAWS,
        reason=f"{taken} guests taken out: fresh draws slow more than the budget",
    )
