"""The state of the queue: what waits and what runs, of a pool and of the whole cluster."""

import math
from collections import deque
from typing import Final

from domain.jobs import Job

BURST_S: Final = (60.0, 600.0)
BURST_FEATURES: Final = ("since submit", *(f"submits {length_s:.0f} s" for length_s in BURST_S))
QUEUE_FEATURES: Final = tuple(
    f"{what} {where}"
    for where in ("of the pool", "of the cluster")
    for what in ("jobs waiting", "GPUs waiting", "jobs running", "GPUs running")
)
_NOTHING: Final = (0, 0, 0, 0)


class QueueState:
    """Counts of waiting and running jobs, and the submits of each pool within the last minutes."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, ...], list[int]] = {}
        self.last_submit_s: dict[str, float] = {}
        self.submits: dict[str, tuple[deque[float], ...]] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job waits."""
        self._change(job, 1, 0)
        self.last_submit_s[job.pool] = now_s
        for instants in self.submits.setdefault(job.pool, tuple(deque() for _ in BURST_S)):
            instants.append(now_s)

    def started(self, job: Job) -> None:
        """A waiting job runs."""
        self._change(job, -1, 1)

    def stopped(self, job: Job) -> None:
        """A running job waits."""
        self._change(job, 1, -1)

    def left(self, job: Job) -> None:
        """A job that does not run any more has ended or was withdrawn."""
        self._change(job, -1, 0)

    def features(self, job: Job) -> list[float]:
        """Values of `QUEUE_FEATURES`, as ln(1 + number)."""
        pool = self.counts.get((job.pool,), _NOTHING)
        cluster = self.counts.get((), _NOTHING)
        return [math.log1p(number) for number in (*pool, *cluster)]

    def burst(self, job: Job, now_s: float) -> tuple[float, ...]:
        """Values of `BURST_FEATURES`."""
        submits = self.submits.get(job.pool)
        if submits is None:
            return (math.nan, 0.0, 0.0)
        for instants, length_s in zip(submits, BURST_S, strict=True):
            while instants and instants[0] <= now_s - length_s:
                instants.popleft()
        since_s = max(0.0, now_s - self.last_submit_s[job.pool])
        return (math.log1p(since_s), *(float(len(instants)) for instants in submits))

    def _change(self, job: Job, waiting: int, running: int) -> None:
        """Add to the jobs that wait and run, and to their GPUs."""
        width = job.num_gpus
        for key in ((job.pool,), ()):
            counts = self.counts.get(key)
            if counts is None:
                counts = self.counts[key] = [0, 0, 0, 0]
            counts[0] += waiting
            counts[1] += waiting * width
            counts[2] += running
            counts[3] += running * width
