"""First come, first served inside each pool's own quota, without backfilling: the default.

What the promise rests on: nothing but what happened. This reference is monotone (jobs that leave earlier
move no later start back), so own lanes can keep to it while it is not known yet.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from domain.jobs import Job
from solver.references.base import ReferenceSpec, Room, walk


def starts(
    jobs: Iterable[Job],
    durations_s: Mapping[str, float],
    quotas: Mapping[str, int],
    estimates_s: Mapping[str, float],  # noqa: ARG001 - believed lengths change nothing here
) -> dict[str, float]:
    """Start of each job; ties by (submit, id). See `Starts`."""
    return walk(jobs, durations_s, quotas, _Fifo)


class _Fifo:
    """In the order of (submit, id); the first that does not fit blocks those behind it."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()

    def add(self, job: Job) -> None:
        self._waiting.append(job)

    def take(self, room: Room) -> Sequence[Job]:
        free = room.free_gpus
        taken: list[Job] = []
        while self._waiting and self._waiting[0].num_gpus <= free:
            job = self._waiting.popleft()
            free -= job.num_gpus
            taken.append(job)
        return taken


SPEC = ReferenceSpec(starts)
