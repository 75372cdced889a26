"""What many steps in a row add to the GPUs missing, without asking after each of them.

A guest is charged with what it adds to the GPUs missing, scenario by scenario and cell by cell, each at
least 0. GPUs missing rise with the need and with its spread, and the spread never falls. So while the need
of a scenario's cell does not fall, what single steps add is what all of them add: last minus first. Only
around a step at which the need falls (a burst that has ended in the scenario: its job waits no more there,
and does not run either) is the step itself looked at. The sum is the same as one by one, for any order.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

Shortfall = Callable[[FloatArray, FloatArray], FloatArray]
"""GPUs missing, from need and variance of any one shape. Does not fall in either."""


def rises(need: FloatArray, variance: FloatArray, shortfall: Shortfall) -> FloatArray:
    """What the steps of a path that raise it add to the GPUs missing, together.

    Args:
        need: (steps + 1, places) the need before the first step and after each.
        variance: (steps + 1, places) the same of its variance, not falling along the path.
        shortfall: GPUs missing.

    Returns:
        (places,) the sum over steps of max(0, missing after - missing before).
    """
    falls = np.diff(need, axis=0) < 0.0
    is_asked = np.zeros(need.shape, dtype=bool)
    is_asked[[0, -1]] = True
    is_asked[1:] |= falls
    is_asked[:-1] |= falls
    place, step = np.nonzero(is_asked.T)  # of one place after another, in the order of the steps
    missing = shortfall(need[step, place], variance[step, place])
    more = np.where(place[1:] == place[:-1], np.maximum(np.diff(missing), 0.0), 0.0)
    return np.asarray(np.bincount(place[1:], weights=more, minlength=need.shape[1]), dtype=np.float64)
