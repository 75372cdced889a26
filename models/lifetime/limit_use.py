"""How limits are used: what share of its limit a job lives, by user and overall, and who reaches it."""

import math
from typing import Final

from models.lifetime.keys import Key
from models.lifetime.recent import KeyLives, RecentLives

LN_REACHED: Final = math.log(0.98)
"""ln of the share of its limit from which on a job counts as having reached it."""

MEMORY_JOBS: Final = 500.0
"""Jobs after which the overall averages have forgotten all but 1/e."""

RELATIVE_USE: Final = ("limit", "limit as used by the user", "limit as used by all")
PLAIN_USE: Final = ("share at limit of the user", "share at limit of all", "deviation of use by the user")


class LimitUse:
    """Averages of ln(life / limit), and shares that reached the limit.

    Attributes:
        by_user: the last ratios of each user.
        mean, reached: overall averages; NaN before the first.
    """

    def __init__(self) -> None:
        self.by_user = RecentLives()
        self.mean = math.nan
        self.reached = math.nan

    def ended(self, key: Key | None, limit_s: float | None, ln_life: float) -> None:
        """A job has ended; without a limit it says nothing."""
        if limit_s is None or limit_s <= 0:
            return
        ratio = ln_life - math.log(limit_s)
        reached = float(ratio >= LN_REACHED)
        if math.isnan(self.mean):
            self.mean, self.reached = ratio, reached
        self.mean += (ratio - self.mean) / MEMORY_JOBS
        self.reached += (reached - self.reached) / MEMORY_JOBS
        if key is not None:
            self.by_user.used(key).add(ratio, math.nan)

    def features(self, key: Key | None, limit_s: float | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Values of `RELATIVE_USE` (ln seconds) and of `PLAIN_USE`; NaN where unknown."""
        if limit_s is None or limit_s <= 0:
            return (math.nan,) * len(RELATIVE_USE), (math.nan,) * len(PLAIN_USE)
        ln_limit = math.log(limit_s)
        user = None if key is None else self.by_user.get(key)
        mean, deviation = math.nan, math.nan
        if user is not None:
            mean, _, _, deviation = user.summary()
        relative = (ln_limit, ln_limit + mean, ln_limit + self.mean)
        return relative, (_share_reached(user), self.reached, deviation)


def _share_reached(user: KeyLives | None) -> float:
    if user is None or not user.lives:
        return math.nan
    return sum([ratio >= LN_REACHED for ratio in user.lives]) / len(user.lives)
