"""EASY backfilling (Lifka 1995) inside each pool's own quota.

What the promise rests on: besides what happened, the estimates of lives, for they decide who may start before
a blocked job. Other estimates make another reference. It is not monotone: a job that leaves earlier may let
another one in that keeps a third waiting. It measures, it does not decide.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from domain.jobs import Job
from solver.references.base import ReferenceSpec, Room, walk


def starts(
    jobs: Iterable[Job],
    durations_s: Mapping[str, float],
    quotas: Mapping[str, int],
    estimates_s: Mapping[str, float],
) -> dict[str, float]:
    """Start of each job; ties by (submit, id). See `Starts`.

    Jobs start in order while the next one fits. The first that does not gets a reservation: the instant at
    which, by the estimates, enough GPUs are free. A later job starts now if it fits and either is believed
    to end by then or needs only what the reservation leaves over. What has outlived its estimate is taken
    to need twice as long, again and again.
    """
    return walk(jobs, durations_s, quotas, partial(_Easy, estimates_s))


class _Easy:
    def __init__(self, estimates_s: Mapping[str, float]) -> None:
        self._estimates_s = estimates_s
        self._waiting: OrderedDict[str, Job] = OrderedDict()

    def add(self, job: Job) -> None:
        self._waiting[job.job_id] = job

    def take(self, room: Room) -> Sequence[Job]:
        taken: list[Job] = []
        if not room.free_gpus:
            return taken
        free = room.free_gpus
        for job in self._waiting.values():
            if job.num_gpus > free:
                break
            free -= job.num_gpus
            taken.append(job)
        for job in taken:
            del self._waiting[job.job_id]
        if free and len(self._waiting) > 1:
            taken += self._behind_the_head(room, taken, free)
        return taken

    def _behind_the_head(self, room: Room, begun: Sequence[Job], free: int) -> list[Job]:
        reserved_s, extra = self._reservation(room, begun, free)
        taken: list[Job] = []
        waiting = iter(self._waiting.values())
        next(waiting)
        for job in waiting:
            is_done_by_then = room.now_s + self._estimates_s[job.job_id] <= reserved_s
            if job.num_gpus > (free if is_done_by_then else min(free, extra)):
                continue
            free -= job.num_gpus
            extra -= 0 if is_done_by_then else job.num_gpus
            taken.append(job)
            if not free:
                break
        for job in taken:
            del self._waiting[job.job_id]
        return taken

    def _reservation(self, room: Room, begun: Sequence[Job], free: int) -> tuple[float, int]:
        """When the head can start by the estimates, and how many GPUs are left over then."""
        head = next(iter(self._waiting.values()))
        ends = [
            (self._believed_end_s(job, start_s, room), job.num_gpus) for job, start_s in room.running.values()
        ]
        ends += [(self._believed_end_s(job, room.now_s, room), job.num_gpus) for job in begun]
        for end_s, width in sorted(ends):
            free += width
            if free >= head.num_gpus:
                return end_s, free - head.num_gpus
        return math.inf, 0

    def _believed_end_s(self, job: Job, start_s: float, room: Room) -> float:
        estimate_s = max(self._estimates_s[job.job_id], 1.0)
        while start_s + estimate_s <= room.now_s:
            estimate_s *= 2.0
        return start_s + estimate_s


SPEC = ReferenceSpec(starts, uses_estimates=True)
