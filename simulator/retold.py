"""What a forecaster of lives said of jobs at their submit, found again by telling it a schedule anew."""

from collections.abc import Collection, Sequence
from itertools import count

from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from domain.observers import Observer
from domain.schedules import Schedule
from simulator.workload import Workload

_ENDED, _SUBMITTED, _SENT_BACK, _STARTED, _ENDED_AT_ONCE = range(5)
"""The order of what happens at one instant, as in `simulator.engine`."""

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
    for now_s, kind, _, job in _facts(workload, schedule):
        for observer in observers:
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


def _facts(workload: Workload, schedule: Schedule) -> list[tuple[float, int, int, Job]]:
    """Facts in the order in which they were told; ties as the schedule and the workload have them.

    Who stops and runs again later was sent back or suspended, which is told alike.
    """
    serial = count()
    facts = [(job.submit_s, _SUBMITTED, next(serial), job) for job in workload.jobs]
    by_id = {job.job_id: job for job in workload.jobs}
    last = {stretch.job_id: stretch for stretch in schedule.stretches}
    for stretch in schedule.stretches:
        job = by_id[stretch.job_id]
        facts.append((stretch.start_s, _STARTED, next(serial), job))
        kind = _ENDED if stretch.start_s < stretch.end_s else _ENDED_AT_ONCE
        is_over = not stretch.was_sent_back and stretch is last[stretch.job_id]
        facts.append((stretch.end_s, kind if is_over else _SENT_BACK, next(serial), job))
    facts.sort(key=lambda fact: fact[:3])
    return facts
