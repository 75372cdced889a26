"""Widths still alive ahead: forecast lives of many jobs at once, conditional on their age."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job

FloatArray = NDArray[np.float64]

_FIRST_EDGE_S: Final = LIFE_EDGES_S[0]
_LOG2_FIRST: Final = float(np.log2(_FIRST_EDGE_S))
_EDGES_PER_DOUBLING: Final = 3.0
_LEAST_SURVIVAL: Final = 1e-9
_BURST_GAP_S: Final = 600.0


class Entry(NamedTuple):
    """A job as the book knows it: its width, its forecast life and its cohort."""

    job_id: str
    width: int
    curve: FloatArray
    cohort: int


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


@dataclass(frozen=True, slots=True)
class Alive:
    """Widths alive ahead.

    Attributes:
        mean: (groups, offsets) expected GPUs of each group.
        variance: (offsets,) of the GPUs of the groups that count, together.
        cohort_sd: (offsets,) of each cohort that counts, the sum of its jobs' standard deviations.
    """

    mean: FloatArray
    variance: FloatArray
    cohort_sd: Mapping[int, FloatArray]


class LifeBook:
    """Running jobs with their forecast lives, in groups; asked how much of each group is alive ahead.

    Lives are independent given their ages but for *cohorts*: siblings of one burst are alike, so when one
    of them turns out long, all may. With correlation rho inside a cohort the variance of the sum is

        rho x (sum of w sqrt(S (1 - S)))^2 + (1 - rho) x sum of w^2 S (1 - S)

    cohort by cohort, S being P(alive at t) = S(age + t) / S(age) and w the width.

    Args:
        num_groups: groups are numbered from 0.
        num_counted: the first so many groups count for variance and cohorts.
        kinship: rho, in [0, 1].
        offsets_s: how far ahead to look, seconds, increasing.
    """

    def __init__(self, num_groups: int, num_counted: int, kinship: float, offsets_s: FloatArray) -> None:
        self._num_groups = num_groups
        self._num_counted = num_counted
        self._kinship = kinship
        self._offsets_s = offsets_s
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._curves = np.ones((0, len(LIFE_EDGES_S)))
        self._start_s = np.zeros(0)
        self._width = np.zeros(0)
        self._group = np.zeros(0, dtype=np.intp)
        self._cohort = np.zeros(0, dtype=np.intp)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._slots

    def add(self, entry: Entry, start_s: float, group: int) -> None:
        """A job runs since `start_s`."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slots[entry.job_id] = slot
        self._curves[slot] = entry.curve
        self._start_s[slot] = start_s
        self._width[slot] = entry.width
        self._group[slot] = group
        self._cohort[slot] = entry.cohort

    def move(self, job_id: str, group: int) -> None:
        """A job changes its group."""
        self._group[self._slots[job_id]] = group

    def remove(self, job_id: str) -> None:
        """A job runs no more; unknown ones are ignored."""
        slot = self._slots.pop(job_id, None)
        if slot is not None:
            self._width[slot] = 0.0
            self._free.append(slot)

    def alive(self, now_s: float) -> Alive:
        """What of each group is alive at each offset ahead.

        A job that has outlived its curve is taken to halve its chances with every doubling of its age.
        """
        used = np.flatnonzero(self._width)
        if used.size == 0:
            return Alive(
                np.zeros((self._num_groups, self._offsets_s.size)), np.zeros(self._offsets_s.size), {}
            )
        width, group = self._width[used][:, None], self._group[used]
        share = self._share_alive(used, now_s)
        member = (group == np.arange(self._num_groups)[:, None]).astype(float)
        counted = group < self._num_counted
        spread = (width * np.sqrt(np.maximum(share * (1.0 - share), 0.0)))[counted]
        cohorts, place = np.unique(self._cohort[used][counted], return_inverse=True)
        sums = np.zeros((cohorts.size, self._offsets_s.size))
        np.add.at(sums, place, spread)
        variance = self._kinship * (sums**2).sum(axis=0) + (1.0 - self._kinship) * (spread**2).sum(axis=0)
        return Alive(member @ (width * share), variance, dict(zip(cohorts.tolist(), sums, strict=True)))

    def _share_alive(self, used: NDArray[np.intp], now_s: float) -> FloatArray:
        """(jobs, offsets) P(alive at the offset | alive now)."""
        ages_s = np.maximum(now_s - self._start_s[used], 0.0)[:, None]
        curves = self._curves[used]
        now_alive = survival_at(curves, ages_s)
        ahead = survival_at(curves, ages_s + self._offsets_s)
        outlived = (ages_s + 1.0) / (ages_s + 1.0 + self._offsets_s)
        known = now_alive >= _LEAST_SURVIVAL
        return np.where(known, ahead / np.where(known, now_alive, 1.0), outlived)

    def _grow(self) -> None:
        more = max(64, self._width.size)
        self._free = list(range(self._width.size + more - 1, self._width.size - 1, -1))
        self._curves = np.vstack([self._curves, np.ones((more, self._curves.shape[1]))])
        self._start_s = np.concatenate([self._start_s, np.zeros(more)])
        self._width = np.concatenate([self._width, np.zeros(more)])
        self._group = np.concatenate([self._group, np.zeros(more, dtype=np.intp)])
        self._cohort = np.concatenate([self._cohort, np.zeros(more, dtype=np.intp)])


class Cohorts:
    """Which burst a job belongs to: pool, width, user and name, within ten minutes of the one before."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int, str | None, str | None], tuple[float, int]] = {}
        self._number = 0

    def of(self, job: Job) -> int:
        """The cohort of a job that has just been submitted."""
        key = (job.pool, job.num_gpus, job.user, job.name)
        latest = self._latest.get(key)
        if latest is None or job.submit_s - latest[0] > _BURST_GAP_S:
            self._number += 1
            cohort = self._number
        else:
            cohort = latest[1]
        self._latest[key] = (job.submit_s, cohort)
        return cohort
