"""What a forecast of demand has to beat: quantiles of what the same window asked for lately."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from domain.jobs import Job
from domain.observers import Observer
from models.demand.calibrated import LEVELS
from models.demand.features import WINDOWS_S, Floats

LOOK_BACK_S: Final = 7 * 86_400.0
"""What is looked back on: a week, so that each hour of each weekday counts once."""

_INSTANTS: Final = 336


class RecentWindows(Observer):
    """Empirical quantiles, per pool, of the GPUs asked for in windows that ended in the last week.

    Args:
        quotas: GPUs of each pool; jobs of others are left out.
        windows_s: that will be asked about, seconds.
    """

    def __init__(self, quotas: Mapping[str, int], windows_s: Sequence[float] = WINDOWS_S) -> None:
        self.windows_s = tuple(windows_s)
        self._quotas = dict(quotas)
        self._arrivals: dict[str, list[float]] = {pool: [] for pool in quotas}
        self._gpus: dict[str, list[float]] = {pool: [0.0] for pool in quotas}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible."""
        if job.pool in self._quotas:
            self._arrivals[job.pool].append(now_s)
            self._gpus[job.pool].append(self._gpus[job.pool][-1] + job.num_gpus)

    def requested(self, window_s: float, now_s: float) -> Floats:
        """GPUs asked for in (now, now + window] at each of `LEVELS`, capped by the quota.

        Returns:
            Shape (pools, levels), non-decreasing along a row. The windows looked at end half an hour apart.
        """
        ends_s = now_s - np.arange(_INSTANTS) * (LOOK_BACK_S / _INSTANTS)
        rows = []
        for pool, quota in self._quotas.items():
            first = bisect_right(self._arrivals[pool], now_s - LOOK_BACK_S - window_s)
            past, summed = np.array(self._arrivals[pool][first:]), np.array(self._gpus[pool][first:])
            asked = summed[np.searchsorted(past, ends_s, "right")]
            asked = asked - summed[np.searchsorted(past, ends_s - window_s, "right")]
            rows.append(np.quantile(np.minimum(asked, quota), LEVELS, method="higher"))
        return np.stack(rows)
