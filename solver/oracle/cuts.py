"""Cuts for the relaxation of the time-indexed model: what a full cluster cannot hold in parts of jobs.

At any instant the jobs that run form a knapsack: the sum of a[j] Y[j] is at most C, with widths a[j] and
Y[j] in {0, 1}. The relaxation fills it with fractions of wide jobs beside narrow ones. Let k be a width, S
jobs narrower than k, b = C - their widths, and f = b mod k. With Z = 1 - Y, mixed-integer rounding of

    sum_{j wider} a[j] Y[j] - sum_{j in S} a[j] Z[j] <= b          (divided by k)

gives, with r(x) = floor(x) + max(0, frac(x) - f / k) / (1 - f / k),

    sum_{j wider} r(a[j] / k) Y[j] - sum_{j in S} min(1, a[j] / (k - f)) Z[j] <= floor(b / k)

(Nemhauser and Wolsey, Integer and Combinatorial Optimization, 1988, section II.1.7). It holds for any S.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.oracle.instance import IntArray

FloatArray = NDArray[np.float64]

_LEAST_VIOLATION: Final = 1e-2
_RUNS: Final = 1e-6
_MOST_CUTS: Final = 400


@dataclass(frozen=True)
class Cut:
    """The sum of weight x Y[j] at one instant is at most a limit.

    Attributes:
        at: the instant, steps from the first one of the relaxation.
        weights: (jobs,)
        limit: of the sum.
        violation: by how much the point it was made from breaks it.
    """

    at: int
    weights: FloatArray
    limit: float
    violation: float


def cuts(running: FloatArray, width: IntArray, capacity_gpus: int) -> list[Cut]:
    """Cuts that a point of the relaxation breaks, the most broken first; at most 400.

    An instant at which the same runs as just before is passed over.

    Args:
        running: (jobs, steps) share of each job that runs, in [0, 1].
        width: (jobs,) GPUs.
        capacity_gpus: GPUs of the cluster.
    """
    runs = running > _RUNS
    crowded = width @ runs > capacity_gpus
    crowded[1:] &= (np.abs(np.diff(running, axis=1)) > _RUNS).any(axis=0) | ~crowded[:-1]
    found: list[Cut] = []
    for at in np.flatnonzero(crowded).tolist():
        active = np.flatnonzero(runs[:, at])
        offers = [
            _cut(at, running[:, at], active, width, int(k), capacity_gpus)
            for k in np.unique(width[active])
            if k > 1
        ]
        found += [offer for offer in offers if offer.violation > _LEAST_VIOLATION]
    found.sort(key=lambda cut: -cut.violation)
    return found[:_MOST_CUTS]


def _cut(at: int, running: FloatArray, active: IntArray, width: IntArray, k: int, capacity_gpus: int) -> Cut:
    """The most broken one of an instant and a width, over the narrower jobs of which most runs."""
    narrow = active[width[active] < k]
    narrow = narrow[np.argsort(-running[narrow], kind="stable")]
    left = capacity_gpus - np.concatenate([[0], np.cumsum(width[narrow])])
    rest = left % k
    wide = width >= k
    per_rest = {int(f): _rounded(width[wide], k, int(f)) for f in np.unique(rest)}
    missing = np.concatenate([[0.0], np.cumsum(width[narrow] * (1.0 - running[narrow]))])
    sums = np.array([per_rest[int(f)] @ running[wide] for f in rest])
    best = int((sums - missing / (k - rest) - left // k).argmax())
    weights = np.zeros(width.size)
    weights[wide] = per_rest[int(rest[best])]
    chosen = narrow[:best]
    weights[chosen] = np.minimum(1.0, width[chosen] / (k - rest[best]))
    limit = float(left[best] // k + weights[chosen].sum())
    return Cut(at, weights, limit, float(weights @ running) - limit)


def _rounded(width: IntArray, k: int, rest: int) -> FloatArray:
    whole, over = np.divmod(width, k)
    return np.asarray(whole + np.maximum(0, over - rest) / (k - rest), dtype=np.float64)
