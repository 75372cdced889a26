"""Shares of jobs, and how far the true share may lie from the one that was counted."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_ROUNDS: Final = 2_000
_TINY: Final = 1e-300
_RELATIVE_ERROR: Final = 1e-14


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `total` jobs.

    Raises:
        ValueError: unless 0 <= hits <= total.
    """

    hits: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.total:
            raise ValueError(f"{self.hits} of {self.total} is no share")

    @property
    def value(self) -> float:
        """The share itself, in [0, 1]; 0 where nothing was counted."""
        return self.hits / self.total if self.total else 0.0

    def bounds(self, confidence: float = 0.95) -> tuple[float, float]:
        """Clopper-Pearson bounds of the true share; (0, 1) where nothing was counted."""
        return clopper_pearson(self.hits, self.total, confidence)


def clopper_pearson(hits: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Lower and upper bound of a true share, two-sided, (1 - confidence) / 2 in each tail.

    The upper one is the share at which `hits` or fewer would have had just that probability, the lower
    one the share at which `hits` or more would have had it (Clopper and Pearson 1934). A one-sided 95 %
    bound is the respective end at confidence 0.90. Jobs count as independent, which errors that come in
    episodes are not: the bound is then too tight.

    Raises:
        ValueError: unless 0 <= hits <= total and 0 < confidence < 1.
    """
    if not 0 <= hits <= total:
        raise ValueError(f"{hits} of {total} is no share")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}, must lie in (0, 1)")
    tail = (1.0 - confidence) / 2.0
    return _lower_bound(hits, total, tail), _upper_bound(hits, total, tail)


def _upper_bound(hits: int, total: int, tail: float) -> float:
    if hits == total:
        return 1.0
    if hits == 0:
        return -math.expm1(math.log(tail) / total)
    # P(X <= hits | p) falls as p grows, P(X > hits | p) = I_p(hits + 1, total - hits) rises.
    return _root(lambda p: _beta_cdf(1.0 - p, p, total - hits, hits + 1) <= tail)


def _lower_bound(hits: int, total: int, tail: float) -> float:
    if hits == 0:
        return 0.0
    if hits == total:
        return math.exp(math.log(tail) / total)
    return _root(lambda p: _beta_cdf(p, 1.0 - p, hits, total - hits + 1) >= tail)


def _root(is_beyond: Callable[[float], bool]) -> float:
    """The point of (0, 1) at which a condition that holds from there on begins to hold."""
    low, high = 0.0, 1.0
    while high - low > _RELATIVE_ERROR * high:
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        if is_beyond(middle):
            high = middle
        else:
            low = middle
    return (low + high) / 2.0


def _beta_cdf(x: float, rest: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b), with `rest` = 1 - x (DLMF 8.17)."""
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    front = math.exp(log_front)
    # The fraction converges fast on one side of the mean only; the other side is its mirror image.
    if x < (a + 1.0) / (a + b + 2.0):
        return front / a / _beta_fraction(x, a, b)
    return 1.0 - front / b / _beta_fraction(rest, b, a)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, by the modified Lentz method."""
    value = ratio = 1.0
    inverse = 0.0
    for k in range(1, _ROUNDS):
        m = k // 2
        if k % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        inverse = 1.0 / (1.0 + step * inverse or _TINY)
        ratio = 1.0 + step / ratio or _TINY
        value *= ratio * inverse
        if abs(ratio * inverse - 1.0) < _RELATIVE_ERROR:
            break
    return value
