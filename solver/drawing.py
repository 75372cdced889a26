"""From the books of a lender to the situation that fresh draws start from (`solver.lending.verify`)."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from domain.jobs import Job
from solver.lending.curves import FloatArray
from solver.lending.verify import Lives, Situation
from solver.lives import Entry, RunningLives
from solver.lookahead import Ahead

_MOST_KIN: Final = 0.999
"""A correlation of 1 would leave nothing to draw for the single job."""


def situation_of(
    ahead: Ahead,
    running: RunningLives,
    waiting: tuple[Lives, Lives],
    fresh: tuple[FloatArray, FloatArray],
    capacity_gpus: int,
) -> Situation:
    """The same instant as `ahead`, job by job.

    Args:
        ahead: for quotas, stakes and kinship.
        running: groups numbered guests, own, requeueable, each pool by pool.
        waiting: jobs that are due, which count as own, and jobs that wait.
        fresh: (scenarios, pools, cells) peaks and arrivals that `ahead` was not made from.
        capacity_gpus: of the cluster.
    """
    pools = ahead.quota_gpus.size
    guests, own, requeueable = (_group(running, kind, pools) for kind in range(3))
    due, waits = waiting
    return Situation(
        own=_joined(own, due),
        guests=guests,
        requeueable=requeueable,
        waiting=waits,
        kinship=min(ahead.fates.kinship, _MOST_KIN),
        peaks=fresh[0],
        arrivals=fresh[1],
        quota_gpus=ahead.quota_gpus,
        capacity_gpus=float(capacity_gpus),
        backlog_urgency=ahead.stakes.backlog_urgency,
        arrivals_urgency=ahead.stakes.arrivals_urgency,
        weight=ahead.stakes.weight[:, None],
        riding=ahead.riding,
    )


def waiting_lives(
    jobs: Sequence[Job],
    entries: Mapping[str, Entry],
    alive: Mapping[str, FloatArray],
    rank: Mapping[str, int],
) -> Lives:
    """Jobs that do not run yet, alive as if they started now."""
    cells = len(next(iter(alive.values()))) if alive else 0
    return Lives(
        pool=np.array([rank[job.pool] for job in jobs], dtype=np.int64),
        width_gpus=np.array([job.num_gpus for job in jobs], dtype=float),
        alive=np.array([alive[job.job_id] for job in jobs]).reshape(len(jobs), cells),
        cohort=np.array([entries[job.job_id].cohort for job in jobs], dtype=np.int64),
    )


def _group(running: RunningLives, kind: int, pools: int) -> Lives:
    mine = np.flatnonzero(running.group // pools == kind)
    return Lives(
        pool=(running.group[mine] % pools).astype(np.int64),
        width_gpus=running.width[mine],
        alive=running.share[mine],
        cohort=running.cohort[mine].astype(np.int64),
    )


def _joined(one: Lives, other: Lives) -> Lives:
    return Lives(
        pool=np.concatenate([one.pool, other.pool]),
        width_gpus=np.concatenate([one.width_gpus, other.width_gpus]),
        alive=np.concatenate([one.alive, other.alive]) if other.pool.size else one.alive,
        cohort=np.concatenate([one.cohort, other.cohort]),
    )
