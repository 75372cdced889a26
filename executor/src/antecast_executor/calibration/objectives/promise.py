"""Mean time to completion among the settings that keep every job's promise. The least slack is protected.

A promise is a lowest rate, or a time by which the job has to end, which at a steady rate is the same. It
counts as kept only if it is kept with two standard errors to spare.
"""

import math
from collections.abc import Sequence

from antecast_executor.calibration.objectives import jct
from antecast_executor.calibration.objectives.base import BROKEN
from antecast_executor.calibration.words import Measurement, Remaining

SURE = 2.0
"""Standard errors that a measured rate has to lie above what was promised."""


def value(measured: Measurement, remaining: Sequence[Remaining]) -> float:
    """Mean seconds that the jobs still take; with a broken promise BROKEN and more.

    What is added to BROKEN grows with the largest relative shortfall, from 0 to 1, in units of BROKEN itself.
    """
    places = range(len(remaining))
    shortfall = max(_shortfall(measured, remaining[place].floor, measured.rates[place]) for place in places)
    return BROKEN * (1.0 + shortfall) if shortfall > 0 else jct.value(measured, remaining)


def priority(measured: Measurement, remaining: Sequence[Remaining], place: int) -> float:
    """The nearer its rate is to the promised one, the higher; a job without a promise is never protected."""
    floor = remaining[place].floor
    if floor == 0:
        return -math.inf
    return 1.0 - measured.rates[place] / floor


def _shortfall(measured: Measurement, floor: float, rate: float) -> float:
    if floor == 0:
        return 0.0
    return max(0.0, 1.0 - rate * (1.0 - min(1.0, SURE * measured.error)) / floor)
