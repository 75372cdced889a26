"""Widths still alive ahead: forecast lives of many jobs at once, conditional on their age."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S

FloatArray = NDArray[np.float64]

_FIRST_EDGE_S: Final = LIFE_EDGES_S[0]
_LOG2_FIRST: Final = float(np.log2(_FIRST_EDGE_S))
_EDGES_PER_DOUBLING: Final = 3.0
_LEAST_SURVIVAL: Final = 1e-9


def survival_at(curves: FloatArray, times_s: FloatArray) -> FloatArray:
    """S(t) of each row's curve at each of the row's times.

    Args:
        curves: (jobs, edges of `LIFE_EDGES_S`) survival at the edges.
        times_s: (jobs, times), seconds.

    Returns:
        (jobs, times); linear in log time between the edges, linear in time before the first one, and
        constant beyond the last.
    """
    last = curves.shape[1] - 1
    place = (np.log2(np.maximum(times_s, _FIRST_EDGE_S)) - _LOG2_FIRST) * _EDGES_PER_DOUBLING
    place = np.minimum(place, last)
    low = np.minimum(place.astype(np.intp), last - 1)
    share = place - low
    rows = np.arange(curves.shape[0])[:, None]
    at_low, at_high = curves[rows, low], curves[rows, low + 1]
    found = at_low + share * (at_high - at_low)
    early = times_s < _FIRST_EDGE_S
    if early.any():
        found = np.where(early, 1.0 - times_s / _FIRST_EDGE_S * (1.0 - curves[:, :1]), found)
    return np.asarray(found)


class LifeBook:
    """Running jobs with their forecast lives, in groups; asked how much of each group is alive ahead.

    Args:
        num_groups: groups are numbered from 0.
        offsets_s: how far ahead to look, seconds, increasing.
    """

    def __init__(self, num_groups: int, offsets_s: FloatArray) -> None:
        self._num_groups = num_groups
        self._offsets_s = offsets_s
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._curves = np.ones((0, len(LIFE_EDGES_S)))
        self._start_s = np.zeros(0)
        self._width = np.zeros(0)
        self._group = np.zeros(0, dtype=np.intp)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._slots

    def add(self, job_id: str, width: int, curve: FloatArray, start_s: float, group: int) -> None:
        """A job runs since `start_s`."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slots[job_id] = slot
        self._curves[slot] = curve
        self._start_s[slot] = start_s
        self._width[slot] = width
        self._group[slot] = group

    def move(self, job_id: str, group: int) -> None:
        """A job changes its group."""
        self._group[self._slots[job_id]] = group

    def remove(self, job_id: str) -> None:
        """A job runs no more; unknown ones are ignored."""
        slot = self._slots.pop(job_id, None)
        if slot is not None:
            self._width[slot] = 0.0
            self._free.append(slot)

    def alive(self, now_s: float) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the GPUs of each group that are alive at each offset ahead.

        Lives are taken as independent given their ages: P(alive at t) = S(age + t) / S(age), so that the
        variance of a job of width w is w^2 S (1 - S). A job that has outlived its curve is taken to
        halve its chances with every doubling of its age.

        Returns:
            Two arrays (groups, offsets).
        """
        used = np.flatnonzero(self._width)
        if used.size == 0:
            nothing = np.zeros((self._num_groups, self._offsets_s.size))
            return nothing, nothing
        ages_s = np.maximum(now_s - self._start_s[used], 0.0)[:, None]
        curves, width = self._curves[used], self._width[used][:, None]
        now_alive = survival_at(curves, ages_s)
        ahead = survival_at(curves, ages_s + self._offsets_s)
        outlived = (ages_s + 1.0) / (ages_s + 1.0 + self._offsets_s)
        known = now_alive >= _LEAST_SURVIVAL
        share = np.where(known, ahead / np.where(known, now_alive, 1.0), outlived)
        member = (self._group[used] == np.arange(self._num_groups)[:, None]).astype(float)
        return member @ (width * share), member @ (width * width * share * (1.0 - share))

    def _grow(self) -> None:
        more = max(64, self._width.size)
        self._free = list(range(self._width.size + more - 1, self._width.size - 1, -1))
        self._curves = np.vstack([self._curves, np.ones((more, self._curves.shape[1]))])
        self._start_s = np.concatenate([self._start_s, np.zeros(more)])
        self._width = np.concatenate([self._width, np.zeros(more)])
        self._group = np.concatenate([self._group, np.zeros(more, dtype=np.intp)])
