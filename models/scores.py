"""Scores of forecasts: one place for what "good" means, for benchmarks, monitors and model choice.

Pinball loss: Koenker and Bassett (Econometrica 46:1, 1978). C-index: Harrell et al. (JAMA 247:18, 1982).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NINE_LEVELS: Final = tuple(k / 10 for k in range(1, 10))
"""Levels that lifetime forecasts are scored at."""

CLASS_EDGES_S: Final = (300.0, 3600.0, 43_200.0)
"""SIA's classes of lives (SoCC 2023): up to 5 min, up to 1 h, up to 12 h, longer."""

SAMPLE_JOBS: Final = 4_000
"""Jobs whose pairs the C-index is taken over, where there are more: it costs the square of them."""


def pinball_loss(observed: Floats, quantiles: Floats, levels: Sequence[float] = NINE_LEVELS) -> float:
    """Mean over rows and levels of max(q (y - f), (q - 1) (y - f)).

    Args:
        observed: y, shape (rows,).
        quantiles: f, shape (rows, levels).
        levels: q, each in (0, 1).
    """
    missed = observed[:, None] - quantiles
    at = np.asarray(levels)
    return float(np.maximum(at * missed, (at - 1.0) * missed).mean())


def ln_pinball_loss(observed_s: Floats, quantiles_s: Floats, levels: Sequence[float] = NINE_LEVELS) -> float:
    """Pinball loss of ln seconds, lives below a second counted as one: what a factor of two costs."""
    return pinball_loss(np.log(np.maximum(observed_s, 1.0)), np.log(np.maximum(quantiles_s, 1.0)), levels)


def covered(observed: Floats, low: Floats, high: Floats) -> Bools:
    """Whether each observation lies within its interval, ends included."""
    return np.asarray((observed >= low) & (observed <= high))


def quantile_coverage(observed: Floats, quantile: Floats) -> tuple[float, float]:
    """Shares of observations below, and at or below, their quantile.

    Counts have atoms: where most windows see no arrival, even a quantile of 0 covers most of them. A
    calibrated quantile of level q has q between the two shares; without ties they are the same.
    """
    return float((observed < quantile).mean()), float((observed <= quantile).mean())


def class_of(seconds: ArrayLike) -> NDArray[np.intp]:
    """SIA's class of a life: 0 up to 5 min, 1 up to 1 h, 2 up to 12 h, 3 beyond."""
    return np.searchsorted(CLASS_EDGES_S, np.asarray(seconds, np.float64), side="left")


def too_short_share(observed_s: Floats, said_s: Floats) -> float:
    """Share of jobs whose class is said to be shorter than it is: the error that slows lenders."""
    return float((class_of(said_s) < class_of(observed_s)).mean())


def concordance(said: Floats, lived: Floats, has_ended: Bools, *, seed: int = 0) -> float:
    """Harrell's C-index: share of comparable pairs in the right order, ties of the forecast counting half.

    A pair is comparable if the shorter life of the two has ended. Of more than `SAMPLE_JOBS` jobs, a sample.

    Args:
        said: forecast of each life, in any increasing unit.
        lived: how long each has lived at least.
        has_ended: whether that was all.
        seed: of the sample.

    Returns:
        NaN where no pair is comparable.
    """
    sample = np.random.default_rng(seed).permutation(len(lived))[:SAMPLE_JOBS]
    said, lived, ended = said[sample], lived[sample], has_ended[sample]
    is_pair = (lived[:, None] < lived[None]) & ended[:, None]
    right = (said[:, None] < said[None]) + 0.5 * (said[:, None] == said[None])
    pairs = int(is_pair.sum())
    return float((is_pair * right).sum() / pairs) if pairs else float("nan")


def longest_run(missed: Bools) -> int:
    """Longest run of misses in a row, in the order given."""
    longest = current = 0
    for one in missed.tolist():
        current = current + 1 if one else 0
        longest = max(longest, current)
    return longest
