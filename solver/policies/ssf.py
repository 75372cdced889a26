"""Shortest service first, inside each pool's own quota."""

from collections.abc import Callable, Mapping

from domain.jobs import Job
from domain.plans import NOTHING, Plan, Start
from solver.policies.base import Lends, LevelSettings, PolicyContext, PolicySpec
from solver.policies.pending import PendingByWidth


class ShortestServiceFirst:
    """Rooms of GPUs, each serving the pending job of least service (GPUs x life) that fits into it.

    Skipping: a job that does not fit is passed over, so wide ones may starve. Ties: (submit, id).
    Cost of a start: O(widths + log n).

    Args:
        context: pools and forecaster.
        settings: level of the life.
        rooms: GPUs of each room.
        room_of: the room a job belongs to.
        weight_of: what a job's life is multiplied by to give its service; None: its width.
    """

    def __init__(
        self,
        context: PolicyContext,
        settings: LevelSettings,
        rooms: Mapping[str, int],
        room_of: Callable[[Job], str],
        weight_of: Callable[[Job], float] | None = None,
    ) -> None:
        self._lives = context.lives
        self._level = settings.level
        self._room_of = room_of
        self._weight_of = weight_of or (lambda job: float(job.num_gpus))
        self._free = dict(rooms)
        self._pending: dict[str, PendingByWidth[tuple[float, float]]] = {r: PendingByWidth() for r in rooms}
        self._running: set[str] = set()
        self._proposed: dict[str, Job] = {}
        self._changed: dict[str, None] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job joins the queue of its room."""
        room = self._room_of(job)
        service = self._lives.quantile_s(job, self._level) * self._weight_of(job)
        self._pending[room].add(job, (service, job.submit_s))
        self._changed[room] = None

    def started(self, job: Job, now_s: float) -> None:
        """A job runs in its room."""
        room = self._room_of(job)
        self._pending[room].discard(job.job_id)
        self._proposed.pop(job.job_id, None)
        self._running.add(job.job_id)
        self._free[room] -= job.num_gpus

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        room = self._room_of(job)
        if job.job_id in self._running:
            self._running.discard(job.job_id)
            self._free[room] += job.num_gpus
        self._pending[room].discard(job.job_id)
        self._proposed.pop(job.job_id, None)
        self._changed[room] = None

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped and waits again."""
        self.ended(job, now_s)
        self.submitted(job, now_s)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Fill the rooms in which something has changed."""
        for ignored in list(self._proposed.values()):
            self.submitted(ignored, now_s)
        self._proposed.clear()
        for room in self._changed:
            pending, free = self._pending[room], self._free[room]
            while free and (job := pending.best(free)) is not None:
                pending.discard(job.job_id)
                self._proposed[job.job_id] = job
                free -= job.num_gpus
        self._changed.clear()
        if not self._proposed:
            return NOTHING
        return Plan(starts=tuple(Start(job, False) for job in self._proposed.values()))


def _build(context: PolicyContext, settings: LevelSettings) -> ShortestServiceFirst:
    return ShortestServiceFirst(context, settings, context.quotas, lambda job: job.pool)


SPEC = PolicySpec(build=_build, settings=LevelSettings, uses_lives=True, lends=Lends.NOBODY)
