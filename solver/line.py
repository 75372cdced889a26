"""One pool's line: unfinished jobs in order, of which the longest prefix that fits the quota has entered.

First come, first served without backfilling and the own lane are the same mechanism; they differ only in
when a job leaves. The reference (`solver.shadow`) removes a job when it ends in the world without sharing,
the lane (`solver.lane`) when it really ends. From that follows the first theorem of the promise: real
ends come no later than reference ends, so a job enters the lane no later than it starts in the reference.
"""

from collections import OrderedDict
from collections.abc import Iterable

from domain.jobs import Job


class Line:
    """A pool's jobs in order, and how far into them the quota reaches. Every call is O(1) a job.

    Args:
        pool: name, for messages.
        quota_gpus: width that the jobs inside may add up to.
    """

    __slots__ = ("inside", "pool", "quota_gpus", "used_gpus", "waiting")

    def __init__(self, pool: str, quota_gpus: int) -> None:
        self.pool = pool
        self.quota_gpus = quota_gpus
        self.used_gpus = 0
        self.inside: dict[str, Job] = {}
        self.waiting: OrderedDict[str, Job] = OrderedDict()

    def append(self, job: Job) -> None:
        """Put a job at the tail.

        Raises:
            ValueError: if it is wider than the quota: it would block the line for ever.
        """
        self._require_fit(job)
        self.waiting[job.job_id] = job

    def admit(self, job: Job) -> None:
        """Let a job in whatever the quota: it was inside before the quota was cut."""
        self.inside[job.job_id] = job
        self.used_gpus += job.num_gpus

    def push_front(self, jobs: Iterable[Job]) -> None:
        """Put jobs at the head of those that wait, keeping their order (their node was lost).

        Raises:
            ValueError: if one is wider than the quota.
        """
        for job in reversed(list(jobs)):
            self._require_fit(job)
            self.waiting[job.job_id] = job
            self.waiting.move_to_end(job.job_id, last=False)

    def remove(self, job_id: str) -> None:
        """Take a job out, wherever it is: it ended, was cancelled, or has lost its promise."""
        job = self.inside.pop(job_id, None)
        if job is None:
            self.waiting.pop(job_id, None)
        else:
            self.used_gpus -= job.num_gpus

    def set_quota(self, quota_gpus: int) -> list[Job]:
        """Change the quota. A rise counts at once; after a cut nothing is stopped, the line drains.

        Returns:
            Waiting jobs that are now wider than the quota. They have left the line, so that they never
            block it, and have no promise any more.
        """
        self.quota_gpus = quota_gpus
        too_wide = [job for job in self.waiting.values() if job.num_gpus > quota_gpus]
        for job in too_wide:
            del self.waiting[job.job_id]
        return too_wide

    def advance(self) -> list[Job]:
        """Let jobs enter while the next one fits; returns those that entered, in order."""
        entered: list[Job] = []
        waiting = self.waiting
        while waiting:
            job = next(iter(waiting.values()))
            if self.used_gpus + job.num_gpus > self.quota_gpus:
                break
            waiting.popitem(last=False)
            self.inside[job.job_id] = job
            self.used_gpus += job.num_gpus
            entered.append(job)
        return entered

    def _require_fit(self, job: Job) -> None:
        if job.num_gpus > self.quota_gpus:
            raise ValueError(
                f"job {job.job_id} asks for {job.num_gpus} GPUs, the quota of pool {self.pool} "
                f"is {self.quota_gpus}"
            )
