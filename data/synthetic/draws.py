"""Random draws that the generators share, and the few statistics that undo them.

Everything takes its `numpy.random.Generator`; nothing here is seeded globally.
"""

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_NORMAL: Final = NormalDist()
_EDGE: Final = 1e-9


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The generator itself, or PCG64 seeded with the given number."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.Generator(np.random.PCG64(seed))


def normal_quantile(u: FloatArray) -> FloatArray:
    """Standard normal value at each level `u`; levels are kept off 0 and 1."""
    inside = np.clip(u, _EDGE, 1 - _EDGE)
    return np.fromiter((_NORMAL.inv_cdf(level) for level in inside.tolist()), np.float64, len(inside))


def normal_level(z: FloatArray) -> FloatArray:
    """Level in [0, 1] of each standard normal value."""
    return np.fromiter((_NORMAL.cdf(value) for value in z.tolist()), np.float64, len(z))


def stratified(rng: np.random.Generator, size: int) -> FloatArray:
    """Uniform draws in random order, exactly one in each of `size` equal strata of [0, 1).

    Each draw alone is uniform; together they follow the distribution far more closely than independent
    draws, so that two seeds of a heavy-tailed workload can be compared.
    """
    return (rng.permutation(size) + rng.random(size)) / max(size, 1)


def weighted_levels(rng: np.random.Generator, score: FloatArray, weight: IntArray) -> FloatArray:
    """A level in [0, 1) per item, in the order of `score`, uniform when items count by their weight.

    The unit interval is cut into one piece per item, as long as the item's share of the weight, in the
    order of the scores; an item's level is a uniform point of its piece. Bursts weighted by their jobs
    get levels that are uniform over jobs, however unequal the bursts are.
    """
    order = np.argsort(score, kind="stable")
    share = weight[order] / max(int(weight.sum()), 1)
    start = np.concatenate(([0.0], np.cumsum(share)[:-1])) if len(share) else share
    levels = np.empty(len(score))
    levels[order] = start + share * rng.random(len(score))
    return levels


def quantile_values(levels: tuple[float, ...], values: tuple[float, ...], u: FloatArray) -> FloatArray:
    """Inverse distribution function given as a table, linear in log(1 + value) between its levels."""
    return np.asarray(np.expm1(np.interp(u, levels, np.log1p(values))), dtype=np.float64)


def mixed(rng: np.random.Generator, signal: FloatArray, correlation: float) -> FloatArray:
    """Standard normal values that correlate with the standard normal `signal` by `correlation`."""
    noise = rng.standard_normal(len(signal))
    return correlation * signal + math.sqrt(1 - correlation**2) * noise


def table_mean(levels: tuple[float, ...], values: FloatArray) -> float:
    """Mean of what `quantile_values` gives for uniform levels: each piece is the mean of an exponential."""
    low, high = np.log1p(values[:-1]), np.log1p(values[1:])
    step = high - low
    flat = step < _EDGE
    piece = np.where(flat, values[:-1], (values[1:] - values[:-1]) / np.where(flat, 1.0, step) - 1)
    return float(np.diff(levels) @ piece)
