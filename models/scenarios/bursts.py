"""How often pools ask for many GPUs at once: rates of bursts by size, seen ones and larger than any seen.

A hundred scenarios do not hold what happens once in a week, and that is what makes lenders wait. So bursts
are also told apart from them, with their rates. Sizes beyond a threshold are taken to be of Pareto's kind,
with one exponent for all pools (Hill, A simple general approach to inference about the tail of a
distribution, Ann. Statist. 3:5, 1975), so that the largest one seen is not taken for the largest there is.
What was seen of late counts more, and counts as it was where it was more.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import Burst

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BIN_S: Final = 600.0
"""What arrives within ten minutes is one burst."""
MEMORY_S: Final = 28 * 86_400.0
_HALF_LIFE_S: Final = 10 * 86_400.0
_LEAST_GPUS: Final = 8.0
_SIZES: Final = np.array([8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
_PRIOR_PER_S: Final = 0.5 / MEMORY_S
"""A pool that has never had a burst is taken to have one in two months."""
_ALPHA_RANGE: Final = (0.8, 3.0)


def burst_rates(arrivals: Sequence[tuple[Floats, Ints]], since_s: float, now_s: float) -> tuple[Burst, ...]:
    """Bursts to reckon with, pool by pool and size by size.

    Args:
        arrivals: of each pool, instants and widths of its jobs, ascending, from `since_s` on.
        since_s: where the record begins, or its part that counts.
        now_s: what arrives from here on does not count.
    """
    span_s = max(now_s - since_s, BIN_S)
    weight_s = _HALF_LIFE_S / math.log(2.0) * (1.0 - 0.5 ** (span_s / _HALF_LIFE_S))
    found = [_of_pool(submit_s, gpus, now_s) for submit_s, gpus in arrivals]
    weights = np.concatenate([weight for _, weight, _ in found])
    logs = np.concatenate([np.log(size / _LEAST_GPUS) for size, _, _ in found])
    alpha = float((weights.sum() + 1.0) / ((weights * logs).sum() + 1.0))
    alpha = min(max(alpha, _ALPHA_RANGE[0]), _ALPHA_RANGE[1])
    bursts: list[Burst] = []
    for pool, (size, weight, width) in enumerate(found):
        seen = np.array([weight[size >= least].sum() for least in _SIZES])
        often = weight.sum() / weight_s + _PRIOR_PER_S
        per_s = np.maximum(seen / weight_s, often * (_SIZES / _LEAST_GPUS) ** -alpha)
        per_s = per_s - np.append(per_s[1:], 0.0)
        for least, rate in zip(_SIZES.tolist(), per_s.tolist(), strict=True):
            gpus_asked = least * math.sqrt(2.0)
            bursts.append(Burst(pool, gpus_asked, gpus_asked / width, rate))
    return tuple(bursts)


def _of_pool(submit_s: Floats, gpus: Ints, now_s: float) -> tuple[Floats, Floats, float]:
    """Sizes of the bursts of a pool, what each counts, and the mean width of their jobs."""
    past = int(np.searchsorted(submit_s, now_s, "left"))
    submit_s, gpus = submit_s[:past], gpus[:past]
    if submit_s.size == 0:
        return np.empty(0), np.empty(0), 1.0
    bins, place = np.unique(np.floor(submit_s / BIN_S), return_inverse=True)
    size = np.bincount(place, weights=gpus).astype(np.float64)
    jobs = np.bincount(place)
    is_burst = size >= _LEAST_GPUS
    weight = 0.5 ** ((now_s - bins[is_burst] * BIN_S) / _HALF_LIFE_S)
    if not is_burst.any():
        return np.empty(0), np.empty(0), 1.0
    width = float((weight * size[is_burst]).sum() / (weight * jobs[is_burst]).sum())
    return size[is_burst], weight, width
