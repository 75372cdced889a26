"""Joint scenarios given what happens now, their levels raised while the sum over pools is missed too often.

Demand drifts, and a library of the past is behind it. For each cell of the grid one number is learned on
the way: the exponent by which the levels of the marginals are raised (u becomes 1 - (1 - u)^exp(tilt), so
that 0 and 1 stay). Each hour that is over is forecast as it would have been then; where the sum over pools of
min(quota, peak) exceeded its quantile at `LEVEL`, the tilt of the cell rises, else it falls by a nineteenth
of that, and not below 0 (adaptive conformal inference: Gibbs and Candes, NeurIPS 2021).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.scenarios.nearest import NearestStretches
from models.scenarios.stretches import DAY_S, HOUR_S, RASTER_S, REFRESH_S, Floats

LEVEL: Final = 0.95
"""Level of the sum's quantile that is watched."""

_RATE: Final = 0.04  # of the tilt, per hourly miss
_SLOWER_FROM_S: Final = 12 * HOUR_S  # what ends later is known later, and one episode misses it longer
_HIGHEST: Final = 1.5
_WARM_S: Final = 4 * DAY_S


@dataclass(slots=True)
class _Watched:
    """One hour that was forecast: its row in the library, (cells,) limits, and how many cells are settled."""

    row: int
    limits: Floats
    settled: int = 0


class CorrectedStretches(NearestStretches):
    """`NearestStretches` whose levels are raised per cell from the misses of the hours that are over.

    The correction runs on the clock with the library, every twelve hours, whatever was asked. It starts with
    the intake four days before `begin_s`, or with the record.

    Args:
        quotas: GPUs of each pool.
        seed: of the lives given and of the draws.
        num_scenarios: how many to draw.
        since_s: instant at which the record begins.
        begin_s: instant as of which the library is first made; facts up to it are told before any draw.
    """

    def __init__(
        self, quotas: Mapping[str, int], seed: int, num_scenarios: int, *, since_s: float, begin_s: float
    ) -> None:
        super().__init__(quotas, seed, num_scenarios, since_s=since_s, begin_s=begin_s)
        first = max(math.ceil(since_s / REFRESH_S), math.floor((begin_s - _WARM_S) / REFRESH_S))
        self._next_s = min(begin_s, first * REFRESH_S)
        self._watched_s = self._next_s
        self._tilts = np.zeros(len(self._edges) - 1)
        self._rates = _RATE / np.maximum(1.0, self._edges[1:] / _SLOWER_FROM_S)
        self._open: list[_Watched] = []

    @property
    def tilts(self) -> Floats:
        """(cells,) how far the levels are raised now; 0 is not at all."""
        return self._tilts.copy()

    def _refresh(self, as_of_s: float) -> None:
        self._watch(as_of_s)
        super()._refresh(as_of_s)
        self._settle()

    def _levels(self) -> Floats:
        raised: Floats = 1.0 - (1.0 - super()._levels()) ** np.exp(self._tilts)[:, None]
        return raised

    def _watch(self, until_s: float) -> None:
        """Forecast each hour since the last intake, from the library as it still is."""
        if self._known.any():
            for hour in range(math.ceil(self._watched_s / HOUR_S), math.ceil(until_s / HOUR_S)):
                row = round(hour * HOUR_S / RASTER_S) - self._first
                sums = np.minimum(self._draw(hour * HOUR_S)[0], self._unknown[:, None]).sum(axis=1)
                limits = np.quantile(sums, LEVEL, axis=0, method="higher")
                if row >= 0:
                    self._open.append(_Watched(row, limits))
        self._watched_s = until_s

    def _settle(self) -> None:
        """Compare what was forecast with what came, cell by cell, each as soon as it is over."""
        for one in self._open:
            over = int(self._known[one.row])
            cells = slice(one.settled, over)
            came = np.minimum(self._tables[0, one.row][:, cells], self._unknown[:, None]).sum(axis=0)
            is_missed = came > one.limits[cells]
            moved = self._tilts[cells] + self._rates[cells] * (is_missed - (1.0 - LEVEL))
            self._tilts[cells] = np.clip(moved, 0.0, _HIGHEST)
            one.settled = over
        self._open = [one for one in self._open if one.settled < len(self._tilts)]
