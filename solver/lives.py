"""Widths still alive ahead: forecast lives of many jobs at once, conditional on their age."""

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
_COHORTS: Final = 64
_FATES: Final = 4096


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


def alive_given_age(curves: FloatArray, ages_s: FloatArray, offsets_s: FloatArray) -> FloatArray:
    """(jobs, offsets) P(life > age + offset | life > age), of curves (jobs, edges) and ages (jobs, 1).

    A job that has outlived its curve is taken to halve its chances with every doubling of its age.
    """
    now_alive = survival_at(curves, ages_s)
    ahead = survival_at(curves, ages_s + offsets_s)
    outlived = (ages_s + 1.0) / (ages_s + 1.0 + offsets_s)
    known = now_alive >= _LEAST_SURVIVAL
    return np.where(known, ahead / np.where(known, now_alive, 1.0), outlived)


class Cohort(NamedTuple):
    """Running jobs of one burst in one group.

    Attributes:
        number: of the burst.
        group: theirs.
        width: of all of them, GPUs.
        share: (offsets,) of that width expected to be alive.
    """

    number: int
    group: int
    width: float
    share: FloatArray


@dataclass(frozen=True, slots=True)
class Alive:
    """Widths alive ahead.

    Attributes:
        mean: (groups, offsets) expected GPUs of each group.
        spread: (offsets,) sum of the variances of the single jobs of the groups that count.
        cohorts: of the groups that count, the widest ones.
        common: (offsets,) the part of `spread` that belongs to these cohorts.
    """

    mean: FloatArray
    spread: FloatArray
    cohorts: tuple[Cohort, ...]
    common: FloatArray


class RunningLives(NamedTuple):
    """Running jobs, one entry each.

    Attributes:
        group, width, cohort: (jobs,).
        share: (jobs, offsets) P(alive at the offset | alive now).
    """

    group: NDArray[np.intp]
    width: FloatArray
    cohort: NDArray[np.intp]
    share: FloatArray


class LifeBook:
    """Running jobs with their forecast lives, in groups; asked how much of each group is alive ahead.

    P(alive at t) = S(age + t) / S(age). Jobs of one burst are a cohort: they are alike, see `Fates`.

    An age is work done, and time ahead is the work that will be done in it at the rate of now: a job at rate
    r is alive at t with S(age + r t) / S(age). Its rate may well rise before, so that is rather too much.

    A rider's GPUs are inside its host's. As many of the host's are held until both have ended, and count in
    the host's group and cohort; the rider counts nowhere else.

    Args:
        num_groups: groups are numbered from 0.
        num_counted: the first so many groups count for spread and cohorts.
        offsets_s: how far ahead to look, seconds, increasing.
    """

    def __init__(self, num_groups: int, num_counted: int, offsets_s: FloatArray) -> None:
        self._num_groups = num_groups
        self._num_counted = num_counted
        self._offsets_s = offsets_s
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._curves = np.ones((0, len(LIFE_EDGES_S)))
        self._start_s = np.zeros(0)
        self._done_s = np.zeros(0)
        self._work_s = np.zeros(0)
        self._rate = np.ones(0)
        self._width = np.zeros(0)
        self._group = np.zeros(0, dtype=np.intp)
        self._cohort = np.zeros(0, dtype=np.intp)
        self._hosts: dict[int, int] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._slots

    def add(self, entry: Entry, start_s: float, group: int, done_s: float = 0.0) -> None:
        """A job runs since `start_s`; it is known to live longer than `done_s`.

        One that is younger than that loads what it had saved, and can end only when it is older.
        """
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slots[entry.job_id] = slot
        self._curves[slot] = entry.curve
        self._start_s[slot] = start_s
        self._done_s[slot] = done_s
        self._work_s[slot], self._rate[slot] = 0.0, 1.0
        self._width[slot] = entry.width
        self._group[slot] = group
        self._cohort[slot] = entry.cohort

    def move(self, job_id: str, group: int) -> None:
        """A job changes its group."""
        self._group[self._slots[job_id]] = group

    def rate_changed(self, job_id: str, now_s: float, rate: float) -> None:
        """A job goes on at another rate; it was 1 since it was added."""
        slot = self._slots[job_id]
        if rate != self._rate[slot]:
            self._work_s[slot] = self._ages_s(np.array([slot]), now_s)[0]
            self._start_s[slot], self._rate[slot] = now_s, rate

    def rides(self, job_id: str, host_id: str) -> None:
        """A job is on GPUs of another one, which rides with nobody itself."""
        self._hosts[self._slots[job_id]] = self._slots[host_id]

    def alone(self, job_id: str) -> None:
        """A job has GPUs of its own; nothing changes if it had."""
        self._hosts.pop(self._slots[job_id], None)

    def remove(self, job_id: str) -> None:
        """A job runs no more, and its riders have GPUs of their own; unknown ones are ignored."""
        slot = self._slots.pop(job_id, None)
        if slot is not None:
            self._width[slot] = 0.0
            self._free.append(slot)
            self._hosts = {rider: host for rider, host in self._hosts.items() if slot not in (rider, host)}

    def riding(self, now_s: float) -> FloatArray:
        """(groups, offsets) expected width of each group's riders, which is inside the widths of hosts."""
        found = np.zeros((self._num_groups, self._offsets_s.size))
        if self._hosts:
            slots = np.array(sorted(self._hosts))
            share = self._share_alive(slots, now_s)
            np.add.at(found, self._group[slots], self._width[slots][:, None] * share)
        return found

    def alive(self, now_s: float) -> Alive:
        """What of each group is alive at each offset ahead.

        A job that has outlived its curve is taken to halve its chances with every doubling of its age.
        """
        lives = self.lives(now_s)
        if lives.width.size == 0:
            nothing = np.zeros(self._offsets_s.size)
            return Alive(np.zeros((self._num_groups, self._offsets_s.size)), nothing, (), nothing)
        width, group, share = lives.width[:, None], lives.group, lives.share
        member = (group == np.arange(self._num_groups)[:, None]).astype(float)
        is_counted = group < self._num_counted
        spread = np.where(is_counted[:, None], width**2 * share * (1.0 - share), 0.0)
        counted = RunningLives(
            lives.group[is_counted], lives.width[is_counted], lives.cohort[is_counted], share[is_counted]
        )
        cohorts, common = self._cohorts(counted, spread[is_counted])
        return Alive(member @ (width * share), spread.sum(axis=0), cohorts, common)

    def lives(self, now_s: float) -> RunningLives:
        """The running jobs one by one; in place of a rider the GPUs that it shares."""
        used = np.flatnonzero(self._width)
        lives = RunningLives(
            self._group[used], self._width[used], self._cohort[used], self._share_alive(used, now_s)
        )
        if self._hosts:
            pairs = sorted(self._hosts.items())
            riders, hosts = (np.searchsorted(used, slots) for slots in zip(*pairs, strict=True))
            _share_gpus(lives, riders, hosts)
        return lives

    def _cohorts(self, lives: RunningLives, spread: FloatArray) -> tuple[tuple[Cohort, ...], FloatArray]:
        width, share = lives.width, lives.share
        keys, place = np.unique(lives.cohort * self._num_groups + lives.group, return_inverse=True)
        total = np.bincount(place, weights=width, minlength=keys.size)
        alive = np.zeros((keys.size, share.shape[1]))
        np.add.at(alive, place, width[:, None] * share)
        widest = np.sort(np.argsort(-total, kind="stable")[:_COHORTS])
        common = spread[np.isin(place, widest)].sum(axis=0)
        found = tuple(
            Cohort(
                int(keys[k]) // self._num_groups,
                int(keys[k]) % self._num_groups,
                float(total[k]),
                alive[k] / total[k],
            )
            for k in widest.tolist()
        )
        return found, np.asarray(common)

    def _share_alive(self, used: NDArray[np.intp], now_s: float) -> FloatArray:
        """(jobs, offsets) P(alive at the offset | alive now)."""
        ages_s = self._ages_s(used, now_s)[:, None]
        done_s = self._done_s[used][:, None]
        if not (done_s > ages_s).any():
            return alive_given_age(self._curves[used], ages_s, self._work_ahead_s(used))
        loads_s = np.maximum(done_s - ages_s, 0.0)
        left_s = np.maximum(self._work_ahead_s(used) - loads_s, 0.0)
        return alive_given_age(self._curves[used], np.maximum(ages_s, done_s), left_s)

    def _ages_s(self, used: NDArray[np.intp], now_s: float) -> FloatArray:
        """(jobs,) work done, seconds; at rate 1 exactly the time since the start."""
        ran_s = np.maximum(now_s - self._start_s[used], 0.0)
        return np.asarray(self._work_s[used] + self._rate[used] * ran_s)

    def _work_ahead_s(self, used: NDArray[np.intp]) -> FloatArray:
        """(jobs, offsets) work that will have been done by each offset, seconds."""
        return np.asarray(self._rate[used][:, None] * self._offsets_s)

    def _grow(self) -> None:
        more = max(64, self._width.size)
        self._free = list(range(self._width.size + more - 1, self._width.size - 1, -1))
        self._curves = np.vstack([self._curves, np.ones((more, self._curves.shape[1]))])
        self._start_s = np.concatenate([self._start_s, np.zeros(more)])
        self._done_s = np.concatenate([self._done_s, np.zeros(more)])
        self._work_s = np.concatenate([self._work_s, np.zeros(more)])
        self._rate = np.concatenate([self._rate, np.ones(more)])
        self._width = np.concatenate([self._width, np.zeros(more)])
        self._group = np.concatenate([self._group, np.zeros(more, dtype=np.intp)])
        self._cohort = np.concatenate([self._cohort, np.zeros(more, dtype=np.intp)])


def _share_gpus(lives: RunningLives, riders: NDArray[np.intp], hosts: NDArray[np.intp]) -> None:
    """Let riders' entries stand for the GPUs shared: held while either lives, and their hosts'.

    Of its own a host has what is left.
    """
    both_ended = (1.0 - lives.share[riders]) * (1.0 - lives.share[hosts])
    lives.share[riders] = 1.0 - both_ended
    lives.group[riders] = lives.group[hosts]
    lives.cohort[riders] = lives.cohort[hosts]
    np.subtract.at(lives.width, hosts, lives.width[riders])


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


class Fates:
    """How cohorts fare, scenario by scenario.

    Siblings of one burst are alike: when one of them turns out long, all may. In a share `kinship` of the
    scenarios a cohort has one fate: all of it is alive at t, or nothing of it, with the probability of each
    of its jobs. In the others its jobs live independently. So the correlation of "is alive at t" between two
    of its jobs is `kinship`, and the tail of their sum is what it should be: a normal sum of equal variance
    would rule out that they all stay.

    Args:
        kinship: in [0, 1].
        seed: of the draws.
    """

    def __init__(self, kinship: float, seed: int) -> None:
        self.kinship = kinship
        self._seed = seed
        self._drawn: dict[tuple[int, int], FloatArray] = {}

    def num_common(self, num_scenarios: int) -> int:
        """In how many scenarios a cohort has one fate; in none where there is but one scenario."""
        return round(self.kinship * num_scenarios) if num_scenarios > 1 else 0

    def of(self, number: int, num_scenarios: int) -> FloatArray:
        """(scenarios,) level in (0, 1) below which S(t) has to fall for the cohort to be gone; else NaN."""
        found = self._drawn.get((number, num_scenarios))
        if found is None:
            if len(self._drawn) > _FATES:
                self._drawn.clear()
            rng = np.random.default_rng((self._seed, number))
            num_common = self.num_common(num_scenarios)
            found = np.full(num_scenarios, np.nan)
            found[:num_common] = (np.arange(num_common) + 0.5) / max(num_common, 1)
            rng.shuffle(found)
            self._drawn[number, num_scenarios] = found
        return found


def fated(fates: FloatArray, share: FloatArray) -> FloatArray:
    """What of a cohort is alive, (..., scenarios, offsets): fates (..., scenarios), S (..., offsets)."""
    levels, shares = fates[..., None], share[..., None, :]
    return np.where(np.isnan(levels), shares, (levels < shares).astype(float))
