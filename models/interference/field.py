"""A Gaussian field of rates over ordered pairs (whose rate, beside whom), on the logit scale.

    logit rate(a beside b) = level + sensitivity(a) + pressure(b) + joint(a, b)

Each term is Gaussian around 0; models that are alike have like terms. `joint` takes both to be alike, and has
a part that is the pair's own, so that a measured pair is believed also where it is like no other.
Rasmussen and Williams, Gaussian Processes for Machine Learning (2006): posterior chapter 2.2, left-out points
in blocks after equation 5.12.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.interference.profiles import Floats, Likeness

Places = NDArray[np.intp]
Pairs = Sequence[tuple[str, str]]

LOWEST: Final = 0.02
"""No rate is forecast below this."""

_SHRUNK: Final = 0.95
"""A rate of 1 is taken for this on the logit scale, where 1 itself would be infinite."""

_LEVEL_VAR: Final = 4.0
_SENSITIVITY_VAR: Final = 2.0
_PRESSURE_VAR: Final = 2.0
_JOINT_VAR: Final = 1.0
_PAIR_VAR: Final = 0.04
NOISE_VAR: Final = 0.0025
"""Variance of a measured rate on the logit scale: one point of rate at 0.5. An assumption: the table that
this was made for measured each pair once."""


def to_logit(rates: Floats) -> Floats:
    """Rates in [0, 1] as unbounded numbers; what lies outside is clipped."""
    shrunk = _SHRUNK * np.clip(rates, 0.5 * LOWEST, 1.0)
    return np.asarray(np.log(shrunk / (1.0 - shrunk)))


def to_rate(logits: Floats) -> Floats:
    """The inverse, clipped to [LOWEST, 1]."""
    bounded = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return np.asarray(np.clip(bounded / _SHRUNK, LOWEST, 1.0))


def same(ones: Pairs, others: Pairs) -> Floats:
    """1 where a pair is the other, 0 elsewhere, shape (ones, others)."""
    found = np.zeros((len(ones), len(others)))
    places: dict[tuple[str, str], list[int]] = {}
    for k, pair in enumerate(ones):
        places.setdefault(pair, []).append(k)
    for k, pair in enumerate(others):
        found[places.get(pair, ()), k] = 1.0
    return found


class Posterior(NamedTuple):
    """Mean and standard deviation on the logit scale, one of each per point."""

    mean: Floats
    sd: Floats


class RateField:
    """The field given measured rates. Cost: the third power of their number."""

    def __init__(self, pairs: Pairs, rates: Floats, likeness: Likeness) -> None:
        """Condition on `rates[k]`, the rate of `pairs[k][0]` beside `pairs[k][1]`; at least one is needed."""
        self.pairs: Final = tuple(pairs)
        self.logits: Final = to_logit(rates)
        self._likeness: Final = likeness
        self._names: Final = tuple(sorted({name for pair in pairs for name in pair}))
        self._place: Final = {name: k for k, name in enumerate(self._names)}
        self._firsts: Final = np.array([self._place[a] for a, _ in pairs], np.intp)
        self._seconds: Final = np.array([self._place[b] for _, b in pairs], np.intp)
        self._level: Final = float(self.logits.mean())
        self._precision: Final = np.linalg.inv(self.covariance(pairs) + NOISE_VAR * np.eye(len(pairs)))
        self._weights: Final = self._precision @ (self.logits - self._level)

    def covariance(self, points: Pairs) -> Floats:
        """Prior covariance of the points with the measured pairs, shape (points, measured)."""
        return self._covariance(*self._alike_measured(points)) + _PAIR_VAR * same(points, self.pairs)

    def prior(self, ones: Pairs, others: Pairs) -> Floats:
        """Prior covariance of any points with any others."""
        return self._covariance(*self.alike(ones, others)) + _PAIR_VAR * same(ones, others)

    def alike(self, ones: Pairs, others: Pairs) -> tuple[Floats, Floats]:
        """How alike the models are whose rate it is, and those beside them, shapes (ones, others)."""
        sensed = self._likeness.between([a for a, _ in ones], [a for a, _ in others])
        pressed = self._likeness.between([b for _, b in ones], [b for _, b in others])
        return sensed, pressed

    def posterior(self, points: Pairs) -> Posterior:
        """What is believed of the points."""
        towards = self.covariance(points)
        own = np.diag(self.prior(points, points))
        left = own - np.einsum("ij,jk,ik->i", towards, self._precision, towards, optimize=True)
        return Posterior(self._level + towards @ self._weights, np.sqrt(np.maximum(left, 1e-9)))

    def posterior_covariance(self, ones: Pairs, others: Pairs) -> Floats:
        """Covariance that the measured pairs leave between points, shape (ones, others)."""
        explained = self.covariance(ones) @ self._precision @ self.covariance(others).T
        return np.asarray(self.prior(ones, others) - explained)

    def left_out(self, block: Places) -> Posterior:
        """What would be believed of these measured pairs, noise included, had they not been measured."""
        spread = np.linalg.inv(self._precision[np.ix_(block, block)])
        mean = self.logits[block] - spread @ self._weights[block]
        return Posterior(mean, np.sqrt(np.maximum(np.diag(spread), 1e-9)))

    def terms(self, model: str, beside: str) -> tuple[float, float, float, float]:
        """Level, sensitivity, pressure and joint term of a point; they sum to its mean, logit."""
        sensed, pressed = (x[0] for x in self._alike_measured([(model, beside)]))
        parts = (
            np.full(len(self.pairs), _LEVEL_VAR),
            _SENSITIVITY_VAR * sensed,
            _PRESSURE_VAR * pressed,
            _JOINT_VAR * sensed * pressed + _PAIR_VAR * same([(model, beside)], self.pairs)[0],
        )
        level, sensitivity, pressure, joint = (float(part @ self._weights) for part in parts)
        return self._level + level, sensitivity, pressure, joint

    def _alike_measured(self, points: Pairs) -> tuple[Floats, Floats]:
        asked = sorted({name for pair in points for name in pair})
        place = {name: k for k, name in enumerate(asked)}
        between = self._likeness.between(asked, self._names)
        firsts = [place[a] for a, _ in points]
        seconds = [place[b] for _, b in points]
        return between[firsts][:, self._firsts], between[seconds][:, self._seconds]

    def _covariance(self, sensed: Floats, pressed: Floats) -> Floats:
        joint = _JOINT_VAR * sensed * pressed
        return np.asarray(_LEVEL_VAR + _SENSITIVITY_VAR * sensed + _PRESSURE_VAR * pressed + joint)
