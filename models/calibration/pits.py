"""Probability integral transforms of lives, of which some are known to be above a value and no more.

F(life) of a calibrated forecast F is uniform (Dawid, J. R. Stat. Soc. A 147:2, 1984; Diebold, Gunther and
Tay, Int. Econ. Rev. 39:4, 1998). A job that runs at age a has its transform in (F(a), 1]. Leaving such jobs
out would make short lives look frequent; the product-limit estimate (Kaplan and Meier, JASA 53:282, 1958)
of the transforms' distribution counts them for what they say.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from models.calibration.reliability import CONFIDENCE, Bools, Floats, share_interval


@dataclass(frozen=True, slots=True)
class PitBin:
    """One bin of a histogram of transforms.

    Attributes:
        from_level: lower end.
        until_level: upper end.
        share: estimated share of lives whose transform lies in it; the width of the bin if calibrated.
    """

    from_level: float
    until_level: float
    share: float

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PitLevelRow:
    """One level of one group of life forecasts.

    Attributes:
        group: a pool, a user, or all.
        number: lives, ended or not.
        number_ended: those that have ended.
        level: said share of lives at or below the quantile.
        seen: estimated share.
        low: lower end of its interval.
        high: its upper end.
        is_off: whether the level lies outside.
    """

    group: str
    number: int
    number_ended: int
    level: float
    seen: float
    low: float
    high: float
    is_off: bool

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


class ProductLimit:
    """Estimate of P(transform > u), a step function.

    Args:
        pits: transforms, or lower bounds of them, shape (rows,).
        has_ended: which are known rather than bounds, shape (rows,).

    Raises:
        ValueError: if shapes differ or a transform leaves [0, 1].
    """

    def __init__(self, pits: Floats, has_ended: Bools) -> None:
        if pits.shape != has_ended.shape or pits.ndim != 1:
            raise ValueError(f"transforms have shape {pits.shape}, ends {has_ended.shape}")
        if not ((pits >= 0) & (pits <= 1)).all():
            raise ValueError("a probability integral transform leaves [0, 1]")
        self._values, ends = np.unique(pits[has_ended], return_counts=True)
        # Bounds at a value count as still at risk there: the transform lies above.
        at_risk = len(pits) - np.searchsorted(np.sort(pits), self._values, side="left")
        self._above = np.cumprod(1.0 - ends / at_risk)
        with np.errstate(divide="ignore"):
            self._greenwood = np.cumsum(ends / (at_risk * (at_risk - ends)))

    def above(self, level: float) -> float:
        """P(transform > level)."""
        place = int(np.searchsorted(self._values, level, side="right"))
        return float(self._above[place - 1]) if place else 1.0

    def effective_number(self, level: float) -> float:
        """How many lives without censoring would make the estimate at `level` as sure as it is.

        Infinite where the estimate is 0 or 1.

        Greenwood's variance of ln S is sum d / (n (n - d)); of n* plain trials it is (1 - S) / (n* S).
        """
        place = int(np.searchsorted(self._values, level, side="right"))
        above = self.above(level)
        if not place or not 0.0 < above < 1.0:
            return math.inf
        return (1.0 - above) / (above * float(self._greenwood[place - 1]))


def pit_reliability(
    pits: Floats,
    has_ended: Bools,
    levels: Sequence[float],
    *,
    group: str = "all",
    confidence: float = CONFIDENCE,
) -> list[PitLevelRow]:
    """Said and seen share of lives up to each level, censored ones counted for what they say.

    The interval is that of Clopper and Pearson at the effective number of lives (Cutler and Ederer, J. Chron.
    Dis. 8:6, 1958): exact without censoring, and still one where the estimate is 0 or 1.

    Args:
        pits: transforms, or lower bounds of them, shape (rows,).
        has_ended: which are known rather than bounds.
        levels: said, each in (0, 1).
        group: what the rows are of.
        confidence: of the intervals.
    """
    if not len(pits):
        return []
    estimate, rows = ProductLimit(pits, has_ended), []
    for level in levels:
        seen = 1.0 - estimate.above(level)
        known = has_ended | (pits >= level)
        number = min(estimate.effective_number(level), float(known.sum()))
        low, high = share_interval(min(seen * number, number), number, confidence)
        is_off = not low <= level <= high
        rows.append(PitLevelRow(group, len(pits), int(has_ended.sum()), level, seen, low, high, is_off))
    return rows


def pit_histogram(pits: Floats, has_ended: Bools, *, num_bins: int = 10) -> list[PitBin]:
    """Estimated share of lives in bins of equal width; what lies beyond the last one known is in the last.

    A bathtub says the forecasts are too narrow, a hill too wide; a rise to the right, that lives are longer
    than said.
    """
    estimate = ProductLimit(pits, has_ended)
    edges = [k / num_bins for k in range(num_bins + 1)]
    above = [1.0, *(estimate.above(edge) for edge in edges[1:-1]), 0.0]
    return [PitBin(edges[k], edges[k + 1], above[k] - above[k + 1]) for k in range(num_bins)]
