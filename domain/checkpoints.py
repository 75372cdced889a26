"""How much work a job keeps when it is sent back: what it had saved, less what it takes to load that again.

A job that is started again first loads what it had saved (`Job.restart_s`), and comes no further meanwhile.
That time is taken off what is kept, once, when something is saved for the first time: the next attempt then
runs for its length less what is kept, loading included. One that had saved less than it takes to load starts
from zero.
"""

import math

from domain.jobs import Job


def saved_s(job: Job, worked_s: float) -> float:
    """Work that is saved of so many seconds of it, seconds; 0 without checkpoints.

    floor(worked / interval) intervals, and never more than was worked.
    """
    if job.checkpoint_s is None:
        return 0.0
    return min(math.floor(worked_s / job.checkpoint_s) * job.checkpoint_s, worked_s)


def added_s(job: Job, ran_s: float, kept_s: float) -> float:
    """What an attempt of so many seconds adds to the work kept if it is sent back, seconds.

    Args:
        job: that runs.
        ran_s: length of the attempt.
        kept_s: kept of attempts before it; if anything, it began by loading that.
    """
    if kept_s > 0.0:
        return saved_s(job, max(0.0, ran_s - reload_s(job, kept_s)))
    return max(0.0, saved_s(job, ran_s) - (job.restart_s or 0.0))


def reload_s(job: Job, kept_s: float) -> float:
    """How long the next attempt loads what was saved, seconds; 0 where it starts from zero."""
    return (job.restart_s or 0.0) if kept_s > 0.0 else 0.0


class KeptWork:
    """Work kept of jobs that were sent back, and what those that run would lose. Told every fact, in order.

    The engine and the policies keep such books each for themselves: all of it follows from the facts.

    Checkpoints are counted in seconds of running alone, so where in its work a slower attempt saved is not
    known here: one that has run at a rate below 1 adds nothing to what is kept.
    """

    __slots__ = ("_kept_s", "_since_s", "_slower")

    def __init__(self) -> None:
        self._kept_s: dict[str, float] = {}
        self._since_s: dict[str, float] = {}
        self._slower: set[str] = set()

    def started(self, job: Job, now_s: float) -> None:
        """A job runs at rate 1, from what is kept of it."""
        self._since_s[job.job_id] = now_s
        self._slower.discard(job.job_id)

    def rate_changed(self, job: Job, rate: float) -> None:
        """A running job goes on at another rate: once below 1, all of its attempt is lost if it is sent back.

        Raises:
            ValueError: if it does not run.
        """
        if job.job_id not in self._since_s:
            raise ValueError(f"job {job.job_id} goes on at rate {rate}, but it does not run")
        if rate < 1.0:
            self._slower.add(job.job_id)

    def sent_back(self, job: Job, now_s: float) -> float:
        """A job was stopped.

        Returns:
            Work that this attempt has added to what is kept, seconds.
        """
        more_s = self._added_s(job, now_s - self._since_s.pop(job.job_id))
        self._slower.discard(job.job_id)
        if more_s > 0.0:
            self._kept_s[job.job_id] = self.kept_s(job) + more_s
        return more_s

    def ended(self, job: Job) -> None:
        """A job is gone."""
        self._kept_s.pop(job.job_id, None)
        self._since_s.pop(job.job_id, None)
        self._slower.discard(job.job_id)

    def kept_s(self, job: Job) -> float:
        """Work kept of all attempts that were sent back, seconds: the next one runs for so much less."""
        return self._kept_s.get(job.job_id, 0.0)

    def done_s(self, job: Job) -> float:
        """How far a job had come at its last checkpoint, seconds of work: what is kept, and loading it."""
        kept_s = self.kept_s(job)
        return kept_s + reload_s(job, kept_s)

    def at_risk_s(self, job: Job, now_s: float) -> float:
        """What a running job would lose if it were sent back now, seconds.

        The work since its last checkpoint or start, and the time to be back there.
        """
        ran_s = now_s - self._since_s[job.job_id]
        return ran_s - self._added_s(job, ran_s)

    def _added_s(self, job: Job, ran_s: float) -> float:
        return 0.0 if job.job_id in self._slower else added_s(job, ran_s, self.kept_s(job))
