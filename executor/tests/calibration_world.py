"""Packed jobs that are only formulas: how fast they get on, and what a window of noisy steps shows."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

from antecast_executor.calibration import (
    Measurement,
    Member,
    PackedSet,
    Search,
    Setting,
    Worker,
)

Curve = dict[int, float]
SHARES = range(10, 101, 10)


def pair(first: int = 1, second: int = 1, batch: int | None = None) -> PackedSet:
    """Two jobs; the narrower one shares with the first workers of the wider one."""
    partners = tuple(Worker("b", i) if i < second else None for i in range(first))
    return PackedSet(Member("a", first, batch), (Member("b", second, batch),), partners)


def random_curves(rng: random.Random) -> tuple[Curve, Curve]:
    """Rates by the share of one job: its own, concave and rising; the other's, concave and falling."""
    own = sorted((rng.expovariate(1.0) for _ in SHARES), reverse=True)
    cost = sorted(rng.expovariate(1.0) for _ in SHARES)
    high, loss = rng.uniform(0.3, 1.0), rng.uniform(0.0, 0.9)
    squeezed, other = {}, {}
    for i, share in enumerate(SHARES):
        squeezed[share] = 0.6 * sum(own[: i + 1]) / sum(own)
        other[share] = high * (1.0 - loss * sum(cost[: i + 1]) / sum(cost))
    return squeezed, other


@dataclass
class Noise:
    """Steps that differ by `jitter` (standard deviation of the logarithm), five in a window."""

    rng: random.Random
    jitter: float

    def window(self, true: Measurement) -> Measurement:
        lengths = [[math.exp(self.rng.gauss(0.0, self.jitter)) for _ in range(5)] for _ in true.rates]
        error = max(stdev(row) / fmean(row) / math.sqrt(5) for row in lengths)
        rates = tuple(rate / fmean(row) for rate, row in zip(true.rates, lengths, strict=True))
        return Measurement(rates, true.forwards, error)


def run(search: Search, truth: Callable[[Setting], Measurement], noise: Noise | None = None) -> int:
    """Carry a search to its end; how many windows it took."""
    windows = 0
    while (setting := search.next()) is not None:
        true = truth(setting)
        search.measured(noise.window(true) if noise else true)
        windows += 1
        assert windows < 1000, "the search does not end"
    return windows
