"""Who was on lent GPUs at an instant of a replay, and how many there would have been by the forecasts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from domain.schedules import Schedule, Stretch
from models.lifetime.names import template_of
from simulator.report import Lived
from simulator.retold import Curves
from simulator.workload import Workload
from solver.lives import Cohorts, survival_at

OUTLIVED_LEVEL: Final = 0.9
"""A guest has outlived its forecast if it is older than this quantile."""


@dataclass(frozen=True, slots=True)
class GuestsOf:
    """Guests of one pool that ran when an episode began.

    Attributes:
        pool: whose jobs they are.
        jobs, gpus: how many, and their widths together.
        widths: number of jobs by width.
        median_age_s, longest_age_s: how long they had been running.
        outlived_gpus: widths of those older than their forecast 0.9 quantile; None without a forecast.
    """

    pool: str
    jobs: int
    gpus: int
    widths: Mapping[int, int]
    median_age_s: float
    longest_age_s: float
    outlived_gpus: int | None


@dataclass(frozen=True, slots=True)
class CohortOf:
    """Siblings: same pool, width, user and name template, each within ten minutes of the one before.

    Attributes:
        pool, user, name, width: what they have in common.
        jobs, gpus: those that ran as guests when the episode began.
        submitted_jobs: all siblings.
        submit_s: when the first one was submitted.
    """

    pool: str
    user: str | None
    name: str | None
    width: int
    jobs: int
    gpus: int
    submitted_jobs: int
    submit_s: float


def guests_of(workload: Workload, schedule: Schedule) -> list[Stretch]:
    """Attempts on lent GPUs: those marked so; where a policy marks none, those that went beyond a quota."""
    marked = [stretch for stretch in schedule.stretches if stretch.is_guest]
    if marked:
        return marked
    pool_of = {job.job_id: (job.pool, job.num_gpus) for job in workload.jobs}
    quotas = workload.cluster.quotas()
    changes = [(s.end_s, 0, k, s) for k, s in enumerate(schedule.stretches) if s.start_s < s.end_s]
    changes += [(s.start_s, 1, k, s) for _, _, k, s in changes]
    used: Counter[str] = Counter()
    beyond = []
    for _, is_start, _, stretch in sorted(changes, key=lambda change: change[:3]):
        pool, width = pool_of[stretch.job_id]
        used[pool] += width if is_start else -width
        if is_start and used[pool] > quotas[pool]:
            beyond.append(stretch._replace(is_guest=True, own_from_s=None))
    return beyond


class Lent:
    """The attempts on lent GPUs of one replay.

    Args:
        workload: that was replayed.
        guests: its attempts on lent GPUs (`guests_of`).
        reference: the world without sharing.
        curves: forecasts of lives as of each guest's submit; None if there are none.
    """

    def __init__(
        self, workload: Workload, guests: Sequence[Stretch], reference: Lived, curves: Curves | None
    ) -> None:
        self._curves = curves
        self._job = {job.job_id: job for job in workload.jobs}
        self._guests = guests
        self._start_s = np.array([stretch.start_s for stretch in guests])
        self._end_s = np.array([stretch.end_s for stretch in guests])
        self._is_sent_back = np.array([stretch.was_sent_back for stretch in guests], dtype=bool)
        self._kept_s = np.array(_kept_before(guests))
        self._own_s = np.array(
            [np.inf if stretch.own_from_s is None else stretch.own_from_s for stretch in guests]
        )
        self._due_s = np.array([reference.start_s[stretch.job_id] for stretch in guests])
        self._width = np.array([self._job[stretch.job_id].num_gpus for stretch in guests], dtype=np.int64)
        self._cohort = _cohorts(workload.jobs)
        self._siblings = Counter(self._cohort.values())
        self._first_of: dict[int, Job] = {}
        for job in workload.jobs:
            self._first_of.setdefault(self._cohort[job.job_id], job)

    def early_gpus(self, at_s: float) -> int:
        """Widths of the jobs begun as guests that run at an instant and have not started in the reference.

        From its reference start on a job holds GPUs that its own pool has a right to. Guests that were
        converted before count: leaving out only those that lived on would make the others look short.
        """
        runs = (self._start_s <= at_s) & (self._end_s > at_s)
        return int(self._width[(self._due_s > at_s) & runs].sum())

    def expected_early_gpus(self, at_s: float) -> float | None:
        """How many there would be by what was said at their submits; None without forecasts.

        Sums width x P(life > instant - start), given what was kept of the job before, over all attempts begun
        as guests by then, but for those sent back, of jobs that have not started in the reference.
        """
        if self._curves is None:
            return None
        sent_back = self._is_sent_back & (self._end_s <= at_s)
        places = np.flatnonzero((self._due_s > at_s) & (self._start_s <= at_s) & ~sent_back)
        return float(self._width[places] @ self._chance_alive(places, at_s)) if places.size else 0.0

    def traffic(self, from_s: float, to_s: float) -> tuple[int, int]:
        """Attempts begun in [from, to), and sent back in [from, to]."""
        begun = (self._start_s >= from_s) & (self._start_s < to_s)
        thrown = self._is_sent_back & (self._end_s >= from_s) & (self._end_s <= to_s)
        return int(begun.sum()), int(thrown.sum())

    def by_pool(self, at_s: float) -> tuple[GuestsOf, ...]:
        """Who runs as a guest at an instant, most GPUs first."""
        by_pool: dict[str, list[int]] = {}
        for k in np.flatnonzero(self._runs(at_s)).tolist():
            by_pool.setdefault(self._job[self._guests[k].job_id].pool, []).append(k)
        told = [self._guests_of(pool, np.array(places), at_s) for pool, places in by_pool.items()]
        return tuple(sorted(told, key=lambda guests: (-guests.gpus, guests.pool)))

    def largest_cohort(self, at_s: float) -> CohortOf | None:
        """The siblings that hold the most GPUs among the guests of an instant; None if there are none."""
        gpus: Counter[int] = Counter()
        jobs: Counter[int] = Counter()
        for k in np.flatnonzero(self._runs(at_s)).tolist():
            cohort = self._cohort[self._guests[k].job_id]
            gpus[cohort] += int(self._width[k])
            jobs[cohort] += 1
        if not gpus:
            return None
        best = min(gpus, key=lambda cohort: (-gpus[cohort], cohort))
        first = self._first_of[best]
        name = None if first.name is None else template_of(first.name)
        return CohortOf(
            pool=first.pool,
            user=first.user,
            name=name,
            width=first.num_gpus,
            jobs=jobs[best],
            gpus=gpus[best],
            submitted_jobs=self._siblings[best],
            submit_s=first.submit_s,
        )

    def _runs(self, at_s: float) -> NDArray[np.bool_]:
        return (self._start_s <= at_s) & (self._end_s > at_s) & (self._own_s > at_s)

    def _chance_alive(self, places: NDArray[np.intp], at_s: float) -> NDArray[np.float64]:
        curves = np.array([(self._curves or {})[self._guests[k].job_id] for k in places])
        kept_s = self._kept_s[places]
        alive = survival_at(curves, (kept_s + (at_s - self._start_s[places]))[:, None])[:, 0]
        before = survival_at(curves, kept_s[:, None])[:, 0]
        # a job that has outlived its curve was given no chance; before it kept anything the curve is 1
        return np.divide(alive, before, out=np.zeros_like(alive), where=before > 0.0)

    def _guests_of(self, pool: str, places: NDArray[np.intp], at_s: float) -> GuestsOf:
        widths, ages_s = self._width[places], at_s - self._start_s[places]
        outlived = None
        if self._curves is not None:
            is_old = self._chance_alive(places, at_s) < 1.0 - OUTLIVED_LEVEL
            outlived = int(widths[is_old].sum())
        return GuestsOf(
            pool=pool,
            jobs=len(places),
            gpus=int(widths.sum()),
            widths=dict(sorted(Counter(widths.tolist()).items())),
            median_age_s=float(np.median(ages_s)),
            longest_age_s=float(ages_s.max()),
            outlived_gpus=outlived,
        )


def _kept_before(guests: Iterable[Stretch]) -> list[float]:
    """Work kept of each attempt's job before it began, seconds; attempts are in the order of their ends."""
    kept_s: dict[str, float] = {}
    found = []
    for stretch in guests:
        before_s = kept_s.get(stretch.job_id, 0.0)
        found.append(before_s)
        if stretch.is_stopped:
            kept_s[stretch.job_id] = before_s + stretch.rate * (stretch.end_s - stretch.start_s)
    return found


def _cohorts(jobs: Iterable[Job]) -> dict[str, int]:
    cohorts = Cohorts()
    return {
        job.job_id: cohorts.of(job if job.name is None else replace(job, name=template_of(job.name)))
        for job in jobs
    }
