"""Packed jobs that are only formulas: how fast they get on, and what a window of noisy steps shows.

Run as a program it prints how near to the best of the grid searches come.
"""

import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

from antecast_executor.calibration import (
    OBJECTIVES,
    Measurement,
    Member,
    PackedSet,
    Remaining,
    Rules,
    Search,
    Setting,
    Worker,
    first_setting,
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


class Grid:
    """A random concave pair whose second job is squeezed, and the best that any squeeze of it can be."""

    def __init__(self, seed: int, name: str, jitter: float, rules: Rules | None = None) -> None:
        rng = random.Random(seed)  # noqa: S311
        self.squeezed, self.other = random_curves(rng)
        steps = [rng.lognormvariate(8.0, 1.0) for _ in range(2)]
        self.jobs = [Remaining(steps[0], utilisation=0.3), Remaining(steps[1], utilisation=0.9)]
        self.objective = OBJECTIVES[name]
        self.search = Search(pair(), self.objective, self.jobs, first_setting(pair()), rules=rules)
        self.windows = run(self.search, self.truth, Noise(rng, jitter) if jitter else None)

    def truth(self, setting: Setting) -> Measurement:
        """At 100 % for the protected job, which is all that the search tries."""
        first, second = setting.shares[0][0], setting.shares[1][0]
        rates = (self.other[second], self.squeezed[second])
        if self.search.low == (0,):
            rates = (self.squeezed[first], self.other[first])
        return Measurement(rates)

    def value(self, setting: Setting) -> float:
        return self.objective.value(self.truth(setting), self.jobs)

    def best(self) -> float:
        settings_ = [
            Setting(((share,), (100,)) if self.search.low == (0,) else ((100,), (share,)), ((), ()))
            for share in SHARES
        ]
        return min(self.value(item) for item in settings_)


def main() -> None:
    """A table: how near to the best, by noise and by how often a setting may be measured."""
    sys.stdout.write("windows  jitter  mean    worst   below 99 %  windows taken\n")
    for most_windows in (1, 12):
        for jitter in (0.01, 0.02, 0.03, 0.05):
            grids = [Grid(seed, "jct", jitter, Rules(most_windows=most_windows)) for seed in range(1000)]
            near = [grid.best() / grid.value(grid.search.best) for grid in grids]
            below = sum(part < 0.99 for part in near)
            taken = fmean(grid.windows for grid in grids)
            parts = f"{fmean(near):.4f}  {min(near):.4f}  {below:10}  {taken:.1f}"
            sys.stdout.write(f"{most_windows:7}  {jitter:6.2f}  {parts}\n")


if __name__ == "__main__":
    main()
