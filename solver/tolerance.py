"""How long a lane start may wait before anybody is slowed: by so much reality is ahead of the reference.

A job that its lane has reached may wait until its reference start without ending late. So GPUs that come
free go to the most urgent first, and GPUs missing matter only where that outlasts the tolerance.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from solver.shadow import Shadow

FloatArray = NDArray[np.float64]

_REFRESH_S: Final = 300.0
_FAR_S: Final = 172_800.0
"""Starts later than in two days are as good as never late."""


class _Seen(NamedTuple):
    """Starts of a pool's jobs that wait in the reference, and that of a job which would come now."""

    starts_s: dict[str, float]
    tail_s: float


class Tolerance:
    """Reference starts ahead, pool by pool, looked up anew every five minutes.

    They rest on the early reference, and jobs of unknown length are taken to be short. So the tolerance is
    rather less than it will turn out to be; jobs that come meanwhile only add to it.

    Args:
        shadow: the live reference.
        pools: names, in the order of the quotas.
        least_work_s: work a job has at least where it is not known: a low quantile of its forecast life.
    """

    def __init__(self, shadow: Shadow, pools: Sequence[str], least_work_s: Callable[[Job], float]) -> None:
        self._shadow = shadow
        self._pools = tuple(pools)
        self._least_work_s = least_work_s
        self._now_s = self._seen_s = -math.inf
        self._seen: dict[str, _Seen] = {}

    def refresh(self, now_s: float) -> None:
        """Bring the reference to `now_s`, and look ahead if the last look is five minutes old."""
        self._shadow.advance(now_s)
        self._now_s = now_s
        if now_s - self._seen_s >= _REFRESH_S:
            self._seen = {pool: self._look(pool, now_s) for pool in self._pools}
            self._seen_s = now_s

    def due_by_s(self, job: Job) -> float:
        """Instant by which a job has to start not to be late; past only if its reference start is."""
        started_s = self._shadow.early_start_s(job)
        if started_s is not None:
            return started_s
        seen = self._seen[job.pool]
        return max(seen.starts_s.get(job.job_id, seen.tail_s), self._now_s)

    def tail_slack_s(self, now_s: float) -> FloatArray:
        """(pools,) how long a job that came now would wait in the reference, seconds."""
        return np.array([max(0.0, self._seen[pool].tail_s - now_s) for pool in self._pools])

    def _look(self, pool: str, now_s: float) -> _Seen:
        starts: dict[str, float] = {}
        tail_s = now_s
        for job, start_s in self._shadow.forecast_starts(pool, now_s, self._least_work_s):
            tail_s = start_s
            if job is None or start_s > now_s + _FAR_S:
                break
            starts[job.job_id] = start_s
        return _Seen(starts, tail_s)
