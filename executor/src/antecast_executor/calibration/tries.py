"""What a search has tried: settings with what was measured there, and what is believed of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from antecast_executor.calibration import convex
from antecast_executor.calibration.objectives import BROKEN, Objective
from antecast_executor.calibration.words import Measurement, Remaining, Setting

_SAME = 1e-9
"""Relative difference of values below which it is rounding."""


@dataclass(slots=True)
class Try:
    """One setting and all windows that were measured at it.

    Attributes:
        leg: tries of one leg follow each other by one and the same step, so that their values are taken to
            be convex.
        pooled: mean of its windows.
        windows: how many.
        value: of the objective, as measured.
        doubt: by how much one standard error of all rates together would change it.
        believed: the value after smoothing along its leg; as measured if there is no noise.
    """

    setting: Setting
    leg: int
    pooled: Measurement
    windows: int = 0
    value: float = math.inf
    doubt: float = 0.0
    believed: float = math.inf

    def add(
        self, window: Measurement, error: float, objective: Objective, remaining: Sequence[Remaining]
    ) -> None:
        """Take one more window in; `error` is the relative standard error of any one window."""
        pooled = window if self.windows == 0 else _pool(self.pooled, self.windows, window)
        self.windows += 1
        self.pooled = replace(pooled, error=error / math.sqrt(self.windows))
        self.value = self.believed = objective.value(self.pooled, remaining)
        self.doubt = _doubt(self.pooled, self.value, objective, remaining)


def is_better(value: float, other: float) -> bool:
    """Whether a value is lower, and not by rounding only."""
    return value < other and (math.isinf(other) or other - value > _SAME * abs(other))


def smooth(tries: Sequence[Try], leg: int) -> None:
    """Bring what is believed of the tries of a leg up to date.

    Only where there is noise, and only among neighbours that are not BROKEN: there the curve has a cliff.
    """
    stretch: list[Try] = []
    for item in [item for item in tries if item.leg == leg]:
        if item.value < BROKEN:
            stretch.append(item)
        else:
            _smooth(stretch)
            stretch = []
    _smooth(stretch)


def _smooth(stretch: Sequence[Try]) -> None:
    if len(stretch) < 3 or not any(item.doubt for item in stretch):
        return
    fitted = convex.fit([item.value for item in stretch], [float(item.windows) for item in stretch])
    for item, value in zip(stretch, fitted, strict=True):
        item.believed = value


def _pool(before: Measurement, windows: int, new: Measurement) -> Measurement:
    """The mean of `windows` windows and one more."""
    old, count = float(windows), windows + 1.0
    rates = tuple((a * old + b) / count for a, b in zip(before.rates, new.rates, strict=True))
    if not before.forwards or not new.forwards:
        return Measurement(rates, before.forwards or new.forwards)
    forwards = tuple(
        tuple((a * old + b) / count for a, b in zip(row, more, strict=True)) if row and more else row or more
        for row, more in zip(before.forwards, new.forwards, strict=True)
    )
    return Measurement(rates, forwards)


def _doubt(
    measured: Measurement, value: float, objective: Objective, remaining: Sequence[Remaining]
) -> float:
    if measured.error == 0:
        return 0.0
    slower = replace(measured, rates=tuple(rate * (1.0 - measured.error) for rate in measured.rates))
    worse = objective.value(slower, remaining)
    return 0.0 if worse == value else abs(worse - value)
