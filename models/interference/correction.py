"""What observed steps change about the field: rates here need not be those of the table."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from models.interference.field import Pairs, RateField, same, to_logit
from models.interference.profiles import Floats
from models.interference.steps import Heard

_LEVEL_VAR: Final = 0.02
_SENSITIVITY_VAR: Final = 0.05
_PRESSURE_VAR: Final = 0.05
_PAIR_VAR: Final = 0.3
"""Variances by which rates here may differ from the table's, logit: another GPU, driver or version of the
code. They are assumptions, no record of both is at hand: most of a difference is taken to be the pair's own,
so that others move only as more pairs of a model say the same."""


class Correction:
    """The posterior given the table, conditioned once more on what was heard.

    Observed rate = field + difference of this place + noise, on the logit scale. The difference has the terms
    of the field with small variances, but that what is particular to a pair is nobody else's.
    """

    def __init__(self, field: RateField, heard: Sequence[Heard]) -> None:
        """Condition `field` on the summaries of observed pairs; none of them changes nothing."""
        self._field: Final = field
        self._points: Final = [one.pair for one in heard]
        if not heard:
            return
        noise = np.diag([one.noise_var for one in heard])
        missed = to_logit(np.array([one.rate for one in heard])) - field.posterior(self._points).mean
        self._precision: Final = np.linalg.inv(self._covariance(self._points) + noise)
        self._weights: Final = self._precision @ missed

    def at(self, points: Pairs) -> tuple[Floats, Floats]:
        """By how much the mean and the variance of each point change.

        A place that may differ from the table is less certain, until enough was heard. That counts only as
        far as it does differ: a variance grows by no more than the square of the move of its mean, so steps
        that agree with the table widen no interval.
        """
        if not self._points:
            return np.zeros(len(points)), np.zeros(len(points))
        towards = self._covariance(points)
        explained = np.einsum("ij,jk,ik->i", towards, self._precision, towards, optimize=True)
        added = np.diag(self._here(points, points))
        move = towards @ self._weights
        return move, np.minimum(added - explained, move**2)

    def _covariance(self, points: Pairs) -> Floats:
        return self._field.posterior_covariance(points, self._points) + self._here(points, self._points)

    def _here(self, ones: Pairs, others: Pairs) -> Floats:
        sensed, pressed = self._field.alike(ones, others)
        alike = _LEVEL_VAR + _SENSITIVITY_VAR * sensed + _PRESSURE_VAR * pressed
        return np.asarray(alike + _PAIR_VAR * same(ones, others))
