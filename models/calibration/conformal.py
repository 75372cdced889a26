"""Split conformal prediction: levels that hold on new data, from scores on data held out.

If the new score and the n held-out ones are exchangeable, the new one is at most the k-th smallest of
them, k = ceil((n + 1) q), with a chance of at least q, whatever the model and the distribution (Vovk,
Gammerman and Shafer, Algorithmic Learning in a Random World, 2005; Lei et al., JASA 113:523, 2018). With
continuous scores the chance is below q + 1 / (n + 1). Under drift, weights that fade with age lose less of
it; what is lost is bounded by the weighted change of the distribution (Barber et al., Ann. Stat. 51:2, 2023).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDING: Final = 1e-9
"""(n + 1) q is taken for the whole number it should be: 10 x 0.9 must not ask for the tenth of nine."""


def corrected_rank(number: int, level: float) -> int:
    """Which of `number` held-out scores, counted from the smallest, bounds a new one at `level`.

    Returns:
        ceil((number + 1) level); above `number` where so few scores cannot bound it.

    Raises:
        ValueError: if the level leaves (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}, must lie in (0, 1)")
    return math.ceil((number + 1) * level - _ROUNDING)


def conformal_quantile(scores: Floats, level: float, weights: Floats | None = None) -> float:
    """A bound that a new score keeps with a chance of at least `level`.

    Args:
        scores: of data the model was not trained on, shape (rows,).
        level: in (0, 1).
        weights: of the scores, the new one's being 1; None: all 1. With weights, the smallest score at
            which the weight of the scores up to it reaches `level` of all weight, the new one's included.

    Returns:
        Infinite where the scores are too few to say.

    Raises:
        ValueError: if the level leaves (0, 1), a score is NaN, or weights are negative or not as many.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    ordered = np.sort(scores)
    if weights is None:
        rank = corrected_rank(len(scores), level)
        return float(ordered[rank - 1]) if rank <= len(scores) else math.inf
    if weights.shape != scores.shape or (weights < 0).any() or not np.isfinite(weights).all():
        raise ValueError("weights must be as many as scores, finite and not negative")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}, must lie in (0, 1)")
    reached = np.cumsum(weights[np.argsort(scores, kind="stable")])
    place = int(np.searchsorted(reached, level * (float(weights.sum()) + 1.0) - _ROUNDING))
    return float(ordered[place]) if place < len(ordered) else math.inf


def recency_weights(instants_s: Floats, now_s: float, half_life_s: float) -> Floats:
    """2^(-age / half-life) of each instant, shape (rows,); instants of the future are refused.

    Raises:
        ValueError: if an instant lies after `now_s` or the half-life is not positive.
    """
    if not half_life_s > 0:
        raise ValueError(f"half_life_s is {half_life_s}, must be positive")
    ages_s = now_s - instants_s
    if (ages_s < 0).any():
        raise ValueError("a held-out score lies in the future")
    weights: Floats = 2.0 ** (-ages_s / half_life_s)
    return weights


def interval_margin(
    observed: Floats, low: Floats, high: Floats, level: float, weights: Floats | None = None
) -> float:
    """What to add on both sides of an interval so that it covers with a chance of at least `level`.

    Conformalised quantile regression (Romano, Patterson and Candes, NeurIPS 2019): the score is how far an
    observation lies outside, negative inside. A negative margin narrows the interval.

    Args:
        observed: shape (rows,), on a scale on which one margin suits all rows (ln seconds, for lives).
        low: the interval's lower ends, shape (rows,).
        high: its upper ends, shape (rows,).
        level: of the interval, in (0, 1).
        weights: see `conformal_quantile`.
    """
    return conformal_quantile(np.maximum(low - observed, observed - high), level, weights)


@dataclass(frozen=True, slots=True)
class QuantileShifts:
    """What to add to the quantile forecasts of each level.

    Attributes:
        levels: in (0, 1), increasing.
        shifts: on the scale of the forecasts; infinite where there was too little data for the level.
    """

    levels: tuple[float, ...]
    shifts: tuple[float, ...]

    @classmethod
    def fit(
        cls, observed: Floats, quantiles: Floats, levels: Sequence[float], weights: Floats | None = None
    ) -> Self:
        """Learn from forecasts held out.

        Args:
            observed: shape (rows,), on a scale on which one shift suits all rows.
            quantiles: forecasts, shape (rows, levels).
            levels: in (0, 1), increasing.
            weights: see `conformal_quantile`.
        """
        missed = observed[:, None] - quantiles
        each = (
            conformal_quantile(column, level, weights) for column, level in zip(missed.T, levels, strict=True)
        )
        return cls(tuple(levels), tuple(each))

    def corrected(self, quantiles: Floats) -> Floats:
        """Quantiles shifted, shape (..., levels).

        Shifts may make levels cross; each is then raised to the one below it, which only covers more.
        """
        shifted: Floats = np.maximum.accumulate(quantiles + np.array(self.shifts), axis=-1)
        return shifted


def level_to_ask(pits: Floats, level: float, weights: Floats | None = None) -> float:
    """The level at which to ask a distribution so that it covers with a chance of at least `level`.

    Distributional conformal prediction (Chernozhukov, Wuthrich and Zhu, PNAS 118:48, 2021), one-sided: the
    scores are the probability integral transforms F(y) of observations held out.

    Args:
        pits: F(y), each in [0, 1], shape (rows,). Censored ones are bounds and do not belong here.
        level: wanted, in (0, 1).
        weights: see `conformal_quantile`.

    Returns:
        In [0, 1]; 1 where there is too little data for the level: nothing below the longest is safe.

    Raises:
        ValueError: as `conformal_quantile`, or if a transform leaves [0, 1].
    """
    if ((pits < 0) | (pits > 1)).any():
        raise ValueError("a probability integral transform leaves [0, 1]")
    return min(1.0, conformal_quantile(pits, level, weights))
