"""No sharing, EASY backfilling inside each pool."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from domain.jobs import Job
from domain.plans import NOTHING, Plan, Start
from solver.policies.base import Lends, LevelSettings, PolicyContext, PolicySpec


@dataclass(slots=True)
class _Room:
    """One pool: its queue, its running jobs with start and estimate, and its free GPUs."""

    free_gpus: int
    queue: OrderedDict[str, Job]
    running: dict[str, tuple[Job, float]]


class Backfill:
    """EASY backfilling (Lifka 1995) inside each pool's own quota; pools do not touch each other.

    Jobs start in the order (submit, id) while the next one fits. The first that does not fit gets a
    reservation: the instant at which, by the estimates, enough of the pool's GPUs are free. Later jobs, in
    order, start now if they fit and either end by that instant or need only GPUs the reservation leaves
    over. A running job that has outlived its estimate is taken to need as long again (the estimate is
    doubled until it lies ahead). Estimates come from the forecaster; with true lives a backfilled job may
    still delay jobs behind the head of the queue: backfilling is not monotone.

    Cost of a decision: O(running log running + waiting) in the pools where something has changed.
    """

    def __init__(self, context: PolicyContext, settings: LevelSettings) -> None:
        self._lives = context.lives
        self._level = settings.level
        self._rooms = {pool: _Room(quota, OrderedDict(), {}) for pool, quota in context.quotas.items()}
        self._estimate_s: dict[str, float] = {}
        self._proposed: dict[str, Job] = {}
        self._changed: dict[str, None] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job joins its pool's queue; its estimate is made once, here."""
        self._estimate_s[job.job_id] = self._lives.quantile_s(job, self._level)
        self._rooms[job.pool].queue[job.job_id] = job
        self._changed[job.pool] = None

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        room = self._rooms[job.pool]
        room.queue.pop(job.job_id, None)
        self._proposed.pop(job.job_id, None)
        room.running[job.job_id] = (job, now_s)
        room.free_gpus -= job.num_gpus

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        room = self._rooms[job.pool]
        if room.running.pop(job.job_id, None) is not None:
            room.free_gpus += job.num_gpus
        room.queue.pop(job.job_id, None)
        self._estimate_s.pop(job.job_id, None)
        self._proposed.pop(job.job_id, None)
        self._changed[job.pool] = None

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped: it waits again, first of its pool."""
        self.ended(job, now_s)
        self.submitted(job, now_s)
        self._rooms[job.pool].queue.move_to_end(job.job_id, last=False)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Start and backfill in the pools where something has changed."""
        self._changed.update((job.pool, None) for job in self._proposed.values())
        self._proposed.clear()
        for pool in self._changed:
            room = self._rooms[pool]
            if room.queue and room.free_gpus > 0:
                self._proposed.update((job.job_id, job) for job in self._fill(room, now_s))
        self._changed.clear()
        if not self._proposed:
            return NOTHING
        return Plan(starts=tuple(Start(job, False) for job in self._proposed.values()))

    def _fill(self, room: _Room, now_s: float) -> list[Job]:
        free = room.free_gpus
        chosen: list[Job] = []
        waiting = iter(room.queue.values())
        for head in waiting:
            if head.num_gpus > free:
                chosen += self._backfill(room, head, waiting, free, now_s, chosen)
                break
            chosen.append(head)
            free -= head.num_gpus
        return chosen

    def _backfill(
        self, room: _Room, head: Job, later: Iterable[Job], free: int, now_s: float, begun: list[Job]
    ) -> list[Job]:
        """Jobs behind the head that may start now without moving the head's reservation."""
        if free == 0:
            return []
        reserved_s, extra = self._reservation(room, head, free, now_s, begun)
        chosen: list[Job] = []
        for job in later:
            if job.num_gpus > free:
                continue
            if now_s + self._estimate_s[job.job_id] > reserved_s:
                if job.num_gpus > extra:
                    continue
                extra -= job.num_gpus
            chosen.append(job)
            free -= job.num_gpus
            if free == 0:
                break
        return chosen

    def _reservation(
        self, room: _Room, head: Job, free: int, now_s: float, begun: list[Job]
    ) -> tuple[float, int]:
        """When the head can start by the estimates, and how many GPUs are left over then."""
        ends = [
            (self._expected_end_s(job, start_s, now_s), job.num_gpus)
            for job, start_s in room.running.values()
        ]
        ends += [(self._expected_end_s(job, now_s, now_s), job.num_gpus) for job in begun]
        for end_s, width in sorted(ends):
            free += width
            if free >= head.num_gpus:
                return end_s, free - head.num_gpus
        return float("inf"), 0

    def _expected_end_s(self, job: Job, start_s: float, now_s: float) -> float:
        estimate_s = max(self._estimate_s[job.job_id], 1.0)
        while start_s + estimate_s <= now_s:
            estimate_s *= 2.0
        return start_s + estimate_s


SPEC = PolicySpec(
    build=Backfill, settings=LevelSettings, uses_lives=True, takes_estimates=True, lends=Lends.NOBODY
)
