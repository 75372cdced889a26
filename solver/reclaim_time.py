"""Own jobs that wait for the GPUs of guests that were sent back, where these are free only after a while.

A guest that is stopped saves, ends its processes, and its GPUs are cleaned: for `reclaim_s` nobody has them.
So an own job that needs them starts up to that much late, and lateness adds up: whoever starts when that job
ends is as late, and may have to wait once more. The promise allows 60 s in all. What keeps to it:

- Guests are sent back the instant a lane start needs their GPUs, and nobody takes what comes free for one who
  needed it earlier. So nobody waits longer than `reclaim_s` for guests.
- Of each pool a bound is known of how late its own jobs are against the reference: that of whoever its lane
  waited for, and its own wait, or less where the reference says so. A pool that cannot afford to wait once
  more is *strained*: all of its quota that its own jobs leave is kept for it, and guests are sent back for
  that while the job waits that strains it. From then on it waits for nobody, until it is less late.

Where a pool cannot afford to wait even once (`reclaim_s` above 60 s) no bound helps: then guests that can be
sent back slow others as those do that cannot, and it is for the lender to count them so.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.jobs import Job
from domain.measures import SLOWED_AFTER_S

_ROUNDING_S: Final = 1e-6


def check_reclaim_s(reclaim_s: float) -> None:
    """Refuse what is no time.

    Raises:
        ValueError: if it is negative or not finite.
    """
    if not 0.0 <= reclaim_s < float("inf"):
        raise ValueError(f"reclaim_s is {reclaim_s}, must be at least 0 and finite")


class Turn(NamedTuple):
    """What the own jobs get at one instant.

    Attributes:
        starts: that start now.
        waits: that wait, in the order in which they will be served.
        missing_gpus: which neither are idle nor come free from guests sent back before, so that guests have
            to be sent back; for `waits`, and for what is kept for strained pools.
        short_gpus: the part of them that `waits` need.
        lendable_gpus: idle GPUs that are kept for nobody.
    """

    starts: list[Job]
    waits: list[Job]
    missing_gpus: int
    short_gpus: int
    lendable_gpus: int


@dataclass(slots=True)
class _Due:
    """A job that is due: since when, and how late it would be if it had started then."""

    job: Job
    since_s: float
    base_s: float


class ReclaimQueue:
    """Told every fact of own jobs and guests, asked who of the due may start.

    Args:
        quotas: GPUs of each pool.
        reclaim_s: for how long nobody has the GPUs of a guest that was sent back, seconds.
        late_s: bound of how late a job is that starts at an instant, by the reference; infinite if unknown.
    """

    def __init__(
        self, quotas: Mapping[str, int], reclaim_s: float, late_s: Callable[[Job, float], float]
    ) -> None:
        self._quotas = dict(quotas)
        self._reclaim_s = reclaim_s
        self._late_s = late_s
        self._rates: dict[str, tuple[float, float]] = {}
        self._incoming: deque[tuple[float, int]] = deque()
        self._running: dict[str, dict[str, tuple[Job, float]]] = {pool: {} for pool in quotas}
        self._just_ended: dict[str, float] = {}
        self._due: dict[str, _Due] = {}
        self._strained_s: dict[str, float] = {}

    def sent_back(self, job: Job, now_s: float, shared_gpus: int = 0) -> None:
        """A guest was stopped: its GPUs come free later, but for those that it shared with somebody."""
        self._rates.pop(job.job_id, None)
        self._incoming.append((now_s + self._reclaim_s, job.num_gpus - shared_gpus))

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate: below 1, an own one becomes later while it runs."""
        ran = self._running[job.pool].get(job.job_id)
        if ran is not None:
            self._running[job.pool][job.job_id] = (job, self._bound_s(ran, now_s))
        self._rates[job.job_id] = (rate, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """An own job starts."""
        due = self._due.pop(job.job_id, None)
        bound_s = self._base_s(job, now_s) if due is None else due.base_s + now_s - due.since_s
        self._running[job.pool][job.job_id] = (job, min(bound_s, self._late_s(job, now_s)))

    def converted(self, job: Job, now_s: float) -> None:
        """A guest has become own: it started before its lane reached it, and has lost no more since."""
        if job.job_id in self._rates:
            self._rates[job.job_id] = (self._rates[job.job_id][0], now_s)
        self._running[job.pool][job.job_id] = (job, self._base_s(job, now_s))

    def ended(self, job: Job, now_s: float) -> None:
        """A job is gone, whatever it did."""
        self._due.pop(job.job_id, None)
        ran = self._running[job.pool].pop(job.job_id, None)
        if ran is not None:
            bound_s = self._bound_s(ran, now_s)
            self._just_ended[job.pool] = max(bound_s, self._just_ended.get(job.pool, 0.0))
        self._rates.pop(job.job_id, None)

    def serve(self, now_s: float, idle_gpus: int, due: Sequence[Job]) -> Turn:
        """Who starts and who waits; to be asked at every instant at which something happened.

        Args:
            now_s: the instant.
            idle_gpus: that nobody has.
            due: own jobs that do not run, by (submit, id).
        """
        while self._incoming and self._incoming[0][0] <= now_s:
            self._incoming.popleft()
        self._note_due(due, now_s)
        starts, waits, idle_gpus = self._in_turn(idle_gpus)
        self._note_strain(waits, now_s)
        waiting_gpus = sum(job.num_gpus for job in waits)
        kept_gpus = sum(self._kept_gpus(pool) for pool in self._strained_s)
        coming_gpus = idle_gpus + sum(gpus for _, gpus in self._incoming)
        return Turn(
            starts,
            waits,
            missing_gpus=waiting_gpus + kept_gpus - coming_gpus if waits else 0,
            short_gpus=waiting_gpus - coming_gpus,
            lendable_gpus=max(0, idle_gpus - kept_gpus),
        )

    def _note_due(self, due: Sequence[Job], now_s: float) -> None:
        named = {job.job_id for job in due}
        for job_id in [job_id for job_id in self._due if job_id not in named]:
            del self._due[job_id]
        for job in due:
            if job.job_id not in self._due:
                self._due[job.job_id] = _Due(job, now_s, self._base_s(job, now_s))
        self._just_ended.clear()

    def _base_s(self, job: Job, now_s: float) -> float:
        """How late a job is at most that its lane reaches now: as late as whoever that waited for."""
        pool = job.pool
        bounds = [self._bound_s(ran, now_s) for ran in self._running[pool].values()]
        bounds += [one.base_s + self._reclaim_s for one in self._due.values() if one.job.pool == pool]
        return min(max([*bounds, self._just_ended.get(pool, 0.0)]), self._late_s(job, now_s))

    def _bound_s(self, ran: tuple[Job, float], now_s: float) -> float:
        """How late an own job that runs is at most: work lost to its rate makes it later."""
        job, bound_s = ran
        rate, since_s = self._rates.get(job.job_id, (1.0, now_s))
        return bound_s + (1.0 - rate) * (now_s - since_s)

    def _in_turn(self, idle_gpus: int) -> tuple[list[Job], list[Job], int]:
        """Whoever needed GPUs first gets them first; what is kept for a pool, when that was strained."""
        asks: list[tuple[float, int, float, str, Job | None]] = [
            (since_s, 2, 0.0, pool, None) for pool, since_s in self._strained_s.items()
        ]
        for one in self._due.values():
            at_s = min(one.since_s, self._strained_s.get(one.job.pool, one.since_s))
            asks.append((at_s, 1, one.job.submit_s, one.job.job_id, one.job))
        starts: list[Job] = []
        waits: list[Job] = []
        left_gpus = idle_gpus
        for _, _, _, pool, job in sorted(asks, key=lambda ask: ask[:4]):
            if job is None:
                left_gpus -= min(left_gpus, self._kept_gpus(pool))
            elif job.num_gpus <= left_gpus:
                starts.append(job)
                left_gpus -= job.num_gpus
                idle_gpus -= job.num_gpus
            else:
                waits.append(job)
                left_gpus = 0
        return starts, waits, idle_gpus

    def _kept_gpus(self, pool: str) -> int:
        """What a strained pool's quota has left beside its own jobs that run or are due."""
        due = sum(one.job.num_gpus for one in self._due.values() if one.job.pool == pool)
        running = sum(job.num_gpus for job, _ in self._running[pool].values())
        return max(0, self._quotas[pool] - running - due)

    def _note_strain(self, waits: Sequence[Job], now_s: float) -> None:
        if self._reclaim_s > SLOWED_AFTER_S:
            return
        late_s = {
            pool: max((self._bound_s(ran, now_s) for ran in running.values()), default=0.0)
            for pool, running in self._running.items()
        }
        waiting = {job.job_id for job in waits}
        for job_id, one in self._due.items():
            wait_s = self._reclaim_s if job_id in waiting else now_s - one.since_s
            late_s[one.job.pool] = max(late_s[one.job.pool], one.base_s + wait_s)
        for pool, bound_s in late_s.items():
            if bound_s + self._reclaim_s <= SLOWED_AFTER_S + _ROUNDING_S:
                self._strained_s.pop(pool, None)
            else:
                self._strained_s.setdefault(pool, now_s)
