"""What predictors hand to planners: quantiles and survival curves, and who may produce lifetimes."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from domain.jobs import Job


@dataclass(frozen=True, slots=True)
class QuantileForecast:
    """Values at levels in (0, 1), both non-decreasing.

    Raises:
        ValueError: if lengths differ, levels leave (0, 1) or anything decreases.
    """

    levels: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.levels or len(self.levels) != len(self.values):
            raise ValueError("a quantile forecast needs as many values as levels, at least one")
        if not all(0.0 < level < 1.0 for level in self.levels):
            raise ValueError("levels lie in (0, 1)")
        if any(b <= a for a, b in zip(self.levels, self.levels[1:], strict=False)):
            raise ValueError("levels must increase")
        if any(b < a for a, b in zip(self.values, self.values[1:], strict=False)):
            raise ValueError("quantiles cross: values must not decrease with the level")

    def at(self, level: float) -> float:
        """Value at `level`, linear between the levels, constant beyond the outermost ones."""
        if level <= self.levels[0]:
            return self.values[0]
        if level >= self.levels[-1]:
            return self.values[-1]
        k = bisect_right(self.levels, level)
        low, high = self.levels[k - 1], self.levels[k]
        share = (level - low) / (high - low)
        return self.values[k - 1] + share * (self.values[k] - self.values[k - 1])


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """S(t) = P(life > t), a step function: 1 before `times_s[0]`, `survival[k]` from `times_s[k]` on.

    Raises:
        ValueError: if lengths differ, times do not increase or S leaves [0, 1] or increases.
    """

    times_s: tuple[float, ...]
    survival: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.times_s) != len(self.survival) or not self.times_s:
            raise ValueError("a survival curve needs as many values as times, at least one")
        if any(b <= a for a, b in zip(self.times_s, self.times_s[1:], strict=False)):
            raise ValueError("times of a survival curve must increase")
        bounds = (1.0, *self.survival, 0.0)
        if any(b > a for a, b in pairwise(bounds)):
            raise ValueError("a survival curve lies in [0, 1] and does not increase")

    def at(self, time_s: float) -> float:
        """P(life > time_s)."""
        k = bisect_right(self.times_s, time_s)
        return 1.0 if k == 0 else self.survival[k - 1]

    def beyond(self, age_s: float, ahead_s: float) -> float:
        """P(life > age + ahead | life > age) = S(age + ahead) / S(age); 0 where S(age) is 0."""
        alive = self.at(age_s)
        return self.at(age_s + ahead_s) / alive if alive > 0 else 0.0

    def quantile_s(self, level: float) -> float:
        """Smallest time by which a share `level` of lives has ended; infinite if the curve never tells."""
        for time_s, alive in zip(self.times_s, self.survival, strict=True):
            if 1.0 - alive >= level:
                return time_s
        return math.inf


class Burst(NamedTuple):
    """Many GPUs asked for at once, and how often that happens.

    Attributes:
        pool: rank of the pool.
        num_gpus: asked for.
        num_jobs: jobs that ask.
        per_s: how often, a second.
    """

    pool: int
    num_gpus: float
    num_jobs: float
    per_s: float


LIFE_EDGES_S: Final = tuple(2.0 ** (k / 3.0) for k in range(9, 67))
"""The common grid of forecast lives: 8 s to 48 days, three edges per doubling."""


class LifetimeForecaster(Protocol):
    """Says how long a job will run, from nothing but what it has been told by the instant it is asked.

    `is_clairvoyant` marks the one that reads the truth: the policies it serves are starred.
    """

    @property
    def is_clairvoyant(self) -> bool:
        """Whether it reads the truth."""
        ...

    def quantile_s(self, job: Job, level: float) -> float:
        """Forecast of the job's `duration_s` at `level` in (0, 1), seconds."""
        ...

    def survival(self, job: Job) -> Sequence[float]:
        """P(duration > edge) for each edge of `LIFE_EDGES_S`; in [0, 1], non-increasing."""
        ...
