"""SIA: a dedicated pass first come, first served, then early starts behind forecast reservations."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Plan, Start
from solver.policies.base import PolicyContext, PolicySpec
from solver.policies.pending import PendingByWidth

WINDOWS_S: Final = (300.0, 3600.0, 43_200.0)
"""5 min, 1 h, 12 h (SIA, section 4)."""


@dataclass(frozen=True, slots=True)
class SiaSettings:
    """Settings of `sia`.

    Attributes:
        confidence: level at which a job's life has to fit a window.
    """

    confidence: float = 0.9

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence is {self.confidence}, must lie in (0, 1)")


@dataclass(slots=True)
class _PoolBooks:
    """One pool: quota, GPUs of dedicated and of all its jobs, pending jobs in order and by class."""

    name: str
    rank: int
    quota_gpus: int
    queue: OrderedDict[str, Job]
    by_class: list[PendingByWidth[tuple[float]]]
    dedicated_gpus: int = 0
    used_gpus: int = 0
    pending_gpus: int = 0


class Sia:
    """The practical scheduler of the SIA paper (SoCC 2023, section 4, figures 8 and 9).

    1. Dedicated pass: the pool with the lowest use / quota starts its next job, by (submit, id), inside its
       own quota (early starts do not count against it); a job that does not fit stops its pool's pass.
    2. Spare pass, for the windows 5 min, 1 h, 12 h in turn: every pool is held back
       min(pending load + forecast new load, quota - dedicated); what idle GPUs remain may be used. Pools by
       use / quota; of each the first pending job, by (submit, id) and narrow enough, whose life fits the
       window at `confidence`. Repeated until nothing starts.

    Ties between pools go by their order. An early start runs to its end; it never becomes dedicated.
    """

    def __init__(self, context: PolicyContext, settings: SiaSettings) -> None:
        self._lives = context.lives
        self._demand = context.demand
        self._confidence = settings.confidence
        self._pools = {
            name: _PoolBooks(name, rank, quota, OrderedDict(), [PendingByWidth() for _ in WINDOWS_S])
            for rank, (name, quota) in enumerate(context.quotas.items())
        }
        self._running: dict[str, bool] = {}
        self._early_before = {job_id for job_id, is_own in context.running.items() if not is_own}
        self._proposed: dict[str, Start] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job joins its pool's queue, under the windows its life fits."""
        self._join(job)

    def _join(self, job: Job) -> None:
        pool = self._pools[job.pool]
        pool.queue[job.job_id] = job
        pool.pending_gpus += job.num_gpus
        life_s = self._lives.quantile_s(job, self._confidence)
        for window_s, fitting in zip(WINDOWS_S, pool.by_class, strict=True):
            if life_s <= window_s:
                fitting.add(job, (job.submit_s,))

    def started(self, job: Job, now_s: float) -> None:
        """A job runs: dedicated or early as proposed, dedicated if it was not."""
        proposed = self._proposed.pop(job.job_id, None)
        is_early = job.job_id in self._early_before if proposed is None else proposed.is_guest
        self._early_before.discard(job.job_id)
        if proposed is None:
            self._take(job, is_early=is_early)
        self._running[job.job_id] = is_early

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        proposed = self._proposed.pop(job.job_id, None)
        if proposed is not None:
            self._give_back(job, is_early=proposed.is_guest)
        elif job.job_id in self._running:
            self._give_back(job, is_early=self._running.pop(job.job_id))
        else:
            self._withdraw(job)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped and waits again, at its place."""
        self._give_back(job, is_early=self._running.pop(job.job_id))
        self._return(job)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Dedicated pass, then spare pass."""
        for start in self._proposed.values():
            self._give_back(start.job, is_early=start.is_guest)
            self._return(start.job)
        self._proposed.clear()
        idle_gpus = self._dedicated_pass(idle_gpus)
        self._spare_pass(idle_gpus, now_s)
        return Plan(starts=tuple(self._proposed.values())) if self._proposed else NOTHING

    def _dedicated_pass(self, idle_gpus: int) -> int:
        """Start next jobs in order; a pool leaves the pass when its next job does not fit."""
        open_pools = [pool for pool in self._pools.values() if pool.queue]
        while open_pools and idle_gpus:
            pool = min(open_pools, key=_need)
            job = next(iter(pool.queue.values()))
            fits = pool.dedicated_gpus + job.num_gpus <= pool.quota_gpus and job.num_gpus <= idle_gpus
            if fits:
                self._propose(job, is_early=False)
                idle_gpus -= job.num_gpus
            if not fits or not pool.queue:
                open_pools.remove(pool)
        return idle_gpus

    def _spare_pass(self, idle_gpus: int, now_s: float) -> None:
        for k, window_s in enumerate(WINDOWS_S):
            if not idle_gpus or not any(pool.by_class[k] for pool in self._pools.values()):
                continue
            load = self._demand.new_load_gpus(window_s, now_s)
            while (job := self._next_early(k, idle_gpus - self._reserved_gpus(load))) is not None:
                self._propose(job, is_early=True)
                idle_gpus -= job.num_gpus

    def _reserved_gpus(self, load: Mapping[str, float]) -> float:
        return sum(
            min(pool.pending_gpus + load[pool.name], max(0, pool.quota_gpus - pool.dedicated_gpus))
            for pool in self._pools.values()
        )

    def _next_early(self, k: int, usable_gpus: float) -> Job | None:
        if usable_gpus < 1:
            return None
        for pool in sorted(self._pools.values(), key=_need):
            job = pool.by_class[k].best(int(usable_gpus))
            if job is not None:
                return job
        return None

    def _propose(self, job: Job, *, is_early: bool) -> None:
        self._take(job, is_early=is_early)
        self._proposed[job.job_id] = Start(job, is_early)

    def _take(self, job: Job, *, is_early: bool) -> None:
        self._withdraw(job)
        pool = self._pools[job.pool]
        pool.used_gpus += job.num_gpus
        pool.dedicated_gpus += 0 if is_early else job.num_gpus

    def _give_back(self, job: Job, *, is_early: bool) -> None:
        pool = self._pools[job.pool]
        pool.used_gpus -= job.num_gpus
        pool.dedicated_gpus -= 0 if is_early else job.num_gpus

    def _withdraw(self, job: Job) -> None:
        pool = self._pools[job.pool]
        if pool.queue.pop(job.job_id, None) is not None:
            pool.pending_gpus -= job.num_gpus
        for fitting in pool.by_class:
            fitting.discard(job.job_id)

    def _return(self, job: Job) -> None:
        """Put a job that had left the queue back at its place."""
        self._join(job)
        pool = self._pools[job.pool]
        pool.queue = OrderedDict((one.job_id, one) for one in sorted(pool.queue.values(), key=submit_order))


def _need(pool: _PoolBooks) -> tuple[float, int]:
    """What pools are ordered by: use / quota, ties in the order of the pools. Without a quota: last."""
    return (pool.used_gpus / pool.quota_gpus if pool.quota_gpus else math.inf, pool.rank)


SPEC = PolicySpec(
    build=Sia,
    settings=SiaSettings,
    uses_lives=True,
    uses_demand=True,
    tick_s=60.0,
    has_own_lanes=True,
    converts=False,
)
PERFECT_SPEC = replace(SPEC, is_clairvoyant=True)
