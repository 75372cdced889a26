"""Slow correction of forecast lives by how earlier forecasts turned out, with censoring; only while it helps.

If forecasts were calibrated, F(life) would be uniform on [0, 1] (the probability integral transform; Dawid,
J. R. Stat. Soc. A 147:2, 1984). The distribution it has is estimated by the product limit over the lives that
have ended and those that are known to have got so far (Kaplan and Meier, JASA 53, 1958), so jobs that still
run do not make lives look shorter than they are, and it is mixed with the uniform one as if that had been
seen on `PRIOR_LIVES` lives. A forecast S becomes (1 - w) S + w G(S), G being the survival function of that
mixture.

Lives come in bursts, and what was wrong with the last one may be right for the next. So w goes by how much
likelier each further life was under the correction made before it than without any: a sum of ln density that
forgets, as in the aggregation of two experts (Vovk, J. Comput. Syst. Sci. 56:2, 1998).
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NUM_CELLS: Final = 40
LEVELS: Final = np.linspace(0.0, 1.0, NUM_CELLS + 1)
"""Places on the scale of F between which the correction is linear."""

KEPT_LIVES: Final = 4_000
"""Ended lives that the correction is estimated on, the latest."""

PRIOR_LIVES: Final = 1_000.0
"""How many lives the identity counts for."""

REFRESH_LIVES: Final = 250
"""The correction is estimated anew after so many further lives."""

_MEMORY_LIVES: Final = 1_000.0
"""Lives after which the balance has forgotten all but 1/e."""

_TEMPER: Final = 0.05
"""What a unit of ln density counts for: twins of a burst are far from independent."""

_PLACES: Final = LEVELS.tolist()


class Recalibration:
    """A monotone map of survival probabilities, the identity while little is known or where it does not help.

    Attributes:
        ended: F(life) of the last lives, in the order of ending.
        alive: G at 1 - `LEVELS`, falling from 1 to 0.
        since_refresh: lives since the last `refresh`.
        balance: ln likelihood of the last lives under the corrections made before them; 0 without any.
    """

    def __init__(self) -> None:
        self.ended: deque[float] = deque(maxlen=KEPT_LIVES)
        self.alive: Floats = 1.0 - LEVELS
        self.since_refresh = 0
        self.balance = 0.0

    @property
    def weight(self) -> float:
        """Share of the correction in what is said, in [0, 1)."""
        return max(0.0, math.tanh(_TEMPER * self.balance))

    @property
    def is_due(self) -> bool:
        """Whether enough has ended since the last `refresh`."""
        return self.since_refresh >= REFRESH_LIVES

    def add(self, share: float, alive: Floats) -> None:
        """A job has ended.

        Args:
            share: F(life) of its forecast as it was made, before any correction.
            alive: the correction as it was when the forecast was made, before siblings could teach it.
        """
        share = min(max(share, 0.0), 1.0)
        cell = max(bisect_left(_PLACES, share) - 1, 0)
        density = NUM_CELLS * float(alive[cell] - alive[cell + 1])
        self.balance += math.log(density) - self.balance / _MEMORY_LIVES
        self.ended.append(share)
        self.since_refresh += 1

    def refresh(self, running: Sequence[float] | Floats) -> None:
        """Estimate the correction anew.

        Args:
            running: F(age) of the forecasts of the jobs that run.
        """
        self.since_refresh = 0
        self.alive = correction(np.array(self.ended), np.asarray(running, np.float64))

    def apply(self, survival: Floats) -> Floats:
        """Corrected survival, any shape: within [0, 1], not increasing where `survival` does not."""
        weight = self.weight
        if weight == 0.0:
            return survival
        corrected: Floats = np.interp(survival, 1.0 - LEVELS[::-1], self.alive[::-1])
        return (1.0 - weight) * survival + weight * corrected


def correction(ended: Floats, censored: Floats) -> Floats:
    """Survival function of F(life) at `LEVELS`, mixed with the uniform one; from 1 down to 0, decreasing.

    Args:
        ended: F(life) of lives that have ended.
        censored: F(age) of lives that have got so far.
    """
    died = np.bincount(np.clip(np.searchsorted(LEVELS, ended), 1, None), minlength=NUM_CELLS + 1)[1:]
    got_to = np.clip(np.searchsorted(LEVELS, censored, side="right") - 1, 0, None)
    left = np.bincount(got_to, minlength=NUM_CELLS + 1)[:NUM_CELLS]
    at_risk = (died + left)[::-1].cumsum()[::-1] - left
    prior = PRIOR_LIVES / NUM_CELLS
    hazards = (died + prior) / (at_risk + PRIOR_LIVES * (1.0 - LEVELS[:-1]))
    hazards[-1] = 1.0
    return np.concatenate(([1.0], np.cumprod(1.0 - hazards)))
