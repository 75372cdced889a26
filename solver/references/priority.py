"""Higher priority first inside each pool's own quota, without backfilling and without preemption.

What the promise rests on: the priorities of the record. A job that comes later may come first, so this
reference is not monotone, and nobody can know it before later jobs have come: it measures, it does not
decide.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

from domain.jobs import Job
from solver.references.base import ReferenceSpec, Room, walk


def starts(
    jobs: Iterable[Job],
    durations_s: Mapping[str, float],
    quotas: Mapping[str, int],
    estimates_s: Mapping[str, float],  # noqa: ARG001 - believed lengths change nothing here
) -> dict[str, float]:
    """Start of each job; ties in priority by (submit, id), no priority counts as 0. See `Starts`."""
    return walk(jobs, durations_s, quotas, _ByPriority)


class _ByPriority:
    """In the order of (-priority, submit, id); the first that does not fit blocks those behind it."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, float, str, Job]] = []

    def add(self, job: Job) -> None:
        heapq.heappush(self._waiting, (-(job.priority or 0.0), job.submit_s, job.job_id, job))

    def take(self, room: Room) -> Sequence[Job]:
        free = room.free_gpus
        taken: list[Job] = []
        while self._waiting and self._waiting[0][-1].num_gpus <= free:
            job = heapq.heappop(self._waiting)[-1]
            free -= job.num_gpus
            taken.append(job)
        return taken


SPEC = ReferenceSpec(starts)
