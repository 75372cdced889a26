"""How long jobs still run, given how long they have: quantiles and chances of many jobs at once.

A curve is read as in `models.lifetime.bulk`: ln S is linear in ln t between the edges, and in t up to the
first one. Where it tells nothing more (beyond the last edge, or once fewer than one in 10^9 are left) a job
that has outlived it halves its chances with every doubling of its age, S ~ 1 / t.

ln S so read falls, or stays, along t. The total life at a level p of one that has lived a is where it has
fallen by -ln(1 - p) from its value at a: it does not fall as p or a grows, so quantiles never cross and the
total life is monotone in what has been lived.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from domain.forecasts import LIFE_EDGES_S

Floats = npt.NDArray[np.float64]

LEAST: Final = 1e-9
"""Survival below which a curve tells nothing more."""

_EDGES_S: Final = np.array(LIFE_EDGES_S)
_LN_EDGES: Final = np.log(_EDGES_S)


class Remaining:
    """Lives of jobs that have run for some time.

    Args:
        curves: S at `LIFE_EDGES_S`, shape (jobs, edges); in [0, 1], non-increasing.
        ages_s: how long each has run, shape (jobs,), 0 or more.

    Raises:
        ValueError: if shapes differ or an age is negative.
    """

    def __init__(self, curves: npt.ArrayLike, ages_s: npt.ArrayLike) -> None:
        alive = np.asarray(curves, np.float64).reshape(-1, len(_EDGES_S))
        self._ages_s = np.asarray(ages_s, np.float64)
        if self._ages_s.shape != (len(alive),) or not (self._ages_s >= 0.0).all():
            raise ValueError("there must be one age, 0 or more, for each curve")
        self._knots = _ln_alive(alive)
        self._from = self._read(self._ages_s[:, None])

    def totals_s(self, levels: Sequence[float]) -> Floats:
        """Total life at each level in (0, 1), shape (jobs, levels), at least the age; non-decreasing.

        Raises:
            ValueError: if a level leaves (0, 1).
        """
        at = np.asarray(levels, np.float64)
        if not ((at > 0.0) & (at < 1.0)).all():
            raise ValueError(f"levels are {levels}, must lie in (0, 1)")
        wanted = self._from + np.log1p(-at)
        place = (self._knots[:, :, None] > wanted[:, None, :]).sum(axis=1)
        rows = np.arange(len(place))[:, None]
        above = np.where(place > 0, self._knots[rows, np.maximum(place - 1, 0)], 0.0)
        at_edge = np.minimum(place, len(_EDGES_S) - 1)
        below = self._knots[rows, at_edge]
        share = np.clip((above - wanted) / np.maximum(above - below, 1e-300), 0.0, 1.0)
        low = _LN_EDGES[np.maximum(at_edge - 1, 0)]
        inside = np.exp(low + share * (_LN_EDGES[at_edge] - low))
        beyond = _EDGES_S[-1] * np.exp(np.minimum(self._knots[:, -1:] - wanted, 300.0))
        found = np.where(place == 0, share * _EDGES_S[0], inside)
        found = np.where(place == len(_EDGES_S), beyond, found)
        found = np.maximum(found, self._ages_s[:, None])
        return np.asarray(found, np.float64)

    def left_s(self, levels: Sequence[float]) -> Floats:
        """Remaining life at each level, shape (jobs, levels): the total less the age."""
        return np.asarray(self.totals_s(levels) - self._ages_s[:, None], np.float64)

    def chances(self, within_s: npt.ArrayLike) -> Floats:
        """Chance to end within so many seconds from now, shape (jobs, times); 0 for times not above 0."""
        ahead = np.maximum(np.asarray(within_s, np.float64), 0.0)
        reached = self._read(self._ages_s[:, None] + ahead)
        return np.asarray(-np.expm1(np.minimum(reached - self._from, 0.0)), np.float64)

    def _read(self, times_s: Floats) -> Floats:
        """Ln S of each job at its times, (jobs, times)."""
        place = np.searchsorted(_EDGES_S, times_s, "right")
        rows = np.arange(len(times_s))[:, None]
        above = np.where(place > 0, self._knots[rows, np.maximum(place - 1, 0)], 0.0)
        at_edge = np.minimum(place, len(_EDGES_S) - 1)
        below = self._knots[rows, at_edge]
        ln_times = np.log(np.maximum(times_s, 1e-300))
        low = _LN_EDGES[np.maximum(at_edge - 1, 0)]
        share = np.where(
            place == 0,
            times_s / _EDGES_S[0],
            (ln_times - low) / np.where(at_edge > 0, _LN_EDGES[at_edge] - low, 1.0),
        )
        inside = above + np.clip(share, 0.0, 1.0) * (below - above)
        beyond = self._knots[:, -1:] - (ln_times - _LN_EDGES[-1])
        return np.asarray(np.where(place == len(_EDGES_S), beyond, inside), np.float64)


def _ln_alive(alive: Floats) -> Floats:
    """Ln S at the edges; S ~ 1 / t from the first edge on at which fewer than `LEAST` are left."""
    knots = np.log(np.maximum(np.minimum(alive, 1.0), LEAST))
    is_dead = alive <= LEAST
    first = np.where(is_dead.any(axis=1), is_dead.argmax(axis=1), len(_EDGES_S) - 1)
    rows = np.arange(len(alive))[:, None]
    tail = knots[rows, first[:, None]] - (_LN_EDGES - _LN_EDGES[first][:, None])
    return np.where(np.arange(len(_EDGES_S)) > first[:, None], np.minimum(tail, knots), knots)
