"""Where a pool's load changed most: the largest shift of the mean of its daily GPU-hours.

The place that splits a series into two means with the greatest likelihood (Hinkley, Biometrika 57:1, 1970),
which is where the weighted CUSUM sqrt(k (n - k) / n) x |mean of the first k - mean of the rest| is largest.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DAY_S: Final = 86_400.0
_HOUR_S: Final = 3600.0


def daily_gpu_hours(submit_s: Floats, end_s: Floats, gpus: Floats, num_days: int) -> Floats:
    """GPU-hours of each day, had each job started on arrival; shape (days,).

    Args:
        submit_s: arrivals, seconds since the start of day 0, shape (jobs,).
        end_s: shape (jobs,); may be infinite.
        gpus: widths, shape (jobs,).
        num_days: how many days.
    """
    edges = np.arange(num_days + 1) * DAY_S
    until = np.array([(gpus * np.clip(edge - submit_s, 0.0, end_s - submit_s)).sum() for edge in edges])
    return np.diff(until) / _HOUR_S


def largest_change(daily: Floats, *, first: int = 1, last: int | None = None) -> int | None:
    """First day after the largest shift of the mean.

    Args:
        daily: one value a day, shape (days,).
        first: earliest day that may be the answer, at least 1.
        last: latest one; the last day if None.

    Returns:
        None where no day may be the answer or nothing ever changes.
    """
    number = len(daily)
    days = np.arange(max(1, first), min(number - 1, number - 1 if last is None else last) + 1)
    if not len(days):
        return None
    total = np.cumsum(daily)
    before = total[days - 1] / days
    after = (total[-1] - total[days - 1]) / (number - days)
    shift = np.sqrt(days * (number - days) / number) * np.abs(after - before)
    place = int(np.argmax(shift))
    return int(days[place]) if shift[place] > 0.0 else None
