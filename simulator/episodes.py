"""Slowed jobs grouped into episodes; of each, who was on lent GPUs then, and its cause by a stated rule.

docs/episodes.md states the rule and what its numbers are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from domain.jobs import Job
from domain.measures import is_slowed, lateness_s
from domain.schedules import Schedule, Stretch
from simulator.lent import CohortOf, GuestsOf, Lent, guests_of
from simulator.report import Lived
from simulator.retold import Curves
from simulator.workload import Workload

GAP_S: Final = 3600.0
"""Slowed jobs are of one episode if one is due at most this long after the others of it have all started."""
WINDOW_S: Final = 3600.0
"""Arrivals are counted from this long before an episode begins."""
USUAL_LEVEL: Final = 0.95
"""Quantile, over the windows before, of what is usually asked for."""
_EXPLAINS: Final = 0.5
"""Share of the missing GPUs that a cause has to explain."""
_MINUTE_S: Final = 60.0


class Cause(StrEnum):
    """What made due jobs wait."""

    LIVES = "lives"
    ARRIVALS = "arrivals"
    PLANNER = "planner"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the cause was decided by, in GPUs.

    Attributes:
        short_gpus: most widths of slowed jobs that were due and waited at one instant.
        short_s: the first instant of it.
        early_gpus: widths of jobs begun as guests that ran when the episode began, before their
            reference start.
        expected_early_gpus: how many there would have been by the forecasts given at their submits; None
            without a forecast.
        asked_gpus: widths that jobs submitted within `window_s` before `short_s` asked for, due by then,
            at most the quota of each pool.
        usual_gpus: the 0.95 quantile of the same over windows before.
        window_s: an hour more than the episode took from its begin to `short_s`.
    """

    short_gpus: int
    short_s: float
    early_gpus: int
    expected_early_gpus: float | None
    asked_gpus: int
    usual_gpus: float
    window_s: float

    @property
    def cause(self) -> Cause:
        """The rule: the larger excess, if it explains half of the missing GPUs."""
        lives = self.early_gpus - self.expected_early_gpus if self.expected_early_gpus is not None else 0.0
        arrivals = self.asked_gpus - self.usual_gpus
        if max(lives, arrivals) < _EXPLAINS * self.short_gpus:
            return Cause.PLANNER
        return Cause.LIVES if lives >= arrivals else Cause.ARRIVALS


@dataclass(frozen=True, slots=True)
class Episode:
    """Slowed jobs that belong together.

    Attributes:
        begin_s: when the first of them was due, that is, began in the reference.
        end_s: when the last of them had started.
        jobs: how many.
        evaluated_jobs: of those, the ones that measures are taken of.
        pools: slowed jobs by pool, most first.
        worst_min, total_min: largest and summed lateness, minutes.
        guests: who ran on lent GPUs at the begin, most GPUs first.
        cohort: the siblings with the most GPUs among them; None where there are no guests.
        guests_started, guests_sent_back: attempts on lent GPUs begun and sent back while it lasted.
        evidence: what the cause was decided by.
        cause: lives, arrivals or planner.
    """

    begin_s: float
    end_s: float
    jobs: int
    evaluated_jobs: int
    pools: Mapping[str, int]
    worst_min: float
    total_min: float
    guests: tuple[GuestsOf, ...]
    cohort: CohortOf | None
    guests_started: int
    guests_sent_back: int
    evidence: Evidence
    cause: Cause


class Late(NamedTuple):
    """A slowed job: due in the reference, started later, late by so much.

    One that went on from a checkpoint started when its last attempt did.
    """

    due_s: float
    start_s: float
    late_s: float
    job: Job


def slowed_jobs(workload: Workload, lived: Lived, reference: Lived) -> list[Late]:
    """All slowed jobs of a replay, the warm-up's too, by the instants at which they were due."""
    found = []
    for job in workload.jobs:
        late_s = lateness_s(lived.end_s[job.job_id], reference.end_s[job.job_id])
        if is_slowed(late_s):
            due_s, start_s = reference.start_s[job.job_id], lived.final_start_s(job.job_id)
            found.append(Late(due_s, start_s, late_s, job))
    return sorted(found, key=lambda late: (late.due_s, late.job.submit_s, late.job.job_id))


def grouped(slowed: Iterable[Late], gap_s: float = GAP_S) -> list[list[Late]]:
    """Slowed jobs, ordered by when they were due, in episodes; see `GAP_S`."""
    groups: list[list[Late]] = []
    until_s = 0.0
    for late in slowed:
        if not groups or late.due_s > until_s + gap_s:
            groups.append([])
            until_s = late.start_s
        groups[-1].append(late)
        until_s = max(until_s, late.start_s)
    return groups


def wanted_curves(groups: Sequence[Sequence[Late]], guests: Iterable[Stretch], reference: Lived) -> set[str]:
    """Ids of the guests whose forecasts are needed: of whom an episode can have to be told."""
    begins_s = np.array([group[0].due_s for group in groups])
    wanted = set()
    for stretch in guests:
        first, beyond = np.searchsorted(begins_s, (stretch.start_s, reference.start_s[stretch.job_id]))
        last = np.searchsorted(begins_s, stretch.end_s)
        if first < max(beyond, last):
            wanted.add(stretch.job_id)
    return wanted


def episodes(
    workload: Workload,
    schedule: Schedule,
    reference: Lived,
    curves: Curves | None = None,
    gap_s: float = GAP_S,
) -> list[Episode]:
    """The episodes of a replay in the order of time.

    Args:
        workload: that was replayed.
        schedule: what happened.
        reference: the world without sharing.
        curves: forecasts of lives as of each guest's submit (`simulator.retold`), of at least the
            `wanted_curves`; None if the policy asks for none: lives are then no cause.
        gap_s: see `GAP_S`.
    """
    groups = grouped(slowed_jobs(workload, Lived.of(schedule), reference), gap_s)
    if not groups:
        return []
    lent = Lent(workload, guests_of(workload, schedule), reference, curves)
    claims = _Claims(workload, reference)
    return [_told(group, workload.eval_from_s, lent, claims, reference) for group in groups]


def _told(
    group: Sequence[Late], eval_from_s: float, lent: Lent, claims: "_Claims", reference: Lived
) -> Episode:
    begin_s, end_s = group[0].due_s, max(late.start_s for late in group)
    short_gpus, short_s = _shortage(group, reference)
    window_s = short_s - begin_s + WINDOW_S
    evidence = Evidence(
        short_gpus=short_gpus,
        short_s=short_s,
        early_gpus=lent.early_gpus(begin_s),
        expected_early_gpus=lent.expected_early_gpus(begin_s),
        asked_gpus=claims.within(window_s, short_s),
        usual_gpus=claims.usual(window_s, short_s),
        window_s=window_s,
    )
    started, sent_back = lent.traffic(begin_s, end_s)
    return Episode(
        begin_s=begin_s,
        end_s=end_s,
        jobs=len(group),
        evaluated_jobs=sum(late.job.submit_s >= eval_from_s for late in group),
        pools=dict(Counter(late.job.pool for late in group).most_common()),
        worst_min=max(late.late_s for late in group) / _MINUTE_S,
        total_min=sum(late.late_s for late in group) / _MINUTE_S,
        guests=lent.by_pool(begin_s),
        cohort=lent.largest_cohort(begin_s),
        guests_started=started,
        guests_sent_back=sent_back,
        evidence=evidence,
        cause=evidence.cause,
    )


class _Claims:
    """GPUs that jobs of a window of submits asked for and had a right to by its end, pool by pool."""

    def __init__(self, workload: Workload, reference: Lived) -> None:
        self._begin_s = workload.train_until_s
        self._quota = np.array(list(workload.cluster.quotas().values()), dtype=float)
        rank = {pool: k for k, pool in enumerate(workload.cluster.quotas())}
        self._submit_s = np.array([job.submit_s for job in workload.jobs])
        self._due_s = np.array([reference.start_s[job.job_id] for job in workload.jobs])
        self._width = np.array([job.num_gpus for job in workload.jobs], dtype=float)
        self._pool = np.array([rank[job.pool] for job in workload.jobs])

    def within(self, window_s: float, until_s: float) -> int:
        """Of jobs submitted in (until - window, until] and due by its end; at most the quota of each pool."""
        first, beyond = np.searchsorted(self._submit_s, (until_s - window_s, until_s), side="right")
        is_due = self._due_s[first:beyond] <= until_s
        weights = self._width[first:beyond] * is_due
        asked = np.bincount(self._pool[first:beyond], weights=weights, minlength=self._quota.size)
        return int(np.minimum(asked, self._quota).sum())

    def usual(self, window_s: float, before_s: float) -> float:
        """The `USUAL_LEVEL` quantile over the windows of the replay before; 0 where there are none."""
        number = int((before_s - self._begin_s) / window_s) - 1
        past = [self.within(window_s, before_s - k * window_s) for k in range(1, number + 1)]
        return float(np.quantile(past, USUAL_LEVEL)) if past else 0.0


def _shortage(group: Sequence[Late], reference: Lived) -> tuple[int, float]:
    """Most widths that were due and waited at once, and when first; waiting counts as long as it is due."""
    changes = []
    for late in group:
        until_s = min(late.start_s, reference.end_s[late.job.job_id])
        changes += [(late.due_s, 1, late.job.num_gpus), (max(until_s, late.due_s), 0, -late.job.num_gpus)]
    most, most_s, missing = 0, group[0].due_s, 0
    for at_s, _, change in sorted(changes):
        missing += change
        if missing > most:
            most, most_s = missing, at_s
    return most, most_s
