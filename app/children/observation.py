"""The child that looks back at a day: what the policy would have made of it, what happened, what walls would.

The jobs that were there are replayed with the lengths that they really had. The replay begins early enough
that those which were unfinished when the day began are in it, though no earlier than `_LONGEST_WARM_UP_S`.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import pandas as pd
from sqlalchemy import Engine

from app.children import main, tell_progress
from app.children.fitting import without_impossible
from app.children.what_if import table_row
from app.store import history, live
from app.store.engine import make_engine, reading
from app.store.tables import JobRow, LiveState
from data.history import History, content_hash, in_order
from data.schema import COLUMNS
from domain.jobs import Job
from domain.measures import SLOWED_AFTER_S, is_slowed
from domain.usage import use_integrals
from simulator.replay import Replay, replay
from simulator.report import Lived, evaluated_jobs, finite, reference_of
from simulator.workload import Workload, make_workload
from solver.policies import POLICIES

MOST_LISTED: Final = 200
"""Slowed jobs that a report names, the most slowed first; the others are counted."""

_LONGEST_WARM_UP_S: Final = 7 * 86_400.0
_HOUR_S: Final = 3600.0
_RECORD_DECIDES: Final = "0.5"


@dataclass(frozen=True)
class Day:
    """A day as it was.

    Attributes:
        frame: jobs whose lengths are known, as the table of `data.schema`; imported ones among them.
        real: live jobs of the day that have started, by id.
        running: ids of those that still run: their length is what they have run so far.
        unknown: live jobs of the day that have not started, so that nobody knows how long they run.
        warm_from_s: where the replay begins.
    """

    frame: pd.DataFrame
    real: Mapping[str, JobRow]
    running: frozenset[str]
    unknown: int
    warm_from_s: float


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Look back at a day.

    Args:
        request: what `app.services.observations.load` returned.

    Returns:
        The fields of `app.schemas.modes.ObservationOut.report`.
    """
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        day = read_day(engine, request)
    finally:
        engine.dispose()
    return look_back(day, request)


def look_back(day: Day, request: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a day that has been read."""
    from_s, quotas = request["from_s"], {str(pool): int(quota) for pool, quota in request["quotas"]}
    kept, excluded = without_impossible(day.frame, day.warm_from_s, [quotas])
    said: dict[str, Any] = {
        "jobs": int((kept["submit_s"] >= from_s).sum()),
        "left_out": {
            "wider_than_quota": excluded["jobs"],
            "not_started": day.unknown,
        },
        "still_running": len(day.running),
        "inputs": {"jobs_sha256": content_hash(kept), "question_sha256": request["question_sha256"]},
    }
    if not said["jobs"]:
        return {**said, **_nothing()}
    workload = make_workload(
        History(kept, (), (), "history"), quotas, train_until_s=day.warm_from_s, eval_from_s=from_s
    )
    done = replay(
        workload,
        request["policy"],
        _settings(request),
        seed=request["seed"],
        progress=tell_progress,
    )
    return {**said, **_compare(day, workload, done, (from_s, request["to_s"]))}


def read_day(engine: Engine, request: Mapping[str, Any]) -> Day:
    """The jobs of a day, and those that were unfinished when it began."""
    from_s, to_s, now_s = request["from_s"], request["to_s"], request["now_s"]
    with reading(engine) as session:
        rows: list[Sequence[Any]] = list(history.rows(session, request["cluster"]))
        jobs = [job for job in live.all_jobs(session, request["cluster"]) if job.submit_s < to_s]
    known = {row[0] for row in rows}
    started = [job for job in jobs if job.started_s is not None and job.job_id not in known]
    running = frozenset(job.job_id for job in started if job.state == LiveState.RUNNING)
    for job in started:
        if job.job_id in running:
            job.ended_s = now_s  # the row is no longer the database's: this is a copy
    open_then = [job.submit_s for job in started if job.submit_s < from_s < (job.ended_s or now_s)]
    rows += [table_row(job) for job in started]
    raw = pd.DataFrame(rows, columns=[column.name for column in COLUMNS])
    frame = in_order(raw.astype({column.name: column.kind.dtype for column in COLUMNS}))
    frame = in_order(frame[frame["submit_s"] < to_s])
    pools = list(request["requeueable_pools"])
    frame.loc[frame["requeue_u"].isna() & frame["pool"].isin(pools), "requeue_u"] = 0.0
    return Day(
        frame=frame,
        real={job.job_id: job for job in started if job.submit_s >= from_s},
        running=frozenset(job.job_id for job in started if job.submit_s >= from_s) & running,
        unknown=sum(job.started_s is None and job.submit_s >= from_s for job in jobs),
        warm_from_s=max(min([*open_then, from_s]), from_s - _LONGEST_WARM_UP_S),
    )


def _settings(request: Mapping[str, Any]) -> dict[str, str]:
    """As in live clusters: a job is requeueable if its record or its pool says so."""
    settings = dict(request["settings"])
    if any(one.name == "requeueable" for one in fields(POLICIES[request["policy"]].settings)):
        settings = {"requeueable": _RECORD_DECIDES, **settings}
    return settings


def _compare(day: Day, workload: Workload, done: Replay, window: tuple[float, float]) -> dict[str, Any]:
    jobs = evaluated_jobs(workload)
    would, walls = Lived.of(done.schedule), reference_of(workload)
    quotas = workload.cluster.quotas()
    use = use_integrals(
        workload.jobs, done.schedule.stretches, quotas, window, workload.cluster.capacity_gpus
    )
    slowed = sorted(
        (_slowed(job, day, would, walls) for job in jobs if is_slowed(_late_s(job, would, walls))),
        key=lambda one: (-one["later_s"], one["job_id"]),
    )
    plain: dict[str, Any] = finite(
        {
            "would_have": {
                **_waits(jobs, would),
                "lent_gpu_hours": use.lent_gpu_hours,
                "repeated_gpu_hours": use.lost_gpu_hours,
                "held_idle_gpu_hours": use.held_idle_gpu_hours,
            },
            "walls": _waits(jobs, walls),
            "happened": _happened(jobs, day),
            "earlier_than_walls": _earlier(jobs, would, walls.start_s),
            "earlier_than_happened": _earlier(jobs, would, _real_starts(day)),
            "slowed": len(slowed),
            "slowed_most_s": slowed[0]["later_s"] if slowed else 0.0,
            "slowed_jobs": slowed[:MOST_LISTED],
            "slowed_after_s": SLOWED_AFTER_S,
            "pools": [_pool(pool, jobs, would, walls) for pool in quotas],
        }
    )
    return plain


def _nothing() -> dict[str, Any]:
    """The report of a day on which nobody submitted anything that started."""
    none = {"mean_queue_delay_s": None, "mean_jct_s": None}
    return {
        "would_have": {
            **none,
            "lent_gpu_hours": 0.0,
            "repeated_gpu_hours": 0.0,
            "held_idle_gpu_hours": 0.0,
        },
        "walls": none,
        "happened": {**none, "jobs": 0},
        "earlier_than_walls": {"jobs": 0, "hours": 0.0},
        "earlier_than_happened": {"jobs": 0, "hours": 0.0},
        "slowed": 0,
        "slowed_most_s": 0.0,
        "slowed_jobs": [],
        "slowed_after_s": SLOWED_AFTER_S,
        "pools": [],
    }


def _late_s(job: Job, would: Lived, walls: Lived) -> float:
    return would.end_s[job.job_id] - walls.end_s[job.job_id]


def _slowed(job: Job, day: Day, would: Lived, walls: Lived) -> dict[str, Any]:
    real = day.real.get(job.job_id)
    has_ended = real is not None and job.job_id not in day.running
    return {
        "job_id": job.job_id,
        "pool": job.pool,
        "num_gpus": job.num_gpus,
        "later_s": _late_s(job, would, walls),
        "later_than_happened_s": would.end_s[job.job_id] - real.ended_s
        if has_ended and real is not None and real.ended_s is not None
        else None,
    }


def _waits(jobs: Sequence[Job], lived: Lived) -> dict[str, Any]:
    return {
        "mean_queue_delay_s": _mean(lived.start_s[job.job_id] - job.submit_s for job in jobs),
        "mean_jct_s": _mean(lived.end_s[job.job_id] - job.submit_s for job in jobs),
    }


def _happened(jobs: Sequence[Job], day: Day) -> dict[str, Any]:
    """Of the jobs that were live; imported ones have no beginning here. Those that run count as they are."""
    real = [(job, day.real[job.job_id]) for job in jobs if job.job_id in day.real]
    return {
        "jobs": len(real),
        "mean_queue_delay_s": _mean((row.started_s or 0.0) - job.submit_s for job, row in real),
        "mean_jct_s": _mean((row.ended_s or 0.0) - job.submit_s for job, row in real),
    }


def _real_starts(day: Day) -> dict[str, float]:
    return {job_id: row.started_s for job_id, row in day.real.items() if row.started_s is not None}


def _earlier(jobs: Sequence[Job], would: Lived, starts_s: Mapping[str, float]) -> dict[str, Any]:
    gains_s = [starts_s[job.job_id] - would.start_s[job.job_id] for job in jobs if job.job_id in starts_s]
    early = [gain_s for gain_s in gains_s if gain_s > 0.0]
    return {"jobs": len(early), "hours": math.fsum(early) / _HOUR_S}


def _pool(pool: str, jobs: Sequence[Job], would: Lived, walls: Lived) -> dict[str, Any]:
    mine = [job for job in jobs if job.pool == pool]
    return {
        "pool": pool,
        "jobs": len(mine),
        "earlier": _earlier(mine, would, walls.start_s),
        "slowed": sum(is_slowed(_late_s(job, would, walls)) for job in mine),
    }


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


if __name__ == "__main__":
    main(answer)
