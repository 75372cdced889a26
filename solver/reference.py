"""One pool under first come, first served, as far as it can be known: the machine inside `solver.shadow`."""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from domain.jobs import Job
from domain.work import WorkDone
from solver.line import Line


class FactKind(Enum):
    """What happens in the reference at the instant it happens in reality."""

    SUBMIT = auto()
    CANCEL = auto()
    RESTART = auto()
    QUOTA = auto()


class Fact(NamedTuple):
    """One such happening. `old_ids` leave, `jobs` come (RESTART: at the head), the quota may change."""

    at_s: float
    kind: FactKind
    jobs: tuple[Job, ...] = ()
    old_ids: tuple[str, ...] = ()
    quota_gpus: int = 0


class Progress(WorkDone):
    """How far a job really is, against a reference."""

    __slots__ = ()

    def slack_s(self, reference_start_s: float, now_s: float) -> float:
        """How far reality is ahead at `now_s` of a reference that has run the job since its start.

        Written so that at rate 1 `now_s` cancels exactly: a job that starts with its reference has slack 0.
        """
        ahead_s = (reference_start_s - self.since_s) + self.work_s
        return ahead_s if self.rate == 1.0 else ahead_s - (1.0 - self.rate) * (now_s - self.since_s)

    def falls_behind_s(self, reference_start_s: float) -> float:
        """Instant, at the earliest the reference start, at which the slack is used up; infinite if never."""
        ahead_s = (reference_start_s - self.since_s) + self.work_s
        if self.rate >= 1.0:
            return math.inf if ahead_s >= 0 else reference_start_s
        return max(reference_start_s, self.since_s + ahead_s / (1.0 - self.rate))


NOT_RUNNING = Progress()


@dataclass(slots=True)
class Reality:
    """What is known of the jobs, shared by all references.

    Attributes:
        work_s: work of each job that has really ended.
        progress: of jobs that really run.
        left: instants at which jobs left that never told their work (cancelled while waiting, restarted).
    """

    work_s: dict[str, float] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)

    def progress_of(self, job_id: str) -> Progress:
        """Progress, or that it does not run."""
        return self.progress.get(job_id, NOT_RUNNING)


class Reference:
    """One pool under first come, first served inside its quota.

    Args:
        pool, quota_gpus: of the pool.
        reality: what is known of the jobs; read only.
        is_early: a job that falls behind is taken to end right there; otherwise it is waited for.

    Attributes:
        starts, ends: instants in the reference so far, by job.
    """

    __slots__ = (
        "_end_heap",
        "_facts",
        "_is_early",
        "_reality",
        "_running",
        "_suspects",
        "ends",
        "line",
        "starts",
    )

    def __init__(self, pool: str, quota_gpus: int, reality: Reality, *, is_early: bool) -> None:
        self.line = Line(pool, quota_gpus)
        self.starts: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self._facts: deque[Fact] = deque()
        self._reality = reality
        self._is_early = is_early
        self._running: dict[str, float] = {}
        self._suspects: set[str] = set()
        self._end_heap: list[tuple[float, bool, str]] = []

    def tell(self, fact: Fact) -> None:
        """Note a fact; facts come in the order of their instants."""
        self._facts.append(fact)

    def learn(self, job_id: str) -> None:
        """Something about the job has changed in `reality`: its work, its rate, or that it left."""
        start_s = self._running.get(job_id)
        if start_s is not None:
            self._foresee_end(job_id, start_s)

    def advance(self, now_s: float, *, is_inclusive: bool = True) -> None:
        """Go on to `now_s`; with `is_inclusive` what happens at `now_s` itself happens too.

        What is only supposed to end at `now_s` does not end yet: it may still really start at that instant.
        """
        while True:
            at_s = self._next_instant(now_s)
            if at_s == math.inf or at_s > now_s or (at_s == now_s and not is_inclusive):
                return
            if self._suspects and at_s > self._limit_s(now_s):
                return
            self._step(at_s)

    def settled_s(self, now_s: float) -> float:
        """What has happened here up to this instant is known, when advanced to `now_s`."""
        return self._limit_s(now_s) if self._suspects else now_s

    def forecast_starts(
        self, now_s: float, least_work_s: Callable[[Job], float]
    ) -> Iterator[tuple[Job | None, float]]:
        """When the jobs that wait here now would start, one after another, if nobody came.

        Args:
            now_s: the instant this reference has been advanced to.
            least_work_s: work that a job has at least, where the truth is not known yet.

        Yields:
            Each waiting job with its start, in order; at last None with the first instant at which a job of
            one GPU that came now could start. O(log n) each.
        """
        ends = [
            (max(now_s, self.starts[job_id] + self._work_s(job, now_s, least_work_s)), job.num_gpus)
            for job_id, job in self.line.inside.items()
        ]
        heapq.heapify(ends)
        free = self.line.quota_gpus - self.line.used_gpus
        at_s = now_s
        waiting: Iterable[Job | None] = itertools.chain(self.line.waiting.values(), (None,))
        for job in waiting:
            width = 1 if job is None else job.num_gpus
            while free < width:
                if not ends:
                    return
                end_s, freed = heapq.heappop(ends)
                at_s, free = max(at_s, end_s), free + freed
            yield job, at_s
            if job is not None:
                free -= width
                heapq.heappush(ends, (at_s + self._work_s(job, now_s, least_work_s), width))

    def _work_s(self, job: Job, now_s: float, least_work_s: Callable[[Job], float]) -> float:
        known = self._reality.work_s.get(job.job_id)
        if known is not None:
            return known
        return max(self._reality.progress_of(job.job_id).work_at(now_s), least_work_s(job))

    def _next_instant(self, now_s: float) -> float:
        heap = self._end_heap
        while heap and (self.ends.get(heap[0][2]) != heap[0][0] or heap[0][2] not in self._running):
            heapq.heappop(heap)
        end_s = heap[0][0] if heap else math.inf
        if heap and end_s == now_s and heap[0][1]:
            end_s = math.inf
        return min(end_s, self._facts[0].at_s if self._facts else math.inf)

    def _limit_s(self, now_s: float) -> float:
        """How far the exact reference may go: no further than a job of unknown work may have ended."""
        slacks = (
            self._reality.progress_of(job_id).slack_s(self._running[job_id], now_s)
            for job_id in self._suspects
        )
        return now_s + min(0.0, min(slacks, default=0.0))

    def _step(self, at_s: float) -> None:
        heap = self._end_heap
        while heap and heap[0][0] == at_s:
            _, _, job_id = heapq.heappop(heap)
            if job_id in self._running and self.ends.get(job_id) == at_s:
                self._leave(job_id, at_s)
        while self._facts and self._facts[0].at_s == at_s:
            self._apply(self._facts.popleft())
        for job in self.line.advance():
            self.starts[job.job_id] = at_s
            self._running[job.job_id] = at_s
            self._foresee_end(job.job_id, at_s)

    def _apply(self, fact: Fact) -> None:
        for job_id in fact.old_ids:
            if job_id not in self._running:
                self.line.remove(job_id)
            elif fact.kind is FactKind.RESTART or job_id not in self._reality.work_s:
                self._leave(job_id, fact.at_s)
        if fact.kind is FactKind.RESTART:
            self.line.push_front(fact.jobs)
        elif fact.kind is FactKind.SUBMIT:
            for job in fact.jobs:
                self.line.append(job)
        elif fact.kind is FactKind.QUOTA:
            self.line.set_quota(fact.quota_gpus)

    def _leave(self, job_id: str, at_s: float) -> None:
        self.line.remove(job_id)
        self.ends[job_id] = at_s
        del self._running[job_id]
        self._suspects.discard(job_id)

    def _foresee_end(self, job_id: str, start_s: float) -> None:
        """Put the job's end in the agenda: the known one, or the one the early reference supposes."""
        work_s = self._reality.work_s.get(job_id)
        self._suspects.discard(job_id)
        if work_s is not None:
            end_s, is_supposed = start_s + work_s, False
        elif job_id in self._reality.left:
            return
        else:
            end_s, is_supposed = self._reality.progress_of(job_id).falls_behind_s(start_s), True
            if not self._is_early:
                if end_s < math.inf:
                    self._suspects.add(job_id)
                return
        self.ends[job_id] = end_s
        if end_s < math.inf:
            heapq.heappush(self._end_heap, (end_s, is_supposed, job_id))


def fcfs_starts(
    jobs: Iterable[Job], durations_s: Mapping[str, float], quotas: Mapping[str, int]
) -> dict[str, float]:
    """Start of each job in the world without sharing, when all is known.

    Args:
        jobs: in the order (submit, id).
        durations_s: of each job, when alone on its own GPUs.
        quotas: GPUs of each pool.

    Raises:
        ValueError: if a job is wider than its pool's quota.
    """
    reality = Reality(work_s=dict(durations_s))
    references = {pool: Reference(pool, quota, reality, is_early=False) for pool, quota in quotas.items()}
    for job in jobs:
        references[job.pool].tell(Fact(job.submit_s, FactKind.SUBMIT, (job,)))
    starts: dict[str, float] = {}
    for reference in references.values():
        reference.advance(math.inf)
        starts.update(reference.starts)
    return starts
