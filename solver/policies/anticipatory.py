"""Own lane, and lending by forecast: what may be lent now without a lane noticing later."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from domain.plans import NOTHING, Hold, Plan, Start
from domain.timegrid import default_grid
from solver.budget import SlowdownBudget
from solver.lane import Lanes
from solver.lives import Cohorts, Entry, LifeBook, survival_at
from solver.lookahead import Ahead, LookAhead
from solver.policies.base import PolicyContext, PolicySpec
from solver.policies.pending import PendingByWidth
from solver.policies.victims import fewest

FloatArray = NDArray[np.float64]

_GUEST, _OWN, _REQUEUEABLE = range(3)
_REFUSALS: Final = 6
"""Candidates refused in a row before a decision stops looking: the next ones live longer still."""
_OVERDRAWN: Final = 0.1
"""Part of the usual charge that is allowed once the budget is overdrawn: it has to recover."""


@dataclass(frozen=True, slots=True)
class AnticipatorySettings:
    """Settings of `anticipatory`.

    Attributes:
        eps: share of jobs that may be slowed; 0 lends to nobody who must run to its end.
        requeueable: share R of jobs that may be sent back and start again from zero.
        share: part of what is left of the budget that one early start may use besides.
        finish: a requeueable job is lent to if its chance of being sent back is at most this.
        kinship: correlation of the lives of jobs that are submitted in one burst.
    """

    eps: float = 0.001
    requeueable: float = 0.0
    share: float = 0.001
    finish: float = 0.3
    kinship: float = 0.3

    def __post_init__(self) -> None:
        for name in ("eps", "requeueable", "share", "finish", "kinship"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, must lie in [0, 1]")


class Anticipatory:
    """Own lane first; then early starts that are not expected to slow more jobs than the budget allows.

    Own jobs: what a lane has reached starts at once, by (submit, id) over all pools; where idle GPUs do not
    suffice, requeueable guests are sent back, youngest first. While an own job has to wait, GPUs that come
    free are kept for it and nothing is lent.

    Lending: jobs beyond their lanes, of all pools alike, shortest forecast median first, ties by
    (submit, id); what does not fit is passed over. One that must run to its end starts if the jobs it is
    expected to slow (`solver.lookahead`) are at most eps, what every job that is submitted grants, plus a
    share of what is left of the budget (`solver.budget`), which it is charged with; once that is overdrawn,
    a tenth of eps. One that can be sent back starts if it will probably be done before its GPUs are wanted.
    After six refusals in a row a decision stops looking.
    """

    def __init__(self, context: PolicyContext, settings: AnticipatorySettings) -> None:
        self._lives = context.lives
        self._demand = context.demand
        self._settings = settings
        self._capacity = sum(context.quotas.values())
        self._quota = np.array(list(context.quotas.values()), dtype=float)
        self._rank = {pool: k for k, pool in enumerate(context.quotas)}
        self._begins_s = np.array(default_grid().edges_s[:-1])
        self._lanes = Lanes(context.quotas, context.own)
        self._budget = SlowdownBudget(context.quotas, settings.eps)
        pools = len(self._rank)
        self._book = LifeBook(3 * pools, pools, settings.kinship, self._begins_s)
        self._cohorts = Cohorts()
        self._backlog = np.zeros((len(self._rank), self._begins_s.size))
        self._entries: dict[str, Entry] = {}
        self._fresh: dict[str, FloatArray] = {}
        self._keys: dict[str, tuple[float, float]] = {}
        self._pending: PendingByWidth[tuple[float, float]] = PendingByWidth()
        self._proposed: dict[str, tuple[Job, float]] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job stands in its line, and its life is forecast."""
        self._lanes.submitted(job)
        self._budget.submitted(job, now_s)
        curve = np.asarray(self._lives.survival(job))
        self._entries[job.job_id] = Entry(job.job_id, job.num_gpus, curve, self._cohorts.of(job))
        self._fresh[job.job_id] = survival_at(curve[None, :], self._begins_s[None, :])[0]
        self._keys[job.job_id] = (self._lives.quantile_s(job, 0.5), job.submit_s)
        self._join_queue(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, as own or as guest."""
        self._leave_queue(job)
        _, charge = self._proposed.pop(job.job_id, (job, 0.0))
        self._lanes.started(job)
        self._budget.started(job, now_s)
        kind = _OWN
        if job.job_id in self._lanes.guests:
            kind = _REQUEUEABLE if self._may_send_back(job) else _GUEST
            self._budget.charge(job, charge)
        self._book.add(self._entries[job.job_id], now_s, self._group(job, kind))

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        if job.job_id in self._book:
            self._book.remove(job.job_id)
        else:
            self._leave_queue(job)
        self._proposed.pop(job.job_id, None)
        self._lanes.ended(job)
        self._budget.ended(job, now_s)
        for known in (self._entries, self._fresh, self._keys):
            known.pop(job.job_id, None)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest waits again, at its place."""
        self._lanes.sent_back(job)
        self._budget.sent_back(job, now_s)
        self._book.remove(job.job_id)
        self._join_queue(job)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Serve the lanes, sending guests back if need be; then lend what may be lent."""
        for job, _ in self._proposed.values():
            self._pending.add(job, self._keys[job.job_id])
        self._proposed.clear()
        converted = self._lanes.advance()
        for job in converted:
            self._book.move(job.job_id, self._group(job, _OWN))
        due = self._lanes.due_in_order()
        victims = self._victims_for(sum(job.num_gpus for job in due) - idle_gpus)
        idle_gpus += sum(victim.num_gpus for victim in victims)
        starts: list[Start] = []
        holds: list[Hold] = []
        for job in due:
            self._pending.discard(job.job_id)
            if holds or job.num_gpus > idle_gpus:
                holds.append(Hold(job.pool, job.num_gpus))
                continue
            idle_gpus -= job.num_gpus
            starts.append(Start(job, False))
        if not holds and idle_gpus and self._pending:
            starts += self._lend(idle_gpus, now_s)
        if not (starts or victims or converted or holds):
            return NOTHING
        return Plan(tuple(victims), tuple(converted), tuple(starts), tuple(holds))

    def _lend(self, idle_gpus: int, now_s: float) -> list[Start]:
        job = self._pending.best(idle_gpus)
        if job is None:
            return []
        ahead = self._look_ahead(now_s)
        left = self._budget.left(now_s)
        allowed = self._settings.eps * _OVERDRAWN
        if left > 0.0:
            allowed = self._settings.eps + self._settings.share * left
        refused: list[Job] = []
        while job is not None and len(refused) < _REFUSALS:
            self._pending.discard(job.job_id)
            charge = self._accept(ahead, job, allowed)
            if charge is None:
                refused.append(job)
            else:
                self._proposed[job.job_id] = (job, charge)
                idle_gpus -= job.num_gpus
            job = self._pending.best(idle_gpus) if idle_gpus else None
        for job in refused:
            self._pending.add(job, self._keys[job.job_id])
        return [Start(job, True) for job, _ in self._proposed.values()]

    def _accept(self, ahead: LookAhead, job: Job, allowed: float) -> float | None:
        """The charge of lending to a job; None if it is refused."""
        fresh = self._fresh[job.job_id]
        if self._may_send_back(job):
            if ahead.chance_sent_back(job.num_gpus, fresh) > self._settings.finish:
                return None
            ahead.add_requeueable(job.num_gpus, fresh)
            return 0.0
        cohort = self._entries[job.job_id].cohort
        trial = ahead.try_guest(self._rank[job.pool], job.num_gpus, fresh, cohort)
        if self._settings.eps == 0.0 or trial.charge > allowed:
            return None
        ahead.add(trial)
        return trial.charge

    def _look_ahead(self, now_s: float) -> LookAhead:
        alive = self._book.alive(now_s)
        guest, own, requeueable = alive.mean.reshape(3, len(self._rank), -1)
        ahead = Ahead(
            own=own,
            guest=guest,
            requeueable=requeueable,
            backlog=self._backlog,
            variance=alive.variance,
            cohort_sd=alive.cohort_sd,
            kinship=self._settings.kinship,
            peaks=self._demand.peaks(now_s),
            arrivals=self._demand.arrivals(now_s),
            quota_gpus=self._quota,
        )
        return LookAhead(ahead, self._capacity)

    def _join_queue(self, job: Job) -> None:
        self._pending.add(job, self._keys[job.job_id])
        self._backlog[self._rank[job.pool]] += job.num_gpus * self._fresh[job.job_id]

    def _leave_queue(self, job: Job) -> None:
        self._pending.discard(job.job_id)
        self._backlog[self._rank[job.pool]] -= job.num_gpus * self._fresh[job.job_id]

    def _may_send_back(self, job: Job) -> bool:
        return job.is_requeueable(self._settings.requeueable)

    def _group(self, job: Job, kind: int) -> int:
        return kind * len(self._rank) + self._rank[job.pool]

    def _victims_for(self, missing_gpus: int) -> list[Job]:
        """Youngest requeueable guests that give up `missing_gpus`, or all; none that could be spared."""
        candidates = (job for job in reversed(self._lanes.guests.values()) if self._may_send_back(job))
        return fewest(candidates, missing_gpus)


SPEC = PolicySpec(
    build=Anticipatory,
    settings=AnticipatorySettings,
    uses_lives=True,
    uses_demand=True,
    may_send_back=True,
    has_own_lanes=True,
    lives="hazard",
    arrivals="corrected",
    tick_s=300.0,
)
PERFECT_SPEC = replace(SPEC, is_clairvoyant=True)
