"""Contributions that sum to a forecast, for survival curves that are products of (1 - hazard).

Hazards are additive on the logit scale, bin by bin; what people ask about (how long it will run, whether it
outlasts t) is not. Integrated gradients (Sundararajan, Taly and Yan, ICML 2017) carry the one over to the
other: along the straight path from the base logits to the full ones, each bin's logit changes the prediction
by the integral of its gradient, the whole change is their sum (completeness, their Proposition 1), and within
a bin each part gets its share of the logit's change.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S
from models.lifetime.tables import LEAST_HAZARD, MOST_HAZARD, survival_of

Floats = NDArray[np.float64]

NODES: Final = 32
"""Gauss-Legendre nodes on each piece of the path; the integrand is analytic."""

PIECES: Final = (1, 4, 16, 64)
"""Pieces that the path is cut into, the fewest that leave no more than `MOST_REST`."""

MOST_REST: Final = 1e-9

_EDGES_S: Final = np.array(LIFE_EDGES_S)
_LOG2_EDGES: Final = np.log2(_EDGES_S)
_LOWEST: Final = math.log(LEAST_HAZARD / (1.0 - LEAST_HAZARD))
_HIGHEST: Final = math.log(MOST_HAZARD / (1.0 - MOST_HAZARD))
_LEAST_MOVE: Final = 1e-12
_LEAST_CHANCE: Final = 1e-200


@dataclass(frozen=True)
class Component:
    """One of the curves that are mixed into a forecast, as logits that are sums of parts.

    Attributes:
        share: weight of the curve in the mixture.
        base: logits of what is usual, shape (bins,).
        parts: what each group adds to them, shape (groups, bins).
    """

    share: float
    base: Floats
    parts: Floats

    @property
    def full(self) -> Floats:
        """Logits of the forecast, shape (bins,)."""
        total: Floats = self.base + self.parts.sum(axis=0)
        return total


class Target(Protocol):
    """A number that a survival curve says, smooth in the curve."""

    def value(self, survival: Floats) -> float:
        """The number, of S at each edge of `LIFE_EDGES_S`."""
        ...

    def slope(self, survival: Floats) -> Floats:
        """Its derivative with respect to S at each edge, shape (bins,)."""
        ...


class TypicalLife:
    """Mean of log2 of the life in seconds: the logarithm of its geometric mean, in doublings.

    E log2 L = log2 of the first edge + the integral of S over log2 t, by trapezoids; shorter lives count as
    the first edge, longer ones as the last. Unlike the median it is smooth in S, even linear, so
    contributions are well defined everywhere; and it sees the whole curve.
    """

    def __init__(self) -> None:
        steps = np.diff(_LOG2_EDGES)
        self._weights: Floats = np.zeros(len(_EDGES_S))
        self._weights[:-1] += steps / 2.0
        self._weights[1:] += steps / 2.0

    def value(self, survival: Floats) -> float:
        """log2 of the typical life in seconds."""
        return float(_LOG2_EDGES[0] + self._weights @ survival)

    def slope(self, survival: Floats) -> Floats:  # noqa: ARG002 - it is linear
        """The same everywhere, shape (bins,)."""
        return self._weights


class ChanceLonger:
    """log2 of the chance that a job outlasts `life_s`; ln S is linear in ln t between edges.

    Raises:
        ValueError: if the life does not lie within the grid.
    """

    def __init__(self, life_s: float) -> None:
        if not LIFE_EDGES_S[0] <= life_s <= LIFE_EDGES_S[-1]:
            raise ValueError(f"life_s is {life_s}, must lie in [{LIFE_EDGES_S[0]}, {LIFE_EDGES_S[-1]:g}]")
        place = max(1, bisect_left(LIFE_EDGES_S, life_s))
        low, high = _LOG2_EDGES[place - 1], _LOG2_EDGES[place]
        share = (math.log2(life_s) - low) / (high - low)
        self._weights: Floats = np.zeros(len(_EDGES_S))
        self._weights[place - 1], self._weights[place] = 1.0 - share, share

    def value(self, survival: Floats) -> float:
        """log2 S(life_s)."""
        return float(self._weights @ np.log2(np.maximum(survival, _LEAST_CHANCE)))

    def slope(self, survival: Floats) -> Floats:
        """Shape (bins,)."""
        slope: Floats = self._weights / (np.maximum(survival, _LEAST_CHANCE) * math.log(2.0))
        return slope


def attribute(components: list[Component], target: Target) -> tuple[float, Floats]:
    """The target of the base, and what each group adds to it.

    Completeness tells the error of the quadrature: the path is cut into more and more pieces until the
    contributions sum to what the target changes by.

    Args:
        components: of the mixture, with the same groups.
        target: what is predicted.

    Returns:
        The base, and contributions of shape (groups,). Together they are the target of the full logits, but
        for the error of the quadrature.
    """
    starts = [np.clip(one.base, _LOWEST, _HIGHEST) for one in components]
    ends = [np.clip(one.full, _LOWEST, _HIGHEST) for one in components]
    moves = [end - start for start, end in zip(starts, ends, strict=True)]
    base = target.value(mixed(components, starts))
    change = target.value(mixed(components, ends)) - base
    gradients = np.zeros((len(components), len(_EDGES_S)))
    for pieces in PIECES:
        gradients = _mean_gradient(components, starts, moves, target, pieces)
        found = sum(float(one @ each) for one, each in zip(gradients, moves, strict=True))
        if abs(found - change) < MOST_REST:
            break
    given = sum(
        _parts_within(one, move) @ gradient
        for one, move, gradient in zip(components, moves, gradients, strict=True)
    )
    return base, np.asarray(given, np.float64)


def _mean_gradient(
    components: list[Component], starts: list[Floats], moves: list[Floats], target: Target, pieces: int
) -> Floats:
    """Mean along the path of the target's gradient, shape (components, bins)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    mean = np.zeros((len(components), len(_EDGES_S)))
    for piece in range(pieces):
        for node, weight in zip(nodes, weights, strict=True):
            at = (piece + (node + 1.0) / 2.0) / pieces
            path = [start + at * move for start, move in zip(starts, moves, strict=True)]
            mean += weight / (2.0 * pieces) * _gradient(components, path, target)
    return mean


def mixed(components: list[Component], logits: list[Floats]) -> Floats:
    """S of the mixture at each edge, of logits of each component; shape (bins,)."""
    curves = (one.share * survival_of(each) for one, each in zip(components, logits, strict=True))
    return np.asarray(sum(curves), np.float64)


def _gradient(components: list[Component], logits: list[Floats], target: Target) -> Floats:
    """Derivative of the target with respect to each component's logits, shape (components, bins).

    d ln(1 - h) / d logit = -h, so dS_k / d logit_b = -h_b S_k for b <= k, and 0 for b > k.
    """
    curves = [survival_of(each) for each in logits]
    slope = target.slope(np.asarray(sum(one.share * s for one, s in zip(components, curves, strict=True))))
    rows = []
    for one, each, survival in zip(components, logits, curves, strict=True):
        later = np.cumsum((slope * survival)[::-1])[::-1]
        rows.append(-one.share * later / (1.0 + np.exp(-each)))
    return np.array(rows)


def _parts_within(component: Component, move: Floats) -> Floats:
    """The parts, scaled to sum to the move of each logit; shape (groups, bins).

    Hazards are kept within bounds; a logit beyond them changes nothing. The way is taken within them, where
    everything is smooth; where they cut it short, all parts are by the same factor, which is at most 1.
    """
    wanted = component.parts.sum(axis=0)
    has_moved = np.abs(wanted) > _LEAST_MOVE
    factor = np.where(has_moved, move / np.where(has_moved, wanted, 1.0), 1.0)
    scaled: Floats = component.parts * factor
    return scaled
