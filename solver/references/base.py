"""What a reference is: a function from jobs and quotas to starts, and the room in which pools are walked."""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

from domain.jobs import Job, submit_order


class Starts(Protocol):
    """Start of each job in a world without sharing."""

    def __call__(
        self,
        jobs: Iterable[Job],
        durations_s: Mapping[str, float],
        quotas: Mapping[str, int],
        estimates_s: Mapping[str, float],
    ) -> dict[str, float]:
        """Walk through that world.

        Args:
            jobs: in any order.
            durations_s: of each job, when alone on its own GPUs.
            quotas: GPUs of each pool.
            estimates_s: what was believed of each job's length when it was submitted; read by those
                references only that say so.

        Returns:
            Start of each job, seconds, by id. Jobs wider than their pool's quota are left out: they have no
            reference, and block nobody.

        Raises:
            KeyError: if a job has no duration, or no estimate where one is needed.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReferenceSpec:
    """A registered reference.

    Attributes:
        starts: the function.
        uses_estimates: whether it rests on estimates of lives, so that the promise does too.
    """

    starts: Starts
    uses_estimates: bool = False


class Running(NamedTuple):
    """A job that runs in the reference."""

    job: Job
    start_s: float


class Room:
    """One pool at one instant of its walk.

    Attributes:
        quota_gpus: its GPUs.
        free_gpus: those of them that nobody has.
        running: by id.
        now_s: the instant.
    """

    __slots__ = ("free_gpus", "now_s", "quota_gpus", "running")

    def __init__(self, quota_gpus: int) -> None:
        self.quota_gpus = quota_gpus
        self.free_gpus = quota_gpus
        self.running: dict[str, Running] = {}
        self.now_s = -math.inf


class Queue(Protocol):
    """The jobs of one pool that wait, in the order its rule gives them."""

    def add(self, job: Job) -> None:
        """A job has been submitted."""
        ...

    def take(self, room: Room) -> Sequence[Job]:
        """Remove and return the jobs that start now; they fit the free GPUs together."""
        ...


def walk(
    jobs: Iterable[Job],
    durations_s: Mapping[str, float],
    quotas: Mapping[str, int],
    make_queue: Callable[[], Queue],
) -> dict[str, float]:
    """Go through the world of each pool: endings first, then arrivals by (submit, id), then starts.

    O(n log n) beside what the queues cost.
    """
    starts: dict[str, float] = {}
    in_line = sorted(jobs, key=lambda job: (job.pool, *submit_order(job)))
    for pool, line in groupby(in_line, key=lambda job: job.pool):
        quota = quotas.get(pool, 0)
        fitting = [job for job in line if job.num_gpus <= quota]
        starts.update(_walk_pool(fitting, durations_s, Room(quota), make_queue()))
    return starts


def _walk_pool(
    line: Sequence[Job], durations_s: Mapping[str, float], room: Room, queue: Queue
) -> dict[str, float]:
    starts: dict[str, float] = {}
    ends: list[tuple[float, str]] = []
    arrived = 0
    while arrived < len(line) or ends:
        submit_s = line[arrived].submit_s if arrived < len(line) else math.inf
        room.now_s = now_s = min(submit_s, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] == now_s:
            job = room.running.pop(heapq.heappop(ends)[1]).job
            room.free_gpus += job.num_gpus
        while arrived < len(line) and line[arrived].submit_s == now_s:
            queue.add(line[arrived])
            arrived += 1
        for job in queue.take(room):
            starts[job.job_id] = now_s
            room.free_gpus -= job.num_gpus
            room.running[job.job_id] = Running(job, now_s)
            heapq.heappush(ends, (now_s + durations_s[job.job_id], job.job_id))
    return starts
