"""Own lane; idle GPUs lent to requeueable guests, who are sent back when a lane needs them."""

import math
from dataclasses import dataclass
from enum import StrEnum

from domain.checkpoints import KeptWork
from domain.jobs import Job
from domain.measures import SLOWED_AFTER_S, is_slowed
from domain.plans import NOTHING, Plan, Start
from solver.lane import Lanes
from solver.policies.base import Lends, PolicyContext, PolicySpec
from solver.policies.pending import PendingByWidth
from solver.policies.victims import fewest, least_lost_first
from solver.progress import left_quantile_s
from solver.reclaim_time import ReclaimQueue, check_reclaim_s


def _not_known(_job: Job, _now_s: float) -> float:
    """How late a job is by the reference, which this policy does not keep."""
    return math.inf


class Order(StrEnum):
    """Whom idle GPUs are lent to first."""

    FIFO = "fifo"
    SHORTEST = "shortest"


class Victim(StrEnum):
    """Which guest is sent back first."""

    YOUNGEST = "youngest"
    OLDEST = "oldest"
    LEAST_WORK = "least-work"


@dataclass(frozen=True, slots=True)
class ReclaimSettings:
    """Settings of `reclaim`.

    Attributes:
        requeueable: share R of jobs that may be sent back and start again, from zero or from what they saved.
        order: `fifo` (no forecast) or `shortest` (median of what is left of the forecast life).
        victim: `youngest` (last started; where guests save checkpoints, the one that would repeat the least
            time), `oldest`, or `least-work` (fewest GPU-seconds thrown away).
        reclaim_s: for how long nobody has the GPUs of a guest that was sent back, seconds; at most 60, what
            the promise tolerates: there is no budget for more.
    """

    requeueable: float = 1.0
    order: Order = Order.FIFO
    victim: Victim = Victim.YOUNGEST
    reclaim_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.requeueable <= 1.0:
            raise ValueError(f"requeueable is {self.requeueable}, must lie in [0, 1]")
        check_reclaim_s(self.reclaim_s)
        if is_slowed(self.reclaim_s):
            raise ValueError(f"reclaim_s is {self.reclaim_s}, must be at most {SLOWED_AFTER_S:g}")


class Reclaim:
    """About what borrowing with reclaim does in today's schedulers, without a forecast of arrivals.

    Own jobs first: what a lane has reached starts at once, by (submit, id) over all pools; where idle GPUs
    do not suffice, guests are sent back, in the order of `victim`, until they do (one that turns out not to
    be needed after all stays). While an own job has to wait, nothing is lent. Then idle GPUs are lent to
    requeueable jobs beyond their lanes, of all pools alike: the first in `order` that fits, so narrow ones
    overtake wide ones. Ties: (submit, id). A guest sent back keeps its place and may be lent to again.
    """

    def __init__(self, context: PolicyContext, settings: ReclaimSettings) -> None:
        self._lanes = Lanes(context.quotas, context.own)
        self._lives = context.lives
        self._settings = settings
        self._pending: PendingByWidth[tuple[float, float]] = PendingByWidth()
        self._progress = KeptWork()
        self._proposed: dict[str, Job] = {}
        self._queue: ReclaimQueue | None = None
        if settings.reclaim_s > 0.0:
            self._queue = ReclaimQueue(context.quotas, settings.reclaim_s, _not_known)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible: it stands in its line, and may be lent to if it is requeueable."""
        self._lanes.submitted(job)
        self._offer(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, as own or as guest."""
        self._pending.discard(job.job_id)
        self._proposed.pop(job.job_id, None)
        self._lanes.started(job)
        self._progress.started(job, now_s)
        if self._queue is not None and job.job_id not in self._lanes.guests:
            self._queue.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._progress.rate_changed(job, rate)
        if self._queue is not None:
            self._queue.rate_changed(job, now_s, rate)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._pending.discard(job.job_id)
        self._proposed.pop(job.job_id, None)
        self._progress.ended(job)
        self._lanes.ended(job)
        if self._queue is not None:
            self._queue.ended(job, now_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest waits again, at its place."""
        self._progress.sent_back(job, now_s)
        self._lanes.sent_back(job)
        if self._queue is not None:
            self._queue.sent_back(job, now_s)
        self._offer(job)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Serve the lanes, sending guests back if need be; then lend what is left."""
        for job in self._proposed.values():
            self._offer(job)
        self._proposed.clear()
        converted = self._lanes.advance()
        due = self._lanes.due_in_order()
        if self._queue is not None:
            return self._decide_in_turn(self._queue, now_s, idle_gpus, (converted, due))
        missing_gpus = sum(job.num_gpus for job in due) - idle_gpus
        victims = fewest(self._in_victim_order(now_s), missing_gpus) if missing_gpus > 0 else []
        idle_gpus += sum(victim.num_gpus for victim in victims)
        starts: list[Start] = []
        for job in due:
            self._pending.discard(job.job_id)
            if job.num_gpus > idle_gpus:
                break
            idle_gpus -= job.num_gpus
            starts.append(Start(job, False))
        if len(starts) == len(due):
            starts += self._lend(idle_gpus)
        if not (starts or victims or converted):
            return NOTHING
        return Plan(send_backs=tuple(victims), conversions=tuple(converted), starts=tuple(starts))

    def _decide_in_turn(
        self, queue: ReclaimQueue, now_s: float, idle_gpus: int, own: tuple[list[Job], list[Job]]
    ) -> Plan:
        """The same where GPUs of guests that are sent back are free only after a while."""
        converted, due = own
        for job in converted:
            queue.converted(job, now_s)
        for job in due:
            self._pending.discard(job.job_id)
        turn = queue.serve(now_s, idle_gpus, due)
        victims = fewest(self._in_victim_order(now_s), turn.missing_gpus) if turn.missing_gpus > 0 else []
        starts = [Start(job, False) for job in turn.starts]
        if not turn.waits:
            starts += self._lend(turn.lendable_gpus)
        return Plan(send_backs=tuple(victims), conversions=tuple(converted), starts=tuple(starts))

    def _offer(self, job: Job) -> None:
        if job.is_requeueable(self._settings.requeueable):
            first = job.submit_s
            if self._settings.order is Order.SHORTEST:
                first = left_quantile_s(self._lives, job, 0.5, self._progress.kept_s(job))
            self._pending.add(job, (first, job.submit_s))

    def _in_victim_order(self, now_s: float) -> list[Job]:
        share = self._settings.requeueable
        guests = [job for job in self._lanes.guests.values() if job.is_requeueable(share)]
        if self._settings.victim is Victim.YOUNGEST:
            return least_lost_first(reversed(guests), self._progress, now_s)
        if self._settings.victim is Victim.LEAST_WORK:
            guests.sort(key=lambda job: job.num_gpus * self._progress.at_risk_s(job, now_s))
        return guests

    def _lend(self, idle_gpus: int) -> list[Start]:
        while idle_gpus and (job := self._pending.best(idle_gpus)) is not None:
            self._pending.discard(job.job_id)
            self._proposed[job.job_id] = job
            idle_gpus -= job.num_gpus
        return [Start(job, True) for job in self._proposed.values()]


SPEC = PolicySpec(
    build=Reclaim,
    settings=ReclaimSettings,
    uses_lives=True,
    may_send_back=True,
    has_own_lanes=True,
    lends=Lends.REQUEUEABLE,
)
