"""What a forecast of lives has to beat: points that anybody can say without a model."""

import math
from abc import ABC, abstractmethod
from bisect import insort
from collections import deque
from collections.abc import Iterator
from typing import Final

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.observers import Observer

_NOTHING_KNOWN_S: Final = 3600.0
"""Said while not a single job has ended."""

Key = tuple[str | int | None, ...]


class PointLifetimes(Observer, ABC):
    """Says one time at every level. Learns from each job that ends, and from nothing else."""

    is_clairvoyant: Final = False

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:  # noqa: ARG002 - when is no matter
        """Learn from a job that has just ended."""
        self.observe(job, duration_s)

    @abstractmethod
    def observe(self, job: Job, duration_s: float) -> None:
        """Learn from a job that had ended."""

    @abstractmethod
    def point_s(self, job: Job) -> float:
        """The one time, seconds."""

    def quantile_s(self, job: Job, level: float) -> float:  # noqa: ARG002 - a point
        """`point_s`, whatever the level."""
        return self.point_s(job)

    def survival(self, job: Job) -> tuple[float, ...]:
        """1 up to the point, 0 beyond."""
        point_s = self.point_s(job)
        return tuple(float(edge < point_s) for edge in LIFE_EDGES_S)


class PoolWidthMedian(PointLifetimes):
    """The median of all that has ended in the same pool with the same width, else of all."""

    def __init__(self) -> None:
        self._lives: dict[Key, list[float]] = {}

    def observe(self, job: Job, duration_s: float) -> None:
        """Learn from a job that had ended."""
        for key in ((job.pool, job.num_gpus), ()):
            insort(self._lives.setdefault(key, []), duration_s)

    def point_s(self, job: Job) -> float:
        """The median, seconds."""
        lives = self._lives.get((job.pool, job.num_gpus)) or self._lives.get(())
        return lives[len(lives) // 2] if lives else _NOTHING_KNOWN_S


class LastTwo(PointLifetimes):
    """exp of the mean ln life of the last two of the same user and name, or of the next more general key."""

    def __init__(self) -> None:
        self._lives: dict[Key, deque[float]] = {}

    def observe(self, job: Job, duration_s: float) -> None:
        """Learn from a job that had ended."""
        for key in _keys(job):
            self._lives.setdefault(key, deque(maxlen=2)).append(math.log(max(duration_s, 1.0)))

    def point_s(self, job: Job) -> float:
        """The geometric mean, seconds."""
        for key in _keys(job):
            if lives := self._lives.get(key):
                return math.exp(sum(lives) / len(lives))
        return _NOTHING_KNOWN_S


def _keys(job: Job) -> Iterator[Key]:
    if job.name is not None:
        yield ("name", job.user, job.name)
    if job.user is not None:
        yield ("user", job.user, job.pool, job.num_gpus)
    yield ("pool", job.pool, job.num_gpus)
    yield ()
