"""Why jobs wait under a policy that lends by a look ahead: each refusal is taken apart by trying again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from domain.jobs import Job
from solver.explain.costs import Costs, longest, shorter
from solver.explain.turns import Turn, starts_if_sent_back, turns_of
from solver.explain.view import LendingView
from solver.explain.waits import behind_due, explain_due, short_of_gpus
from solver.explain.weighing import Weighing
from solver.explain.words import Change, Lever, Waiting, Why

_UNTOLD: Final = Turn(0, (), is_accepted=False, repeats=1.0)


def explain_lending(view: LendingView) -> list[Waiting]:
    """Why each job waits: own jobs first, then the others in the order in which they are looked at."""
    found = list(explain_due(view.due, view.idle_gpus))
    turns: Mapping[str, Turn] = {} if view.due else turns_of(view)
    weighing = None if view.weighed is None else Weighing(view, view.weighed)
    for place, job in enumerate(view.beyond, start=1):
        short = behind_due(job, view.due, view.idle_gpus) or short_of_gpus(job, view.idle_gpus)
        if short is None and weighing is not None and _was_weighed(view, job):
            short = weighing.explain(job)
        found.append(short or _Refusal(view, job, place, turns).reason())
    return found


def _was_weighed(view: LendingView, job: Job) -> bool:
    """Whether the plan could have chosen it; without an allowance it only sends back whom it can."""
    is_lent_to = view.terms.lends_for_good or view.may_send_back(job)
    return view.weighed is not None and job.job_id in view.weighed.class_of and is_lent_to


class _Refusal:
    """Why one job is not lent to, candidates being looked at one by one.

    Args:
        view: the policy.
        job: it waits, fits, and nobody is due.
        place: in the order of lending, from 1.
        turns: of all jobs.
    """

    def __init__(self, view: LendingView, job: Job, place: int, turns: Mapping[str, Turn]) -> None:
        self._view, self._job, self._place, self._turns = view, job, place, turns
        self._turn = turns.get(job.job_id)

    def reason(self) -> Waiting:
        """The reason that binds."""
        terms = self._view.terms
        if self._view.may_send_back(self._job):
            return self._sent_back_first()
        costs = Costs(self._view, self._job)
        if not terms.lends_for_good:
            return self._nothing_for_good(costs)
        if costs.charge <= terms.allowed_jobs:
            return self._not_considered(costs.charge, terms.allowed_jobs)
        if terms.left_jobs <= 0.0 and costs.charge <= terms.usual_jobs:
            found = self._budget_spent(costs)
        else:
            found = costs.refusal()
        return replace(found, changes=(*self._once_reached(found.changes), *self._if_sent_back()))

    def _once_reached(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """What would make it cheap enough does not start it where the search ends before it."""
        turn = self._turn
        if turn is not None and len(turn.refused) < self._view.terms.refusals:
            return changes
        says = "would be lent to, once the search reaches it,"
        return tuple(replace(one, text=one.text.replace("starts at once", says, 1)) for one in changes)

    def _if_sent_back(self) -> tuple[Change, ...]:
        """That it would start if it could be sent back, where that is so."""
        weighed = self._view.weighed
        if weighed is not None and self._job.job_id in weighed.class_of:
            would_start = weighed.if_sent_back(self._job)
        else:
            would_start = weighed is None and starts_if_sent_back(self._view, self._turn)
        if not would_start:
            return ()
        return (Change(Lever.REQUEUEABLE, None, "starts at once if it could be sent back"),)

    def _nothing_for_good(self, costs: Costs) -> Waiting:
        terms = self._view.terms
        text = (
            f"nothing is lent to jobs that must run to their end: of all jobs {terms.usual_jobs:g} may be "
            f"slowed (`eps`), and it may slow {costs.charge:.2g}"
        )
        evidence = {
            "eps": terms.usual_jobs,
            "left_jobs": terms.left_jobs,
            "charge_jobs": costs.charge,
            "idle_gpus": self._view.idle_gpus,
        }
        return Waiting(self._job, Why.LENDING_OFF, text, evidence, self._if_sent_back())

    def _sent_back_first(self) -> Waiting:
        view, job = self._view, self._job
        finish, share = view.terms.finish, view.repeated_share(job)
        chance = view.look.chance_sent_back(job.num_gpus, view.fresh[job.job_id])
        repeats = chance * share
        if repeats <= finish:
            return self._not_considered(repeats, finish)
        text = f"starts at once if `finish` were {repeats:.2g} or more"
        changes = [Change(Lever.HIGHER_FINISH, repeats, text)]
        cell = longest(
            lambda fresh: view.look.chance_sent_back(job.num_gpus, fresh) * share <= finish, view, job
        )
        text = f"with a chance of {chance:.2g} it would be sent back before it ends, {finish:.2g} may be"
        evidence = {"chance_sent_back": chance, "finish": finish}
        if share < 1.0:
            text = (
                f"with a chance of {chance:.2g} it would be sent back before it ends and repeat up to "
                f"{share:.2g} of its work: {repeats:.2g} in all, {finish:.2g} may be"
            )
            evidence["repeated_share"] = share
        found = self._once_reached((*changes, *shorter(view, cell)))
        return Waiting(job, Why.TOO_LIKELY_SENT_BACK, text, evidence, found)

    def _not_considered(self, price: float, allowed: float) -> Waiting:
        turn, most = self._turn or _UNTOLD, self._view.terms.refusals
        refused = len(turn.refused)
        text = f"it would be lent to, but the search ended before it: it is number {self._place} in the order"
        evidence: dict[str, float | str] = {"place": self._place, "price": price, "allowed": allowed}
        if refused < most:
            text += " of lending"
            return Waiting(self._job, Why.NOT_CONSIDERED, text, evidence)
        last = turn.refused[most - 1]
        text += f" of lending, and the search ends after {most} refusals, the last of them of job {last}"
        evidence |= {"refused_before": refused, "search_ends_after": most, "last_tried": last}
        change = self._earlier_gone(turn)
        return Waiting(self._job, Why.NOT_CONSIDERED, text, evidence, (change,))

    def _earlier_gone(self, turn: Turn) -> Change:
        """Without some of those refused the search reaches it; without all before it it is as if alone."""
        refused = len(turn.refused)
        if turn.is_accepted:
            more = refused - self._view.terms.refusals + 1
            which = f"{more} of the {refused} jobs refused before it, such as {turn.refused[0]},"
        else:  # of those before it some would be lent to, and it would then be too dear, or not fit
            more = turn.before
            which = f"all {more} jobs that are looked at before it"
        return Change(Lever.EARLIER_GONE, more, f"starts at once if {which} had been cancelled")

    def _budget_spent(self, costs: Costs) -> Waiting:
        terms = self._view.terms
        more = -terms.left_jobs
        change = Change(
            Lever.LARGER_BUDGET,
            more,
            f"starts at once if more than {more:.3g} jobs more might be slowed in all",
        )
        text = (
            f"it may slow {costs.charge:.2g} jobs, which is usual, but the budget is overdrawn by "
            f"{more:.2g}: {terms.allowed_jobs:.2g} are allowed until it recovers"
        )
        evidence = {
            "charge_jobs": costs.charge,
            "allowed_jobs": terms.allowed_jobs,
            "usual_jobs": terms.usual_jobs,
            "left_jobs": terms.left_jobs,
        }
        return Waiting(self._job, Why.BUDGET_SPENT, text, evidence, (change, *costs.changes()))
