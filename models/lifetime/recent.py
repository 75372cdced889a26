"""What the last few jobs of each key lived: means, the last ones, and when the key was last heard of."""

import math
from collections.abc import Hashable
from typing import Final

RECENT_LIVES: Final = 16
"""Lives per key behind means and deviations."""

MOST_KEYS: Final = 150_000
"""Keys whose lives are remembered, the ones used last."""

_UNKNOWN: Final = (math.nan, math.nan, math.nan, math.nan)


class KeyLives:
    """The last few lives of one key.

    Attributes:
        lives: ln of the last `RECENT_LIVES` lives, in the order of ending.
        last_end_s, last_submit_s: instants of the last end and submit; NaN before the first.
    """

    __slots__ = ("_summary", "last_end_s", "last_submit_s", "lives")

    def __init__(self) -> None:
        self.lives: list[float] = []
        self.last_end_s = math.nan
        self.last_submit_s = math.nan
        self._summary: tuple[float, float, float, float] | None = None

    def add(self, ln_life: float, now_s: float) -> None:
        """A job of the key has ended."""
        self.lives.append(ln_life)
        if len(self.lives) > RECENT_LIVES:
            del self.lives[0]
        self.last_end_s = now_s
        self._summary = None

    def summary(self) -> tuple[float, float, float, float]:
        """Mean, last, last but one and standard deviation of ln life; NaN where too few have ended."""
        if self._summary is None:
            lives = self.lives
            if not lives:
                return _UNKNOWN
            mean = sum(lives) / len(lives)
            deviation = math.sqrt(sum([(life - mean) ** 2 for life in lives]) / len(lives))
            self._summary = (mean, lives[-1], lives[-2] if len(lives) > 1 else math.nan, deviation)
        return self._summary


class RecentLives:
    """Lives by key; of more than `most` keys, those used last."""

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self.by_key: dict[Hashable, KeyLives] = {}

    def get(self, key: Hashable) -> KeyLives | None:
        """What is known of a key."""
        return self.by_key.get(key)

    def used(self, key: Hashable) -> KeyLives:
        """The lives of a key that is used now, made where there are none."""
        lives = self.by_key.pop(key, None)
        if lives is None:
            lives = KeyLives()
            if len(self.by_key) >= self._most:
                del self.by_key[next(iter(self.by_key))]
        self.by_key[key] = lives
        return lives
