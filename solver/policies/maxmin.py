"""Max-min fair sharing: whoever uses least of its quota is served next, and nobody is protected."""

import heapq
import math
from collections import OrderedDict

from domain.jobs import Job
from domain.plans import NOTHING, Plan, Start
from solver.policies.base import NoSettings, PolicyContext, PolicySpec


class MaxMin:
    """Idle GPUs go, one job at a time, to the pool with the lowest use / quota.

    Order of pools: increasing GPUs in use / quota, ties in the order of the pools. Of each pool only the
    job at the head of its queue, by (submit, id), is looked at. Skipping: a head that does not fit is
    passed over together with its pool, and the next pool is tried; it may starve. Nothing is reserved
    for owners.

    Cost of a start: O(widths at the heads + log pools), by one heap of pools per head width.
    """

    def __init__(self, context: PolicyContext, _settings: NoSettings) -> None:
        self._quotas = dict(context.quotas)
        self._rank = {pool: k for k, pool in enumerate(self._quotas)}
        self._queues: dict[str, OrderedDict[str, Job]] = {pool: OrderedDict() for pool in self._quotas}
        self._used = dict.fromkeys(self._quotas, 0)
        self._running: set[str] = set()
        self._proposed: dict[str, Job] = {}
        self._heads: dict[int, list[tuple[float, int, int, str]]] = {}
        self._widths: list[int] = []
        self._version = dict.fromkeys(self._quotas, 0)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job joins its pool's queue."""
        queue = self._queues[job.pool]
        queue[job.job_id] = job
        if len(queue) == 1:
            self._refresh(job.pool)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs; its GPUs count for its pool."""
        self._running.add(job.job_id)
        if self._proposed.pop(job.job_id, None) is None:
            self._queues[job.pool].pop(job.job_id, None)
            self._use(job.pool, job.num_gpus)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        if job.job_id in self._running:
            self._running.discard(job.job_id)
            self._use(job.pool, -job.num_gpus)
        elif self._proposed.pop(job.job_id, None) is not None:
            self._use(job.pool, -job.num_gpus)
        else:
            self._queues[job.pool].pop(job.job_id, None)
            self._refresh(job.pool)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped: it is the first of its pool again."""
        self._running.discard(job.job_id)
        self._return(job)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Serve pools until no head fits."""
        for job in reversed(list(self._proposed.values())):
            self._return(job)
        self._proposed.clear()
        while idle_gpus and (pool := self._neediest(idle_gpus)) is not None:
            _, job = self._queues[pool].popitem(last=False)
            self._proposed[job.job_id] = job
            self._use(pool, job.num_gpus)
            idle_gpus -= job.num_gpus
        if not self._proposed:
            return NOTHING
        return Plan(starts=tuple(Start(job, False) for job in self._proposed.values()))

    def _return(self, job: Job) -> None:
        queue = self._queues[job.pool]
        queue[job.job_id] = job
        queue.move_to_end(job.job_id, last=False)
        self._use(job.pool, -job.num_gpus)

    def _use(self, pool: str, num_gpus: int) -> None:
        self._used[pool] += num_gpus
        self._refresh(pool)

    def _refresh(self, pool: str) -> None:
        """Enter the pool under the width of its present head; what it was entered under before is stale."""
        self._version[pool] += 1
        queue = self._queues[pool]
        if not queue:
            return
        width = next(iter(queue.values())).num_gpus
        if width not in self._heads:
            self._heads[width] = []
            self._widths = sorted(self._heads)
        quota_gpus = self._quotas[pool]
        need = self._used[pool] / quota_gpus if quota_gpus else math.inf
        heapq.heappush(self._heads[width], (need, self._rank[pool], self._version[pool], pool))

    def _neediest(self, idle_gpus: int) -> str | None:
        best: tuple[float, int, int, str] | None = None
        for width in self._widths:
            if width > idle_gpus:
                break
            heap = self._heads[width]
            while heap and heap[0][2] != self._version[heap[0][3]]:
                heapq.heappop(heap)
            if heap and (best is None or heap[0] < best):
                best = heap[0]
        return None if best is None else best[3]


SPEC = PolicySpec(build=MaxMin, settings=NoSettings)
