"""Why jobs wait under a policy that lends by a look ahead: each refusal is taken apart by trying again.

It knows of the look ahead only what any policy does: a guest that is tried costs so many jobs. Where in time
the cost arises is found by letting the guest end earlier and earlier: what it costs less then, it costs in
the cells cut off.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from domain.timegrid import TimeGrid
from solver.explain.words import Change, Lever, Waiting, Why, life_text
from solver.lookahead import Ahead, LookAhead, Trial

FloatArray = NDArray[np.float64]

_PROBABLY: Final = 0.5
_SHORT_GPUS: Final = 0.5
"""A scenario in which fewer GPUs than this are expected to be missing is one without a shortage."""


@dataclass(frozen=True, slots=True)
class LendingTerms:
    """What a policy lends by.

    Attributes:
        allowed_jobs: jobs that one early start may slow, now.
        usual_jobs: the same while the budget lasts.
        left_jobs: what is left of the budget.
        finish: highest chance of being sent back.
        lends_for_good: whether it lends to who must run to the end at all.
    """

    allowed_jobs: float
    usual_jobs: float
    left_jobs: float
    finish: float
    lends_for_good: bool = True


@dataclass(frozen=True, slots=True)
class LendingView:
    """A policy's state as far as it matters here.

    Attributes:
        now_s: the instant.
        idle_gpus: GPUs that are idle.
        pools: names, in the order of the ranks.
        due: own jobs that wait, in their order.
        beyond: other jobs that wait, in the order in which they are looked at.
        ahead: what is known of the time ahead.
        look: the same with the guests that run.
        grid: its cells.
        fresh: of each job, (cells,) chance that it runs when the cell begins, if it starts now.
        cohort_of: cohort of a job.
        may_send_back: whether a job may be sent back.
        terms: what is lent by.
    """

    now_s: float
    idle_gpus: int
    pools: Sequence[str]
    due: Sequence[Job]
    beyond: Sequence[Job]
    ahead: Ahead
    look: LookAhead
    grid: TimeGrid
    fresh: Mapping[str, FloatArray]
    cohort_of: Callable[[Job], int]
    may_send_back: Callable[[Job], bool]
    terms: LendingTerms


def explain_lending(view: LendingView) -> list[Waiting]:
    """Why each job waits: own jobs first, then the others in the order in which they are looked at."""
    found = list(explain_due(view.due, view.idle_gpus))
    for job in view.beyond:
        short = behind_due(job, view.due, view.idle_gpus) or short_of_gpus(job, view.idle_gpus)
        found.append(short or _refusal(view, job))
    return found


def explain_due(due: Sequence[Job], idle_gpus: int) -> list[Waiting]:
    """Why own jobs wait although their lanes have reached them: guests have their GPUs still."""
    found: list[Waiting] = []
    before_gpus = 0
    for job in due:
        before_gpus += job.num_gpus
        if found and job.num_gpus <= idle_gpus:
            first = found[0].job
            why = Why.BEHIND_DUE_JOB
            text = f"its lane has reached it, but job {first.job_id} of pool {first.pool} is due before it"
        else:
            why, text = _short(job, idle_gpus)
            text = f"its lane has reached it, but guests have its GPUs still: {text}"
        more = before_gpus - idle_gpus
        change = Change(Lever.FREE_GPUS, before_gpus, f"starts at once if {more} more GPUs were idle")
        evidence = {"idle_gpus": idle_gpus, "due_gpus": before_gpus}
        found.append(Waiting(job, why, text, evidence, (change,)))
    return found


def behind_due(job: Job, due: Sequence[Job], idle_gpus: int) -> Waiting | None:
    """That nothing is lent while an own job waits; None if none does."""
    if not due:
        return None
    first, wanted = due[0], sum(one.num_gpus for one in due)
    text = (
        f"job {first.job_id} of pool {first.pool} is due and waits for {first.num_gpus} GPUs: "
        "what comes free is kept for it"
    )
    evidence: dict[str, float | str] = {
        "due_job": first.job_id,
        "due_pool": first.pool,
        "due_gpus": wanted,
        "idle_gpus": idle_gpus,
    }
    change = Change(
        Lever.DUE_JOB_SERVED, wanted, f"may be lent to once the {len(due)} due job(s) have started"
    )
    return Waiting(job, Why.BEHIND_DUE_JOB, text, evidence, (change,))


def short_of_gpus(job: Job, idle_gpus: int) -> Waiting | None:
    """That there are too few idle GPUs; None if there are enough."""
    if job.num_gpus <= idle_gpus:
        return None
    why, text = _short(job, idle_gpus)
    return Waiting(job, why, text, {"idle_gpus": idle_gpus, "width_gpus": job.num_gpus})


def _short(job: Job, idle_gpus: int) -> tuple[Why, str]:
    if idle_gpus <= 0:
        return Why.NO_IDLE_GPU, "no GPU is idle"
    return Why.WIDER_THAN_IDLE, f"it asks for {job.num_gpus} GPUs, {idle_gpus} are idle"


def _refusal(view: LendingView, job: Job) -> Waiting:
    if view.may_send_back(job):
        return _sent_back_first(view, job)
    terms = view.terms
    if not terms.lends_for_good:
        change = Change(Lever.REQUEUEABLE, None, "starts at once if it could be sent back")
        text = "nothing is lent to jobs that must run to their end"
        return Waiting(job, Why.LENDING_OFF, text, {}, (change,) if _would_finish(view, job) else ())
    costs = _Costs(view, job)
    if costs.charge <= terms.allowed_jobs:
        return _not_considered(view, job, costs.charge, terms.allowed_jobs)
    if terms.left_jobs <= 0.0 and costs.charge <= terms.usual_jobs:
        return _budget_spent(view, job, costs)
    return _too_dear(view, job, costs)


def _sent_back_first(view: LendingView, job: Job) -> Waiting:
    chance = view.look.chance_sent_back(job.num_gpus, view.fresh[job.job_id])
    if chance <= view.terms.finish:
        return _not_considered(view, job, chance, view.terms.finish)
    changes = [Change(Lever.HIGHER_FINISH, chance, f"starts at once if `finish` were {chance:.2g} or more")]
    cell = _longest(
        lambda fresh: view.look.chance_sent_back(job.num_gpus, fresh) <= view.terms.finish, view, job
    )
    changes += _shorter(view, cell)
    text = (
        f"with a chance of {chance:.2g} it would be sent back before it ends, {view.terms.finish:.2g} may be"
    )
    evidence = {"chance_sent_back": chance, "finish": view.terms.finish}
    return Waiting(job, Why.TOO_LIKELY_SENT_BACK, text, evidence, tuple(changes))


def _not_considered(view: LendingView, job: Job, price: float, allowed: float) -> Waiting:
    place = 1 + next(k for k, one in enumerate(view.beyond) if one.job_id == job.job_id)
    text = (
        f"it would be lent to, but the search ended before it: it is number {place} in the order of lending"
    )
    return Waiting(job, Why.NOT_CONSIDERED, text, {"place": place, "price": price, "allowed": allowed})


def _budget_spent(view: LendingView, job: Job, costs: "_Costs") -> Waiting:
    terms = view.terms
    more = -terms.left_jobs
    change = Change(
        Lever.LARGER_BUDGET, more, f"starts at once if more than {more:.3g} jobs more might be slowed in all"
    )
    text = (
        f"it may slow {costs.charge:.2g} jobs, which is usual, but the budget is overdrawn by {more:.2g}: "
        f"{terms.allowed_jobs:.2g} are allowed until it recovers"
    )
    evidence = {
        "charge_jobs": costs.charge,
        "allowed_jobs": terms.allowed_jobs,
        "usual_jobs": terms.usual_jobs,
        "left_jobs": terms.left_jobs,
    }
    return Waiting(job, Why.BUDGET_SPENT, text, evidence, (change, *costs.changes()))


def _too_dear(view: LendingView, job: Job, costs: "_Costs") -> Waiting:
    """Its cost arises mostly in one cell: before it would be done, or after, should it live on."""
    cell, trial = costs.binding, costs.trial
    runs_then = float(view.fresh[job.job_id][cell])
    begins_s, ends_s = view.grid.edges_s[cell], view.grid.edges_s[cell + 1]
    missing = trial.missing[:, cell]
    level = float((missing < _SHORT_GPUS).mean())
    pool, growth = _who_needs(view, cell, missing)
    evidence: dict[str, float | str] = {
        "pool": pool,
        "pool_needs_gpus": growth,
        "cell_begins_s": begins_s,
        "cell_ends_s": ends_s,
        "missing_gpus": float(missing.mean()),
        "level": level,
        "still_runs": runs_then,
        "charge_jobs": costs.charge,
        "allowed_jobs": view.terms.allowed_jobs,
    }
    if runs_then >= _PROBABLY:
        text = (
            f"held for pool {pool} until {life_text(ends_s)} from now: with this job GPUs would suffice at "
            f"level {level:.2f} only, {evidence['missing_gpus']:.2g} would be missing"
        )
        return Waiting(job, Why.HELD_FOR_POOL, text, evidence, costs.changes())
    text = (
        f"it would overrun: with a chance of {runs_then:.2g} it runs for more than {life_text(begins_s)}, "
        f"when pool {pool} wants GPUs; it may slow {costs.charge:.2g} jobs, "
        f"{view.terms.allowed_jobs:.2g} are allowed"
    )
    return Waiting(job, Why.WOULD_OVERRUN, text, evidence, costs.changes())


class _Costs:
    """What a guest costs, and in which cells.

    Attributes:
        trial: the guest as it is.
        charge: jobs it is expected to slow.
        binding: the cell in which most of that arises.
    """

    def __init__(self, view: LendingView, job: Job) -> None:
        self._view, self._job = view, job
        self._by_end: dict[int, float] = {}
        self.trial = self._try(view.fresh[job.job_id])
        self.charge = self.trial.charge
        charges = [self._charge_until(cell) for cell in range(len(view.grid) + 1)]
        self.binding = int(np.argmax(np.diff(charges)))

    def changes(self) -> tuple[Change, ...]:
        """A shorter life, a larger allowance, or that it could be sent back: those that would do."""
        view, terms = self._view, self._view.terms
        cell = _longest(lambda fresh: self._try(fresh).charge <= terms.allowed_jobs, view, self._job)
        found = _shorter(view, cell)
        found.append(
            Change(
                Lever.LARGER_ALLOWANCE,
                self.charge,
                f"starts at once if one early start might slow {self.charge:.2g} jobs",
            )
        )
        if _would_finish(view, self._job):
            found.append(Change(Lever.REQUEUEABLE, None, "starts at once if it could be sent back"))
        return tuple(found)

    def _charge_until(self, cell: int) -> float:
        return self._try(_ending_by(self._view.fresh[self._job.job_id], cell)).charge

    def _try(self, fresh: FloatArray) -> Trial:
        view, job = self._view, self._job
        rank = view.pools.index(job.pool)
        return view.look.try_guest(rank, job.num_gpus, fresh, view.cohort_of(job))


def _ending_by(fresh: FloatArray, cell: int) -> FloatArray:
    """The same chances of running, but surely ended when a cell begins."""
    cut = fresh.copy()
    cut[cell:] = 0.0
    return cut


def _longest(does: Callable[[FloatArray], bool], view: LendingView, job: Job) -> int:
    """The latest cell by whose beginning the job has to have ended for a condition to hold; 0: none."""
    fresh = view.fresh[job.job_id]
    cells = range(len(view.grid) - 1, 0, -1)
    return next((cell for cell in cells if does(_ending_by(fresh, cell))), 0)


def _shorter(view: LendingView, cell: int) -> list[Change]:
    if cell == 0:
        return []
    life_s = view.grid.edges_s[cell]
    text = f"starts at once if it were sure to end within {life_text(life_s)}"
    return [Change(Lever.SHORTER_LIFE, life_s, text)]


def _would_finish(view: LendingView, job: Job) -> bool:
    return view.look.chance_sent_back(job.num_gpus, view.fresh[job.job_id]) <= view.terms.finish


def _who_needs(view: LendingView, cell: int, missing: FloatArray) -> tuple[str, float]:
    """The pool whose lane grows most in a cell, in the scenarios in which GPUs are missing, and by how much.

    A lane grows by the jobs that wait in it and by those that are expected to arrive, as far as its quota
    goes.
    """
    ahead = view.ahead
    room = np.maximum(ahead.quota_gpus - ahead.own[:, cell], 0.0)
    waiting = np.minimum((ahead.backlog + ahead.requeueable)[:, cell], room)
    left = np.maximum(room - waiting - ahead.guest[:, cell], 0.0)
    arriving = np.minimum(np.broadcast_to(ahead.peaks[:, :, cell], (missing.size, room.size)), left)
    weight = missing / missing.sum() if missing.sum() > 0 else np.full(missing.size, 1.0 / missing.size)
    growth = waiting + weight @ arriving
    rank = int(np.argmax(growth))
    return view.pools[rank], float(growth[rank])
