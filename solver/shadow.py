"""The live reference: first come, first served inside each pool's own quota, kept beside reality.

The promise is measured against the world without sharing, so that world has to be known while it goes on,
although how long a job runs is only learned when it really ends. Let a job really start at s, in the
reference at r, and let L be the work it lost to running at rates below 1. Its reference end, r plus its
work, is known in time while s + L <= r: reality is ahead. Once it is behind there are two references:

- the *exact* one waits: it goes no further than the first instant at which a job that is behind may have
  ended, and is filled in when that job really ends. It measures.
- the *early* one goes on: a job that falls behind is taken to end right there, which is the least it can
  still need, so starts in it are never later than in the exact one. It decides.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from domain.jobs import Job, submit_order
from solver.reference import NOT_RUNNING, Fact, FactKind, Progress, Reality, Reference


class Shadow:
    """The live reference of all pools. It is told facts, in the order of their instants.

    Args:
        quotas: GPUs of each pool.

    Raises (all methods that take `now_s`):
        ValueError: if told of an instant before one it has been told of already.
    """

    def __init__(self, quotas: Mapping[str, int]) -> None:
        self._reality = Reality()
        self._early = {p: Reference(p, q, self._reality, is_early=True) for p, q in quotas.items()}
        self._exact = {p: Reference(p, q, self._reality, is_early=False) for p, q in quotas.items()}
        self._now_s = -math.inf

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible (held and dependent jobs: the instant they did, not their submit)."""
        if job.num_gpus > self._early[job.pool].line.quota_gpus:
            raise ValueError(
                f"job {job.job_id} is wider than the quota of pool {job.pool}: it has no reference"
            )
        self._tell(job.pool, Fact(now_s, FactKind.SUBMIT, (job,)))

    def started(self, job: Job, now_s: float, rate: float = 1.0, work_s: float = 0.0) -> None:
        """A job really runs; `rate` below 1 where it shares its GPUs, `work_s` kept of attempts before."""
        self._progress(job, Progress(work_s, rate, now_s), now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate; the reference counts solo-equivalent work."""
        progress = self._reality.progress_of(job.job_id)
        self._progress(job, progress.at_rate(rate, now_s), now_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us: repeated work is ours, the reference does not move.

        What it has kept counts from its next start on; until then it is taken to have done nothing, which
        makes starts in the early reference no later than they are.
        """
        self._progress(job, NOT_RUNNING, now_s)

    def ended(self, job: Job, now_s: float, work_s: float | None = None) -> None:
        """A job ended while it ran: by itself, by failure, by its limit, or killed by its user.

        The work done counts, the same in both worlds. `work_s` may be given where it is known exactly.
        """
        self._before(job.pool, now_s)
        progress = self._reality.progress.pop(job.job_id, NOT_RUNNING)
        self._reality.work_s[job.job_id] = progress.work_at(now_s) if work_s is None else work_s
        self._learn(job)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A user cancelled a job.

        Where its reference has not started it, it leaves the reference at once, also when it really ran as
        a guest. Where the reference runs it, the work really done counts.
        """
        self._before(job.pool, now_s)
        progress = self._reality.progress.pop(job.job_id, None)
        if progress is None:
            self._reality.left[job.job_id] = now_s
        else:
            self._reality.work_s[job.job_id] = progress.work_at(now_s)
        self._learn(job)
        self._tell(job.pool, Fact(now_s, FactKind.CANCEL, old_ids=(job.job_id,)))

    def requeued(self, old: Job, new: Job, now_s: float) -> None:
        """The user or the operator requeued a job: the old one leaves, a new one stands at the tail."""
        self._forget([old], now_s)
        self._tell(old.pool, Fact(now_s, FactKind.RESTART, old_ids=(old.job_id,)))
        self.submitted(new, now_s)

    def node_lost(self, restarted: Sequence[tuple[Job, Job]], guests: Iterable[Job], now_s: float) -> None:
        """A node is gone. Own jobs on it become new jobs at the head of their pool; guests return."""
        for guest in guests:
            self.sent_back(guest, now_s)
        self._forget([old for old, _ in restarted], now_s)
        pairs = sorted(restarted, key=lambda pair: submit_order(pair[0]))
        for pool in dict.fromkeys(new.pool for _, new in pairs):
            here = [(old, new) for old, new in pairs if new.pool == pool]
            news, olds = tuple(new for _, new in here), tuple(old.job_id for old, _ in here)
            self._tell(pool, Fact(now_s, FactKind.RESTART, news, olds))

    def set_quota(self, pool: str, quota_gpus: int, now_s: float) -> None:
        """A pool's quota changes: a rise counts at once, a cut drains."""
        self._tell(pool, Fact(now_s, FactKind.QUOTA, quota_gpus=quota_gpus))

    def advance(self, now_s: float) -> None:
        """Bring both references of all pools to `now_s`, as far as they can go."""
        self._at(now_s)
        for references in (self._early, self._exact):
            for reference in references.values():
                reference.advance(now_s)

    def early_start_s(self, job: Job) -> float | None:
        """Start in the early reference (what decisions go by); None while it has not started there."""
        return self._early[job.pool].starts.get(job.job_id)

    def forecast_starts(
        self, pool: str, now_s: float, least_work_s: Callable[[Job], float]
    ) -> Iterator[tuple[Job | None, float]]:
        """Early-reference starts of what waits there in one pool (`Reference.forecast_starts`)."""
        self.advance(now_s)
        return self._early[pool].forecast_starts(now_s, least_work_s)

    def alone_since_s(self, job: Job, now_s: float) -> float:
        """Since when a running job would run if it had lost no work to rates below 1; later while it does.

        It ends later than in a reference by what this is later than its start there.
        """
        return self._reality.progress[job.job_id].alone_since_s(now_s)

    def exact_start_s(self, job: Job) -> float | None:
        """Start in the exact reference (what is measured); None while it is not known."""
        return self._exact[job.pool].starts.get(job.job_id)

    def exact_settled_s(self, pool: str) -> float:
        """Instant up to which the exact reference of a pool has got: what it has not started starts later.

        Of a shadow that was advanced to the instant it was told of last.
        """
        return self._exact[pool].settled_s(self._now_s)

    def exact_end_s(self, job: Job) -> float | None:
        """End in the exact reference; None while it is not known."""
        return self._exact[job.pool].ends.get(job.job_id)

    def _at(self, now_s: float) -> None:
        if now_s < self._now_s:
            raise ValueError(
                f"told of {now_s} s after {self._now_s} s: facts come in the order of their instants"
            )
        self._now_s = now_s

    def _before(self, pool: str, now_s: float) -> None:
        """What happened strictly before `now_s` must have happened before reality changes at `now_s`."""
        self._at(now_s)
        self._early[pool].advance(now_s, is_inclusive=False)
        self._exact[pool].advance(now_s, is_inclusive=False)

    def _tell(self, pool: str, fact: Fact) -> None:
        self._before(pool, fact.at_s)
        self._early[pool].tell(fact)
        self._exact[pool].tell(fact)

    def _learn(self, job: Job) -> None:
        self._early[job.pool].learn(job.job_id)
        self._exact[job.pool].learn(job.job_id)

    def _progress(self, job: Job, progress: Progress, now_s: float) -> None:
        self._before(job.pool, now_s)
        self._reality.progress[job.job_id] = progress
        self._learn(job)

    def _forget(self, olds: Iterable[Job], now_s: float) -> None:
        for old in olds:
            self._before(old.pool, now_s)
            self._reality.progress.pop(old.job_id, None)
            self._reality.left[old.job_id] = now_s
            self._learn(old)
