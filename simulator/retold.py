"""What a forecaster of lives said of jobs at their submit, found again by telling it a schedule anew."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from domain.observers import Observer
from domain.schedules import Schedule, Stretch, as_attempts
from simulator.workload import Workload

_ENDED, _SUBMITTED, _SENT_BACK, _STARTED, _RATE_CHANGED, _ENDED_AT_ONCE = range(6)
"""The order of what happens at one instant, as in `simulator.engine`."""

Fact = tuple[float, int, int, Job, float]
"""Instant, kind, number among all facts, whose it is, and the rate at which it goes on."""

Curves = dict[str, Sequence[float]]
"""By job id: P(life > edge) for each edge of `domain.forecasts.LIFE_EDGES_S`."""


def curves_at_submit(
    workload: Workload,
    schedule: Schedule,
    lives: LifetimeForecaster,
    observers: Sequence[Observer],
    wanted: Collection[str],
) -> Curves:
    """Forecast survival of jobs as of their submit, as the policy of the schedule was given it.

    Args:
        workload: that was replayed.
        schedule: what happened.
        lives: the forecaster, trained on what had happened before and told nothing since.
        observers: to be told all facts in the order of their instants; the forecaster among them if it
            learns on the way.
        wanted: ids of the jobs to ask about.
    """
    curves: Curves = {}
    for now_s, kind, _, job, rate in _facts(workload, schedule):
        for observer in observers:
            if kind == _RATE_CHANGED:
                observer.rate_changed(job, now_s, rate)
            else:
                _tell(observer, kind, job, now_s, workload.outcomes[job.job_id].duration_s)
        if kind == _SUBMITTED and job.job_id in wanted:
            curves[job.job_id] = lives.survival(job)
    return curves


def _tell(observer: Observer, kind: int, job: Job, now_s: float, duration_s: float) -> None:
    if kind == _SUBMITTED:
        observer.submitted(job, now_s)
    elif kind == _STARTED:
        observer.started(job, now_s)
    elif kind == _SENT_BACK:
        observer.sent_back(job, now_s)
    else:
        observer.ended(job, now_s, duration_s)


def _facts(workload: Workload, schedule: Schedule) -> list[Fact]:
    """Facts in the order in which they were told; ties as the schedule and the workload have them.

    Who stops and runs again later was sent back or suspended, which is told alike.
    """
    serial = count()
    facts: list[Fact] = [(job.submit_s, _SUBMITTED, next(serial), job, 1.0) for job in workload.jobs]
    by_id = {job.job_id: job for job in workload.jobs}
    attempts = as_attempts(schedule.stretches)
    last = {attempt.job_id: attempt for attempt in attempts}
    for attempt in attempts:
        job = by_id[attempt.job_id]
        facts.append((attempt.start_s, _STARTED, next(serial), job, 1.0))
        kind = _ENDED if attempt.start_s < attempt.end_s else _ENDED_AT_ONCE
        is_over = not attempt.was_sent_back and attempt is last[attempt.job_id]
        facts.append((attempt.end_s, kind if is_over else _SENT_BACK, next(serial), job, 1.0))
    for stretch, rate in _new_rates(attempts, schedule):
        facts.append((stretch.start_s, _RATE_CHANGED, next(serial), by_id[stretch.job_id], rate))
    facts.sort(key=lambda fact: fact[:3])
    return facts


def _new_rates(attempts: Iterable[Stretch], schedule: Schedule) -> Iterator[tuple[Stretch, float]]:
    """Stretches at whose beginning a job went on at another rate; it starts at 1.

    Those of an attempt that was stopped at a checkpoint say what has counted of them, so nothing is told.
    """
    begins = {(attempt.job_id, attempt.start_s): attempt for attempt in attempts}
    present: dict[str, Stretch] = {}
    rates: dict[str, float] = {}
    for stretch in schedule.stretches:
        begun = begins.get((stretch.job_id, stretch.start_s))
        if begun is not None:
            present[stretch.job_id], rates[stretch.job_id] = begun, 1.0
        if present[stretch.job_id].is_stopped or stretch.start_s == stretch.end_s:
            continue
        if stretch.rate != rates[stretch.job_id]:
            rates[stretch.job_id] = stretch.rate
            yield stretch, stretch.rate
