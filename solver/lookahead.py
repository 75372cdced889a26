"""Need ahead against GPUs there are, cell by cell and scenario by scenario: the risk of lending.

For each cell of the grid and each scenario, with own width o, guests' width g, waiting width b and the peak a
of those still to arrive, pool by pool,

    need = o + g + min(b, quota - o) + min(a, quota - o - b - g)

(each bracket at least 0). Guests count where they are until they end. Jobs that wait are taken to stand
before the guests in line, those to come behind them, so conversions are not counted twice. Widths o, g and
b are means of what is still alive when the cell begins, given its age; the spread of g is integrated as a
normal one over the sum, because what matters is the quantile of the sum and not the sum of quantiles. (Own
jobs that live longer keep out others of their pool, so their spread is none of the need's.) What is missing
is max(0, need - capacity). All GPUs serve all arrivals of a cell, so the jobs slowed are taken to be
arrivals x missing / capacity, scenario by scenario: GPUs are missing when a burst arrives, so the mean of
the product is far more than the product of the means.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]

_ROUNDING_SD_GPUS: Final = 0.5
_DENSITY_AT_0: Final = 1.0 / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is known of the time ahead, at the beginning of each cell.

    Attributes:
        own, guest, requeueable: (pools, cells) mean width alive of own jobs, of guests that must run to their
            end, and of guests that can be sent back.
        backlog: (pools, cells) the same of jobs that wait, if they started now.
        variance: (cells,) of the guests' width.
        cohort_sd: (cells,) of each cohort among the guests, the sum of its jobs' standard deviations.
        kinship: correlation of lives inside a cohort (`solver.lives.LifeBook`).
        peaks: (scenarios, pools, cells) width held by jobs still to arrive, its peak in the first
            `domain.timegrid.LOOK_S` of the cell, which stands for the rest of it.
        arrivals: (scenarios, pools, cells) their number.
        quota_gpus: (pools,).
    """

    own: FloatArray
    guest: FloatArray
    requeueable: FloatArray
    backlog: FloatArray
    variance: FloatArray
    cohort_sd: Mapping[int, FloatArray]
    kinship: float
    peaks: FloatArray
    arrivals: FloatArray
    quota_gpus: FloatArray


class Trial(NamedTuple):
    """One more guest, tried.

    Attributes:
        charge: jobs it is expected to slow.
        pool: rank of its pool.
        guest, backlog: (cells,) of its pool with it.
        need: (scenarios, cells) with it.
        variance: (cells,) with it.
        missing: (scenarios, cells) with it.
        cohort, cohort_sd: its cohort, and (cells,) the sum of standard deviations there with it.
    """

    charge: float
    pool: int
    guest: FloatArray
    backlog: FloatArray
    need: FloatArray
    variance: FloatArray
    missing: FloatArray
    cohort: int
    cohort_sd: FloatArray


class LookAhead:
    """The time ahead at one instant, to which guests are added one by one.

    Args:
        ahead: what is known.
        capacity_gpus: GPUs of the cluster.
    """

    def __init__(self, ahead: Ahead, capacity_gpus: int) -> None:
        self._ahead = ahead
        self._capacity_gpus = capacity_gpus
        self._quota = ahead.quota_gpus
        self._guest = ahead.guest.copy()
        # a guest that can be sent back is, to a lane, a job that waits
        self._backlog = ahead.backlog + ahead.requeueable
        self._variance = ahead.variance
        self._cohort_sd = dict(ahead.cohort_sd)
        self._need = np.zeros((ahead.peaks.shape[0], ahead.own.shape[1]))
        for pool in range(self._quota.size):
            self._need += self._pool_need(pool, self._guest[pool], self._backlog[pool])
        self._missing = self._shortfall(self._need, self._variance)
        self._hit = ahead.arrivals.sum(axis=1) / capacity_gpus
        self._held: FloatArray | None = None

    @property
    def missing(self) -> FloatArray:
        """(cells,) GPUs expected to be missing in each cell, with the guests added so far."""
        return np.asarray(self._missing.mean(axis=0))

    def try_guest(self, pool: int, width: int, fresh: FloatArray, cohort: int) -> Trial:
        """Add a guest that must run to its end, tentatively.

        Args:
            pool: rank of its pool.
            width: its GPUs.
            fresh: (cells,) probability that it still runs when the cell begins, if it starts now.
            cohort: its burst, whose jobs live alike.
        """
        alive = width * fresh
        spread = width * np.sqrt(fresh * (1.0 - fresh))
        kin = self._cohort_sd.get(cohort, 0.0)
        guest, backlog = self._guest[pool] + alive, self._backlog[pool] - alive
        before = self._pool_need(pool, self._guest[pool], self._backlog[pool])
        need = self._need + (self._pool_need(pool, guest, backlog) - before)
        variance = self._variance + spread * (spread + 2.0 * self._ahead.kinship * kin)
        missing = self._shortfall(need, variance)
        charge = float((np.maximum(missing - self._missing, 0.0) * self._hit).mean(axis=0).sum())
        return Trial(charge, pool, guest, backlog, need, variance, missing, cohort, kin + spread)

    def add(self, trial: Trial) -> None:
        """The guest that was tried last starts."""
        if self._held is not None:
            self._held = self._held + (trial.need - self._need)
        self._guest[trial.pool], self._backlog[trial.pool] = trial.guest, trial.backlog
        self._need, self._variance, self._missing = trial.need, trial.variance, trial.missing
        self._cohort_sd[trial.cohort] = trial.cohort_sd

    def chance_sent_back(self, width: int, fresh: FloatArray) -> float:
        """Chance that a guest that can be sent back will be, before it ends.

        It is the youngest, so the first to go: when need, all other guests included, exceeds what there is.
        """
        spread = np.sqrt(self._variance + _ROUNDING_SD_GPUS**2)
        short = ndtr((self._need_with_held() + width * fresh - self._capacity_gpus) / spread).mean(axis=0)
        return float((short * fresh).max())

    def add_requeueable(self, width: int, fresh: FloatArray) -> None:
        """A guest that can be sent back starts."""
        self._held = self._need_with_held() + width * fresh

    def _need_with_held(self) -> FloatArray:
        """(scenarios, cells) need if the guests that can be sent back were let run to their end."""
        if self._held is None:
            held = self._ahead.requeueable
            self._held = np.zeros_like(self._need)
            for pool in range(self._quota.size):
                self._held += self._pool_need(
                    pool, self._guest[pool] + held[pool], self._backlog[pool] - held[pool]
                )
        return self._held

    def _pool_need(self, pool: int, guest: FloatArray, backlog: FloatArray) -> FloatArray:
        own = self._ahead.own[pool]
        room = np.maximum(self._quota[pool] - own, 0.0)
        left = np.maximum(room - backlog - guest, 0.0)
        peaks = self._ahead.peaks
        arriving = np.minimum(peaks[:, min(pool, peaks.shape[1] - 1)], left)
        return np.asarray(own + guest + np.minimum(backlog, room) + arriving)

    def _shortfall(self, need: FloatArray, variance: FloatArray) -> FloatArray:
        """(scenarios, cells) expected GPUs missing: E max(0, X), X normal, is sd x phi(z) + mean x Phi(z)."""
        spread = np.sqrt(variance + _ROUNDING_SD_GPUS**2)
        z = (need - self._capacity_gpus) / spread
        density = np.exp(-0.5 * z * z) * _DENSITY_AT_0
        return np.asarray(spread * (density + z * ndtr(z)))
