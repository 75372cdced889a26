"""Reliability tables: what was said beside what was seen, and how sure the difference is.

A forecast is calibrated if of the things said with chance p a share p comes true (Dawid, JASA 77:379,
1982). Each row carries an exact interval of the share seen, so a table of twenty jobs does not look like
one of twenty thousand.
"""

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CONFIDENCE: Final = 0.95
"""Of the intervals of shares seen."""

ALL: Final = "all"
"""The group of a row that counts everything."""


def share_interval(count: float, number: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval of a chance of which `count` in `number` trials came true.

    Clopper and Pearson (Biometrika 26:4, 1934): exact, so never too narrow for independent trials. Both may
    be fractions, as effective counts of weighted trials are.

    Returns:
        (0, 1) where there were no trials.

    Raises:
        ValueError: if not 0 <= count <= number, or the confidence leaves (0, 1).
    """
    if not 0.0 <= count <= number:
        raise ValueError(f"count is {count}, must lie in [0, {number}]")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}, must lie in (0, 1)")
    tail = (1.0 - confidence) / 2.0
    low = float(betaincinv(count, number - count + 1.0, tail)) if count > 0 else 0.0
    high = float(betaincinv(count + 1.0, number - count, 1.0 - tail)) if count < number else 1.0
    return low, high


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One level of one group of quantile forecasts.

    Attributes:
        group: a pool, a window, a user, or `ALL`.
        number: forecasts.
        level: said share of observations at or below the quantile.
        seen_below: share of observations below it.
        seen: share at or below it; the two differ where observations are counts.
        low: lower end of the interval of the share seen (of `seen_below`).
        high: its upper end (of `seen`).
        is_off: whether the level lies outside [low, high].
    """

    group: str
    number: int
    level: float
    seen_below: float
    seen: float
    low: float
    high: float
    is_off: bool

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ChanceRow:
    """One bin of said chances of one group.

    Attributes:
        group: a pool, a window, a user, or `ALL`.
        number: forecasts in the bin.
        from_chance: lower end of the bin.
        until_chance: upper end, excluded except 1.
        said: mean chance said.
        seen: share that came true.
        low: lower end of the interval of `seen`.
        high: its upper end.
        is_off: whether `said` lies outside [low, high].
    """

    group: str
    number: int
    from_chance: float
    until_chance: float
    said: float
    seen: float
    low: float
    high: float
    is_off: bool

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BrierScore:
    """Mean squared error of said chances: reliability - resolution + uncertainty + within.

    Murphy (J. Appl. Meteor. 12:4, 1973); `within` is what binning leaves over (Stephenson, Coelho and
    Jolliffe, Weather and Forecasting 23:4, 2008), 0 where all chances in a bin are the same.

    Attributes:
        score: the whole; smaller is better.
        reliability: mean squared distance of said from seen, per bin: 0 if calibrated.
        resolution: how far the bins' shares lie from the overall share: what the forecasts tell apart.
        uncertainty: variance of what happened, the score of always saying the overall share.
        within: the rest.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


def quantile_reliability(
    observed: Floats,
    quantiles: Floats,
    levels: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    confidence: float = CONFIDENCE,
) -> list[LevelRow]:
    """Said and seen shares per level, for everything and for each group.

    Args:
        observed: shape (rows,).
        quantiles: forecasts, shape (rows, levels).
        levels: said, each in (0, 1).
        groups: of the rows; None: no rows but those for everything.
        confidence: of the intervals.

    Raises:
        ValueError: if shapes differ or a value is NaN.
    """
    if quantiles.shape != (len(observed), len(levels)):
        raise ValueError(f"quantiles have shape {quantiles.shape}, not {(len(observed), len(levels))}")
    if np.isnan(observed).any() or np.isnan(quantiles).any():
        raise ValueError("an observation or a quantile is not a number")
    rows = []
    for group, chosen in _members(groups, len(observed)):
        for place, level in enumerate(levels):
            said, was = quantiles[chosen, place], observed[chosen]
            rows.append(
                _level_row(
                    group, level, int((was < said).sum()), int((was <= said).sum()), len(was), confidence
                )
            )
    return rows


def _level_row(group: str, level: float, below: int, up_to: int, number: int, confidence: float) -> LevelRow:
    low, high = share_interval(below, number, confidence)[0], share_interval(up_to, number, confidence)[1]
    return LevelRow(group, number, level, below / number, up_to / number, low, high, not low <= level <= high)


def chance_reliability(
    said: Floats,
    happened: Bools,
    groups: Sequence[Hashable] | None = None,
    *,
    num_bins: int = 10,
    confidence: float = CONFIDENCE,
) -> list[ChanceRow]:
    """Said chances against shares that came true, in bins of equal width; empty bins have no row.

    Args:
        said: chances in [0, 1], shape (rows,): WillJobsArrive, P(life > t).
        happened: what came true, shape (rows,).
        groups: of the rows; None: no rows but those for everything.
        num_bins: at least one.
        confidence: of the intervals.

    Raises:
        ValueError: if shapes differ or a chance leaves [0, 1].
    """
    bins = _chance_bins(said, happened, num_bins)
    rows = []
    for group, chosen in _members(groups, len(said)):
        for one in np.unique(bins[chosen]).tolist():
            inside = chosen[bins[chosen] == one]
            number, count = len(inside), int(happened[inside].sum())
            low, high = share_interval(count, number, confidence)
            mean = float(said[inside].mean())
            edges = one / num_bins, (one + 1) / num_bins
            is_off = not low <= mean <= high
            rows.append(ChanceRow(group, number, *edges, mean, count / number, low, high, is_off))
    return rows


def brier_score(said: Floats, happened: Bools, *, num_bins: int = 10) -> BrierScore:
    """Brier score (Mon. Weather Rev. 78:1, 1950) of said chances, decomposed over bins of equal width.

    Raises:
        ValueError: if there are no forecasts, shapes differ or a chance leaves [0, 1].
    """
    bins = _chance_bins(said, happened, num_bins)
    if not len(said):
        raise ValueError("a Brier score needs at least one forecast")
    number = np.maximum(np.bincount(bins, minlength=num_bins), 1)
    mean_said = (np.bincount(bins, said, num_bins) / number)[bins]
    mean_seen = (np.bincount(bins, happened, num_bins) / number)[bins]
    overall = float(happened.mean())
    apart, beside = said - mean_said, happened - mean_seen
    return BrierScore(
        score=float(((said - happened) ** 2).mean()),
        reliability=float(((mean_said - mean_seen) ** 2).mean()),
        resolution=float(((mean_seen - overall) ** 2).mean()),
        uncertainty=overall * (1.0 - overall),
        within=float((apart**2 - 2.0 * apart * beside).mean()),
    )


def _chance_bins(said: Floats, happened: Bools, num_bins: int) -> NDArray[np.intp]:
    if said.shape != happened.shape or said.ndim != 1:
        raise ValueError(f"chances have shape {said.shape}, outcomes {happened.shape}")
    if not ((said >= 0) & (said <= 1)).all():
        raise ValueError("a chance leaves [0, 1]")
    return np.minimum((said * num_bins).astype(np.intp), num_bins - 1)


def _members(groups: Sequence[Hashable] | None, number: int) -> list[tuple[str, NDArray[np.intp]]]:
    """Row indices of everything and of each group, by name; no group without a row."""
    everything = [(ALL, np.arange(number))] if number else []
    if groups is None:
        return everything
    if len(groups) != number:
        raise ValueError(f"there are {len(groups)} groups for {number} rows")
    names = np.array([str(group) for group in groups])
    return everything + [(str(name), np.flatnonzero(names == name)) for name in np.unique(names)]
