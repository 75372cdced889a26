"""The search for whom to lend to, walked once more and to the end: who is reached after whom."""

from collections.abc import Mapping
from dataclasses import dataclass

from domain.jobs import Job
from solver.explain.view import LendingView
from solver.lookahead import LookAhead


@dataclass(frozen=True, slots=True)
class Turn:
    """When a job is reached, were the search not to end after so many refusals.

    Attributes:
        before: jobs that are reached before it, refused or not.
        refused: ids of those that are refused before it, in the order of the search.
        is_accepted: whether it would then be lent to.
        repeats: share of its work that it is expected to repeat when it is reached, if it could be sent back:
            the chance that it is, times what it would lose, which is all of it without checkpoints.
    """

    before: int
    refused: tuple[str, ...]
    is_accepted: bool
    repeats: float


def turns_of(view: LendingView) -> Mapping[str, Turn]:
    """By id, the turn of each job that fits when it is reached.

    Who is refused changes nothing for those behind it but that the search ends. So the first jobs that a
    decision reaches are those with few refusals before them, and of the others it is known what would become
    of them if enough of those refused were gone.
    """
    look, idle_gpus = view.look.copy(), view.idle_gpus
    refused: tuple[str, ...] = ()
    turns: dict[str, Turn] = {}
    for job in view.beyond:
        if job.num_gpus > idle_gpus or not view.has_place(job):
            continue
        repeats = look.chance_sent_back(job.num_gpus, view.fresh[job.job_id]) * view.repeated_share(job)
        is_accepted = _accept(view, look, job, repeats)
        turns[job.job_id] = Turn(len(turns), refused, is_accepted, repeats)
        if is_accepted:
            idle_gpus -= job.num_gpus
        else:
            refused = (*refused, job.job_id)
    return turns


def starts_if_sent_back(view: LendingView, turn: Turn | None) -> bool:
    """Whether a job would start if it, and nobody else beside, could be sent back."""
    if turn is None or len(turn.refused) >= view.terms.refusals:
        return False
    return turn.repeats <= view.terms.finish


def _accept(view: LendingView, look: LookAhead, job: Job, repeats: float) -> bool:
    """Whether a job is lent to; it is then a guest of the look ahead."""
    fresh, terms = view.fresh[job.job_id], view.terms
    if view.may_send_back(job):
        if repeats > terms.finish:
            return False
        look.add_requeueable(job.num_gpus, fresh)
        return True
    if not terms.lends_for_good:
        return False
    trial = look.try_guest(view.pools.index(job.pool), job.num_gpus, fresh, view.cohort_of(job))
    if trial.charge > terms.allowed_jobs:
        return False
    look.add(trial)
    return True
