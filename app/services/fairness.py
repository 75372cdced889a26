"""Who uses whose quota right now: over quota, borrowing, starved, and what could be returned at once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from app.clock import Clock
from app.services.clusters import require
from app.services.facts import job_of
from app.services.planning import require_cluster
from app.services.times import to_s
from app.store import live, plans
from app.store.engine import reading
from app.store.tables import JobRow, LiveState
from solver.line import Line


def fairness(engine: Engine, cluster: str, clock: Clock) -> dict[str, Any]:
    """Each pool at this instant, in the fields of `app.schemas.fairness.FairnessOut`.

    Raises:
        UnknownCluster: if there is no cluster of that name.
        Conflict: if it has no inventory yet.
    """
    with reading(engine) as session:
        row = require_cluster(require(session, cluster), cluster)
        epoch = live.epoch(session, cluster, row.epoch)
        jobs = live.unfinished(session, cluster)
        idle_gpus = live.idle_gpus(session, row)
        decision = plans.latest_decision(session, cluster)
    quotas = {} if epoch is None else {str(pool): int(quota) for pool, quota in epoch.quotas}
    held = _held([] if decision is None else decision.answer.get("holds", []), idle_gpus)
    return {
        "seq": row.seq,
        "epoch": row.epoch,
        "is_lending": row.is_lending,
        "idle_gpus": idle_gpus,
        "pools": _pools(quotas, jobs, idle_gpus, held, to_s(row, clock.now())),
    }


@dataclass(frozen=True)
class _Pool:
    """The unfinished jobs of a pool: own and guests that have GPUs, and those that wait, due or not."""

    own: Sequence[JobRow]
    guests: Sequence[JobRow]
    due: Sequence[JobRow]
    not_due: Sequence[JobRow]

    @staticmethod
    def of(pool: str, quota_gpus: int, jobs: Sequence[JobRow]) -> "_Pool":
        """Sort them by the rule of the own lane: the longest prefix of the line that fits the quota."""
        running = [job for job in jobs if job.state == LiveState.RUNNING]
        line = Line(pool, quota_gpus)
        for job in jobs:
            if job.state == LiveState.RUNNING and job.own_from_s is not None:
                line.admit(job_of(job))
            elif job.num_gpus <= quota_gpus:  # what is wider has lost its promise and blocks nobody
                line.append(job_of(job))
        line.advance()
        waiting = [job for job in jobs if job.state == LiveState.WAITING]
        return _Pool(
            own=[job for job in running if job.own_from_s is not None],
            guests=[job for job in running if job.own_from_s is None],
            due=[job for job in waiting if job.job_id in line.inside],
            not_due=[job for job in waiting if job.job_id not in line.inside],
        )


def _pools(
    quotas: Mapping[str, int],
    jobs: Sequence[JobRow],
    idle_gpus: int,
    held: Mapping[str, int],
    now_s: float,
) -> list[dict[str, Any]]:
    by_pool: dict[str, list[JobRow]] = defaultdict(list)
    for job in jobs:
        by_pool[job.pool].append(job)
    sorted_jobs = {pool: _Pool.of(pool, quota, by_pool[pool]) for pool, quota in quotas.items()}
    unused = {pool: max(quotas[pool] - _gpus(one.own), 0) for pool, one in sorted_jobs.items()}
    guests = [job for one in sorted_jobs.values() for job in one.guests]
    lent, all_unused = _gpus(guests), sum(unused.values())
    movable = _gpus([job for job in guests if job.requeue_u is not None])
    return [
        {
            "pool": pool,
            "quota_gpus": quotas[pool],
            "own_gpus": _gpus(one.own),
            "guest_gpus": _gpus(one.guests),
            "unused_quota_gpus": unused[pool],
            "lent_gpus": round(lent * unused[pool] / all_unused, 3) if all_unused else 0.0,
            "held_idle_gpus": held.get(pool, 0),
            "returnable_gpus": min(unused[pool], idle_gpus + movable),
            "due_jobs": len(one.due),
            "due_gpus": _gpus(one.due),
            "not_due_jobs": len(one.not_due),
            "not_due_gpus": _gpus(one.not_due),
            "longest_wait_of_due_s": max((now_s - job.submit_s for job in one.due), default=None),
            "is_over_quota": _gpus(one.own) > quotas[pool],
            "is_borrowing": bool(one.guests),
            "is_starved": bool(one.due),
        }
        for pool, one in sorted_jobs.items()
    ]


def _held(holds: Sequence[Mapping[str, Any]], idle_gpus: int) -> dict[str, int]:
    """GPUs that are idle and kept for each pool; holds are served from the idle ones in their order."""
    held: dict[str, int] = {}
    for hold in holds:
        kept = min(int(hold["num_gpus"]), idle_gpus)
        idle_gpus -= kept
        held[hold["pool"]] = held.get(hold["pool"], 0) + kept
    return held


def _gpus(jobs: Sequence[JobRow]) -> int:
    """GPUs that jobs have or ask for; riders have none of their own."""
    return sum(job.num_gpus for job in jobs if job.host_job_id is None)
