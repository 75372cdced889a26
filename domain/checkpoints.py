"""How much work a job keeps when it is sent back: what it had saved at its last checkpoint."""

import math

from domain.jobs import Job


def saved_s(job: Job, ran_s: float) -> float:
    """Work that an attempt of so many seconds has saved by itself, seconds; 0 without checkpoints.

    floor(ran / interval) intervals, and never more than it ran.
    """
    if job.checkpoint_s is None:
        return 0.0
    return min(math.floor(ran_s / job.checkpoint_s) * job.checkpoint_s, ran_s)


class KeptWork:
    """Work kept of jobs that were sent back, and what those that run would lose. Told every fact, in order.

    The engine and the policies keep such books each for themselves: all of it follows from the facts.
    """

    __slots__ = ("_kept_s", "_since_s")

    def __init__(self) -> None:
        self._kept_s: dict[str, float] = {}
        self._since_s: dict[str, float] = {}

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, from what is kept of it."""
        self._since_s[job.job_id] = now_s

    def sent_back(self, job: Job, now_s: float) -> float:
        """A job was stopped.

        Returns:
            Work that this attempt has added to what is kept, seconds.
        """
        added_s = saved_s(job, now_s - self._since_s.pop(job.job_id))
        if added_s > 0.0:
            self._kept_s[job.job_id] = self.kept_s(job) + added_s
        return added_s

    def ended(self, job: Job) -> None:
        """A job is gone."""
        self._kept_s.pop(job.job_id, None)
        self._since_s.pop(job.job_id, None)

    def kept_s(self, job: Job) -> float:
        """Work kept of all attempts that were sent back, seconds."""
        return self._kept_s.get(job.job_id, 0.0)

    def at_risk_s(self, job: Job, now_s: float) -> float:
        """Work that a running job would lose if it were sent back now: since its last checkpoint or start."""
        ran_s = now_s - self._since_s[job.job_id]
        return ran_s - saved_s(job, ran_s)
