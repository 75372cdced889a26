"""Which of the ended lives are kept to be trained on, when there are more than fit."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from domain.jobs import Job
from models.lifetime.features import JobFeatures

MOST_LIVES: Final = 100_000
"""Ended lives that are kept and trained on: bounds time and memory (about 2 kB each)."""

_THINNED_TO: Final = 0.8
_DRAWS: Final = 2.0**32


@dataclass(frozen=True, slots=True)
class Life:
    """One job to learn from.

    Attributes:
        job: the job.
        features: as of its submit.
        age_s: its duration, or how long it has lived at least.
        has_ended: which of the two.
        last_seen_s: instant at which it had that age.
    """

    job: Job
    features: JobFeatures
    age_s: float
    has_ended: bool
    last_seen_s: float


class LifeSample:
    """Lives whose job's draw lies below a share, which falls when there are more than `most`.

    The draw is a hash of the id: which jobs are kept depends neither on how long they lived nor on when, so
    the sample is fair over all of the record; that old ones count less is for their weights to say.

    Args:
        most: lives that are kept.

    Attributes:
        lives: in the order of ending.
        share: of all jobs that are kept, in (0, 1].
        first_seen_s: when the first life that was ever added ended; infinite before.
    """

    def __init__(self, most: int = MOST_LIVES) -> None:
        self._most = most
        self.lives: list[Life] = []
        self.share = 1.0
        self.first_seen_s = math.inf

    def __len__(self) -> int:
        return len(self.lives)

    def add(self, life: Life) -> None:
        """A life has ended."""
        self.first_seen_s = min(self.first_seen_s, life.last_seen_s)
        if not self._is_in(life):
            return
        self.lives.append(life)
        while len(self.lives) > self._most:
            self.share *= _THINNED_TO
            self.lives = self.among(self.lives)

    def among(self, lives: Iterable[Life]) -> list[Life]:
        """Those that the sample would keep."""
        return [life for life in lives if self._is_in(life)]

    def forget_before(self, instant_s: float, *, least: int) -> None:
        """Drop the lives that had ended by then, but for the last ones if fewer than `least` would stay."""
        later = [life for life in self.lives if life.last_seen_s > instant_s]
        self.lives = later if len(later) >= least else self.lives[-least:]

    def clear(self) -> None:
        """Drop all lives."""
        self.lives = []

    def _is_in(self, life: Life) -> bool:
        return crc32(life.job.job_id.encode()) < self.share * _DRAWS
