"""The largest overrun of a deadline. The job with the least slack is protected.

The formulas printed in Gimbal's paper have the opposite signs; its text says this.
"""

import math
from collections.abc import Sequence

from antecast_executor.calibration.words import Measurement, Remaining


def value(measured: Measurement, remaining: Sequence[Remaining]) -> float:
    """Seconds by which the latest job misses its deadline; 0 if none does. Jobs without one do not count."""
    places = range(len(remaining))
    return max(0.0, *(-_slack_s(measured, remaining, place) for place in places))


def priority(measured: Measurement, remaining: Sequence[Remaining], place: int) -> float:
    """The less slack, the higher; a job without a deadline is never protected from one that has one."""
    return -_slack_s(measured, remaining, place)


def _slack_s(measured: Measurement, remaining: Sequence[Remaining], place: int) -> float:
    job = remaining[place]
    if job.deadline_in_s is None:
        return math.inf
    return job.deadline_in_s - job.time_s(measured.rates[place])
