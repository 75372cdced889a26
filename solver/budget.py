"""How many jobs lending may still slow: one budget for all risks taken."""

from collections.abc import Mapping
from typing import Final

from domain.jobs import Job
from domain.measures import is_slowed
from solver.shadow import Shadow

_CREDIT_JOBS: Final = 1000
"""Jobs granted in advance, so that lending can begin before there were any."""


class SlowdownBudget:
    """Grows with the jobs submitted, shrinks with those slowed and with what running guests may still slow.

        budget = eps x (jobs submitted + 1,000) - jobs slowed - charges of guests that run

    Decided by the early reference: a job that starts more than 60 s after its early reference start counts
    as slowed until the exact reference says otherwise, by starting it later or by getting past its start
    without it. Work that a job loses to rates below 1 counts as if it had started that much later: while it
    runs by what it has lost so far, for good when it has ended.

    Args:
        quotas: GPUs of each pool.
        eps: share of jobs that may be slowed.
    """

    def __init__(self, quotas: Mapping[str, int], eps: float) -> None:
        self._quotas = dict(quotas)
        self._shadow = Shadow(quotas)
        self._eps = eps
        self._charges: dict[str, float] = {}
        self._spent = 0.0
        self._slowed = 0
        self._suspects: dict[str, tuple[Job, float]] = {}
        self._slower: dict[str, Job] = {}
        self._known_slowed: set[str] = set()
        self._submitted = 0
        self._running: set[str] = set()

    @property
    def shadow(self) -> Shadow:
        """The live reference."""
        return self._shadow

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible."""
        if job.num_gpus <= self._quotas[job.pool]:  # else its quota was cut while it ran: it has no reference
            self._shadow.submitted(job, now_s)
        self._submitted += 1

    def started(self, job: Job, now_s: float, kept_s: float = 0.0) -> None:
        """A job runs; with work kept of attempts before it ends as if it had started that much earlier."""
        self._shadow.started(job, now_s, work_s=kept_s)
        self._running.add(job.job_id)
        self._suspect(job, now_s - kept_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate; below 1 it falls behind its reference."""
        self._shadow.rate_changed(job, now_s, rate)
        if rate < 1.0 and job.job_id not in self._known_slowed:
            self._suspects.pop(job.job_id, None)
            self._slower[job.job_id] = job

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us."""
        self._shadow.sent_back(job, now_s)
        self._running.discard(job.job_id)
        self._suspects.pop(job.job_id, None)
        self._slower.pop(job.job_id, None)
        self._known_slowed.discard(job.job_id)
        self._release(job)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled: its charge is given back, what it did shows in who was slowed."""
        if job.job_id in self._running:
            self._running.discard(job.job_id)
            self._known_slowed.discard(job.job_id)
            start_s = self._shadow.alone_since_s(job, now_s)
            self._shadow.ended(job, now_s)
            if self._slower.pop(job.job_id, None) is not None:
                self._suspect(job, start_s)
        else:
            self._shadow.cancelled(job, now_s)
        self._release(job)

    def charge(self, job: Job, jobs_slowed: float) -> None:
        """A guest starts that is expected to slow so many jobs."""
        self._charges[job.job_id] = jobs_slowed
        self._spent += jobs_slowed

    def left(self, now_s: float) -> float:
        """Jobs that may still be slowed; negative when more has been spent than there is."""
        self._shadow.advance(now_s)
        pools = {job.pool for job, _ in self._suspects.values()}
        settled_s = {pool: self._shadow.exact_settled_s(pool) for pool in pools}
        for job, start_s in list(self._suspects.values()):
            reference_s = self._shadow.exact_start_s(job)
            if reference_s is not None:
                del self._suspects[job.job_id]
                self._count(job, is_slowed(start_s - reference_s))
            elif settled_s[job.pool] >= start_s:
                del self._suspects[job.job_id]  # its reference start is still to come
        granted = self._eps * (self._submitted + _CREDIT_JOBS)
        behind = sum(self._is_behind(job, now_s) for job in self._slower.values())
        return granted - self._slowed - len(self._suspects) - behind - self._spent

    def _suspect(self, job: Job, start_s: float) -> None:
        """A job ends as if it had run alone since `start_s`: slowed if that is too late by the reference."""
        reference_s = self._shadow.early_start_s(job)
        if reference_s is not None and is_slowed(start_s - reference_s):
            self._suspects[job.job_id] = (job, start_s)

    def _count(self, job: Job, was_slowed: bool) -> None:
        if was_slowed:
            self._slowed += 1
            if job.job_id in self._running:
                self._known_slowed.add(job.job_id)

    def _is_behind(self, job: Job, now_s: float) -> bool:
        """Whether a job that runs, and has lost work to its rate, is slowed as far as is known."""
        start_s = self._shadow.alone_since_s(job, now_s)
        reference_s = self._shadow.exact_start_s(job)
        if reference_s is not None:
            return is_slowed(start_s - reference_s)
        reference_s = self._shadow.early_start_s(job)
        if reference_s is None or not is_slowed(start_s - reference_s):
            return False
        return self._shadow.exact_settled_s(job.pool) < start_s

    def _release(self, job: Job) -> None:
        self._spent -= self._charges.pop(job.job_id, 0.0)
