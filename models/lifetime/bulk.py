"""Chances of many running jobs at once to be alive ahead.

Between the edges of the grid ln S is linear in ln t, up to the first edge in t, and beyond the last edge it
is constant: lives are not told apart there.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from domain.forecasts import LIFE_EDGES_S

Floats = npt.NDArray[np.float64]
Curves = Floats | Sequence[Floats] | Sequence[Sequence[float]]

_LN_FIRST: Final = float(np.log(LIFE_EDGES_S[0]))
_BINS_PER_LN: Final = 3.0 / float(np.log(2.0))
_LAST: Final = len(LIFE_EDGES_S) - 1
_LEAST: Final = 1e-300


def alive_shares(curves: Curves, ages_s: npt.ArrayLike, ahead_s: npt.ArrayLike) -> Floats:
    """S(age + ahead) / S(age) of each job at each time ahead: the chance to be alive then for who is now.

    Where S(age) is 0 nobody could be alive, and 0 is said.

    Args:
        curves: S at the edges of `LIFE_EDGES_S`, shape (jobs, edges); in [0, 1], non-increasing.
        ages_s: how long each has lived, shape (jobs,), seconds, 0 or more.
        ahead_s: times ahead, shape (times,), seconds, 0 or more and increasing.

    Returns:
        Shape (jobs, times): within [0, 1], non-increasing along a row.
    """
    alive = np.asarray(curves, np.float64)
    ages = np.asarray(ages_s, np.float64)
    times = np.empty((len(ages), np.size(ahead_s) + 1))
    times[:, 0] = ages
    np.add(ages[:, None], np.asarray(ahead_s, np.float64)[None], out=times[:, 1:])
    found = _ln_survival(alive, times)
    ahead: Floats = np.exp(found[:, 1:] - found[:, :1])
    np.minimum(ahead, 1.0, out=ahead)
    if not alive[:, -1].all():
        _die_out(ahead, alive, times)
    return ahead


def survival_at(curves: Curves, ages_s: npt.ArrayLike) -> Floats:
    """S(age) of each job, shape (jobs,); arguments as of `alive_shares`."""
    alive = np.asarray(curves, np.float64)
    found: Floats = np.exp(_ln_survival(alive, np.asarray(ages_s, np.float64)[:, None])[:, 0])
    return found


def _ln_survival(alive: Floats, times: Floats) -> Floats:
    """Ln S of each job at its times, shape of `times`: (jobs, times)."""
    number = len(alive)
    ln_alive = np.zeros((number, _LAST + 2))
    np.log(np.maximum(alive, _LEAST), out=ln_alive[:, 1:])
    place = (np.log(np.maximum(times, LIFE_EDGES_S[0])) - _LN_FIRST) * _BINS_PER_LN + 1.0
    np.minimum(place, _LAST + 1.0, out=place)
    np.copyto(place, times / LIFE_EDGES_S[0], where=times < LIFE_EDGES_S[0])
    low = np.minimum(place.astype(np.intp), _LAST)
    place -= low
    low += np.arange(number)[:, None] * (_LAST + 2)
    flat = ln_alive.ravel()
    at_low = flat[low]
    found: Floats = at_low + place * (flat[low + 1] - at_low)
    return found


def _die_out(ahead: Floats, alive: Floats, times: Floats) -> None:
    """0 from the first edge on at which a curve is 0, in place: ln S has no value there."""
    gone = (alive > 0.0).sum(axis=1)
    ends = np.append(LIFE_EDGES_S, np.inf)[gone]
    ahead[times[:, 1:] >= ends[:, None]] = 0.0
    ahead[times[:, 0] >= ends] = 0.0
