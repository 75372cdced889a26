"""Which hosts a waiting job might ride with, looked at all at once: what is sieved out could not be a ride.

Conditions of `solver.packing.rides` as far as they do not depend on the riders that a host has already.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.packing.ride_words import HostNow, RideRates, RideTerms, WaitingNow

FloatArray = NDArray[np.float64]

_ROUNDING: Final = 1e-9


class Sieve:
    """The hosts of one instant as arrays.

    Args:
        hosts: running jobs.
        rates: of pairs.
        terms: what rides have to keep to.
    """

    def __init__(self, hosts: Sequence[HostNow], rates: RideRates, terms: RideTerms) -> None:
        self._rates = rates
        self._terms = terms
        self._models = [host.job.model for host in hosts]
        self._free = np.array([len(host.free) for host in hosts])
        self._width = np.array([host.job.num_gpus for host in hosts], dtype=float)
        self._spare_s = np.array([host.spare_s for host in hosts])
        self._tail_s = np.array([host.tail_s for host in hosts])
        self._head_s = np.array([host.head_s for host in hosts])
        self._left_s = np.array([host.left_s for host in hosts])
        self._known: dict[str | None, FloatArray] = {}

    def left_for(self, one: WaitingNow) -> list[int]:
        """Places of the hosts that a job might ride with, in their order."""
        terms = self._terms
        rate, lower, host_rate, host_lower = self._rates_beside(one.job.model)
        part = np.minimum(1.0, one.job.num_gpus / self._width) if self._rates.redistributes else 1.0
        lost, most_lost = (1.0 - host_rate) * part, (1.0 - host_lower) * part
        with np.errstate(divide="ignore"):
            wall_s, own_s = one.tail_s / lower, one.left_s / rate
        ok = (self._free >= one.job.num_gpus) & (lower > 0.0)
        ok &= (1.0 - lower) * wall_s <= one.slack_s
        ok &= most_lost <= terms.sigma + _ROUNDING
        ok &= most_lost * np.minimum(wall_s, self._tail_s) <= self._spare_s
        ok &= rate / one.left_s - lost / self._left_s >= (terms.gain - _ROUNDING) / one.left_s
        ok &= one.waited_s >= terms.waits * (1.0 - rate + lost) * np.minimum(own_s, self._left_s)
        if terms.only_inside:
            ok &= wall_s <= self._head_s
        return [int(place) for place in np.flatnonzero(ok)]

    def _rates_beside(self, model: str | None) -> FloatArray:
        """(4, hosts) rate and its lower quantile of a job of a model, and of each host with it; 0: unfit."""
        if model not in self._known:
            by_model: dict[str | None, tuple[float, float, float, float]] = {}
            for beside in set(self._models):
                median = self._rates.median.pair(model, beside)
                lower = self._rates.lower.pair(model, beside)
                if median is None or lower is None:
                    by_model[beside] = (0.0, 0.0, 0.0, 0.0)
                else:
                    by_model[beside] = (median[0], lower[0], median[1], lower[1])
            self._known[model] = np.array([by_model[beside] for beside in self._models]).T
        return self._known[model]
