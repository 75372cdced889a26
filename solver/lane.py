"""The own lane of every pool, guests beyond it, and their conversion (design: the promise).

A pool's own lane is the longest prefix of its unfinished jobs, in order, whose widths together fit the
quota. Jobs in the lane are the pool's own: those not running yet are *due* and start at once. A job that
runs beyond its lane is a guest on lent GPUs; when the lane reaches it, it becomes own without moving.

The lanes are told facts (a job was submitted, started, ended, ...), never intentions: a decision that the
scheduler ignored leaves the job due, and it is offered again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from domain.jobs import Job, submit_order
from solver.line import Line


class Lanes:
    """The lanes of all pools.

    Args:
        quotas: GPUs of each pool.
        own: jobs about to be told of that run as their pool's own already; they are inside their lane
            wherever they stand in line and whatever the quota is by now.

    Attributes:
        due: own jobs that do not run yet.
        guests: jobs that run beyond their lane, in the order in which they started.
        without_promise: jobs whose pool's quota was cut below their width.
    """

    def __init__(self, quotas: Mapping[str, int], own: Collection[str] = ()) -> None:
        self._own_before = set(own)
        self._lines = {pool: Line(pool, quota) for pool, quota in quotas.items()}
        self._changed: dict[str, Line] = {}
        self.due: dict[str, Job] = {}
        self.guests: dict[str, Job] = {}
        self.without_promise: dict[str, Job] = {}

    def line(self, pool: str) -> Line:
        """The line of one pool; to be read, not changed."""
        return self._lines[pool]

    def own_gpus(self) -> int:
        """Width of all own jobs, running or due; never more than the quotas add up to, unless one was cut."""
        return sum(line.used_gpus for line in self._lines.values())

    def submitted(self, job: Job) -> None:
        """A job has become eligible. Held and dependent jobs are submitted when they become eligible.

        Raises:
            ValueError: if it is wider than its own pool's quota: refused at submit.
        """
        line = self._lines[job.pool]
        if job.job_id in self._own_before:
            line.admit(job)
        else:
            line.append(job)
        self._changed[job.pool] = line

    def started(self, job: Job) -> None:
        """A job runs: as own if it was due, otherwise as a guest."""
        if job.job_id in self._own_before:
            self._own_before.discard(job.job_id)
        elif self.due.pop(job.job_id, None) is None:
            self.guests[job.job_id] = job

    def ended(self, job: Job) -> None:
        """A job has ended by itself, by its limit or by its user, or was cancelled while it waited."""
        line = self._lines[job.pool]
        line.remove(job.job_id)
        self._changed[job.pool] = line
        self.guests.pop(job.job_id, None)
        self.due.pop(job.job_id, None)
        self.without_promise.pop(job.job_id, None)

    def sent_back(self, job: Job) -> None:
        """A job was stopped: it waits again, at the place it never left.

        We stop guests only. An own job that was stopped all the same (by its scheduler, or while we were
        about to make it own) is inside its lane still, so it is due again.
        """
        if self.guests.pop(job.job_id, None) is None:
            self.due[job.job_id] = self._lines[job.pool].inside[job.job_id]

    def requeued(self, old: Job, new: Job) -> None:
        """The user or the operator requeued a job: the old one leaves, a new one stands at the tail."""
        self.ended(old)
        self.submitted(new)

    def node_lost(self, restarted: Sequence[tuple[Job, Job]], guests: Iterable[Job]) -> None:
        """A node is gone with the jobs on it.

        Args:
            restarted: (old, new) of each own job on it: a new job at the head of its pool.
            guests: guests on it; they return to their place.
        """
        for guest in guests:
            self.sent_back(guest)
        by_pool: dict[str, list[Job]] = {}
        for old, new in sorted(restarted, key=lambda pair: submit_order(pair[0])):
            self.ended(old)
            by_pool.setdefault(new.pool, []).append(new)
        for pool, jobs in by_pool.items():
            self._lines[pool].push_front(jobs)

    def set_quota(self, pool: str, quota_gpus: int) -> list[Job]:
        """Change a pool's quota: a rise counts at once, a cut drains.

        The caller checks that the quotas still add up to no more than the cluster has
        (`domain.cluster.check_quotas`).

        Returns:
            Jobs that have no promise any more because they are wider than the new quota.
        """
        line = self._lines[pool]
        too_wide = line.set_quota(quota_gpus)
        self.without_promise.update((job.job_id, job) for job in too_wide)
        self._changed[pool] = line
        return too_wide

    def advance(self) -> list[Job]:
        """Let the lanes grow. Newly reached jobs are `due`, or, where they run already, converted.

        Returns:
            The guests that have become own.
        """
        converted: list[Job] = []
        for line in self._changed.values():
            for job in line.advance():
                if self.guests.pop(job.job_id, None) is None:
                    self.due[job.job_id] = job
                else:
                    converted.append(job)
        self._changed.clear()
        return converted

    def due_in_order(self) -> list[Job]:
        """Own jobs that do not run yet, by (submit, id)."""
        if len(self.due) < 2:
            return list(self.due.values())
        return sorted(self.due.values(), key=submit_order)
