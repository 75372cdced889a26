"""Lifetimes by what jobs like this one have lasted lately: quantiles per key, from specific to general."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import Final

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.observers import Observer

WINDOW_JOBS: Final = 64
"""Lives remembered per key: enough for a median and a ninth decile, few enough to follow a change."""

LEAST_JOBS: Final = 5
"""Lives a key needs before it is believed rather than a more general one."""

_NOTHING_KNOWN_S: Final = 3600.0
"""Said while not a single job has ended."""


class _RecentLives:
    """The last `WINDOW_JOBS` durations of one key, also kept sorted."""

    __slots__ = ("_in_order", "_sorted")

    def __init__(self) -> None:
        self._in_order: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, duration_s: float) -> None:
        if len(self._in_order) == WINDOW_JOBS:
            oldest = self._in_order.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._in_order.append(duration_s)
        insort(self._sorted, duration_s)

    def survival(self) -> tuple[float, ...]:
        number = len(self._sorted)
        return tuple((number - bisect_right(self._sorted, edge)) / number for edge in LIFE_EDGES_S)

    def quantile_s(self, level: float) -> float:
        place = level * (len(self._sorted) - 1)
        low = int(place)
        high = min(low + 1, len(self._sorted) - 1)
        return self._sorted[low] + (place - low) * (self._sorted[high] - self._sorted[low])


class EmpiricalLifetimes(Observer):
    """Empirical quantiles of the most specific key that has been seen often enough.

    Keys, from specific to general: same user and name; same name; same user, pool and width; same pool and
    width; same pool; all. Learns from each job that ends, and from nothing else, so it is causal as long
    as it is told of endings when they happen. A forecast costs O(keys), learning O(keys x window).
    """

    is_clairvoyant: Final = False

    def __init__(self) -> None:
        self._lives: dict[tuple[str | int, ...], _RecentLives] = {}

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:  # noqa: ARG002 - when is no matter
        """Learn from a job that has just ended."""
        self.observe(job, duration_s)

    def observe(self, job: Job, duration_s: float) -> None:
        """Learn from a job that had ended."""
        for key in _keys(job):
            lives = self._lives.get(key)
            if lives is None:
                lives = self._lives[key] = _RecentLives()
            lives.add(duration_s)

    def quantile_s(self, job: Job, level: float) -> float:
        """Forecast of the job's `duration_s` at `level` in (0, 1), seconds.

        Raises:
            ValueError: if the level leaves (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}, must lie in (0, 1)")
        lives = self._most_specific(job)
        return _NOTHING_KNOWN_S if lives is None else lives.quantile_s(level)

    def survival(self, job: Job) -> tuple[float, ...]:
        """P(duration > edge) for each edge of `LIFE_EDGES_S`; a step at one hour while nothing is known."""
        lives = self._most_specific(job)
        if lives is None:
            return tuple(float(edge < _NOTHING_KNOWN_S) for edge in LIFE_EDGES_S)
        return lives.survival()

    def _most_specific(self, job: Job) -> _RecentLives | None:
        """Lives of the first key with enough of them; failing that, of the last that has any."""
        best: _RecentLives | None = None
        for key in _keys(job):
            lives = self._lives.get(key)
            if lives is not None:
                best = lives
                if len(lives) >= LEAST_JOBS:
                    break
        return best


def _keys(job: Job) -> Iterator[tuple[str | int, ...]]:
    if job.name is not None:
        if job.user is not None:
            yield ("user-name", job.user, job.name)
        yield ("name", job.name)
    if job.user is not None:
        yield ("user-pool-width", job.user, job.pool, job.num_gpus)
    yield ("pool-width", job.pool, job.num_gpus)
    yield ("pool", job.pool)
    yield ("all",)
