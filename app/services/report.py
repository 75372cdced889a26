"""What sharing has done so far: reality beside the world without it, told by the same log."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine

from app.services.facts import FactKind, job_of
from app.services.planning import require_cluster
from app.store import executors, live, plans
from app.store.engine import reading
from app.store.tables import ClusterRow, DecisionRow, EpochRow, JobRow, LiveState, LogRow
from domain.jobs import Job
from domain.measures import is_slowed
from solver.shadow import Shadow

_HOUR_S: Final = 3600.0


@dataclass
class _Reality:
    """The log told to a shadow; the quotas are those of the epochs, which shrink while nodes are lost.

    A job that is restarted after its node was lost is a new job to the reference, at the head of its pool.
    """

    shadow: Shadow
    quotas: dict[str, int]
    jobs: dict[str, Job] = field(default_factory=dict)
    lives: Counter[str] = field(default_factory=Counter)
    last_s: float = -math.inf

    def begin(self, epoch: EpochRow) -> None:
        """Take over the quotas of an epoch, as of the last fact: it may learn up to a later instant."""
        quotas = {str(pool): int(quota) for pool, quota in epoch.quotas}
        for pool, before in self.quotas.items():
            quota = quotas.get(pool, 0)
            if quota != before:
                self.quotas[pool] = quota
                self.shadow.set_quota(pool, quota, self.last_s)
        self.shadow.advance(self.last_s)

    def tell(self, entry: LogRow) -> None:
        """Take over an entry of the log."""
        self.last_s = max(entry.at_s, self.last_s)
        kind, now_s = FactKind(entry.kind), self.last_s
        if kind == FactKind.SUBMITTED:
            job = job_of({**entry.data, "job_id": entry.job_id})
            if job.num_gpus <= self.quotas.get(job.pool, 0):
                self.jobs[job.job_id] = job
                self.shadow.submitted(job, now_s)
            return
        known = self.jobs.get(str(entry.job_id))
        if known is None:
            return
        match kind:
            case FactKind.STARTED:
                self.shadow.started(known, now_s)
            case FactKind.SENT_BACK:
                self.shadow.sent_back(known, now_s)
            case FactKind.ENDED:
                self.shadow.ended(known, now_s)
            case FactKind.CANCELLED:
                self.shadow.cancelled(known, now_s)
            case FactKind.RESTARTED:
                self._restart(known, now_s)
            case _:
                pass  # no news to a world without sharing

    def _restart(self, old: Job, now_s: float) -> None:
        key = old.job_id.partition("\0")[0]
        if old.num_gpus > self.quotas[old.pool]:  # its quota was cut while it ran: it has no promise any more
            self.shadow.cancelled(old, now_s)
            del self.jobs[key]
            return
        self.lives[key] += 1
        new = Job(f"{key}\0{self.lives[key]}", old.pool, old.submit_s, old.num_gpus, requeue_u=old.requeue_u)
        self.shadow.node_lost([(old, new)], [], now_s)
        self.jobs[key] = new


def report(engine: Engine, cluster: str) -> dict[str, Any]:
    """Measure a cluster so far, in the fields of `app.schemas.live.ReportOut`.

    Raises:
        Conflict: if the cluster has no inventory yet.
    """
    with reading(engine) as session:
        row = require_cluster(session.get(ClusterRow, cluster), cluster)
        entries = live.entries(session, cluster, 0, row.seq)
        jobs = live.all_jobs(session, cluster)
        epochs = live.epochs(session, cluster)
        decisions = plans.decisions(session, cluster)
        changes = [event.data for event in executors.share_changes(session, cluster)]
    reality = _relive(epochs, entries)
    if not any(job.state in live.UNFINISHED for job in jobs):
        reality.shadow.advance(math.inf)  # nothing is open any more, so the reference can be told to its end
    measured = {job.job_id: _measure(job, reality) for job in jobs}
    return {
        "jobs": len(jobs),
        **{
            state.value: sum(job.state == state for job in jobs)
            for state in (LiveState.ENDED, LiveState.WAITING, LiveState.RUNNING)
        },
        **_sharing(jobs, entries),
        **_holds(decisions),
        "shares_in_force": _in_force(changes),
        **_promise(measured.values()),
        "pools": [_pool(pool, jobs, measured) for pool in reality.quotas],
    }


def _relive(epochs: Sequence[EpochRow], entries: Sequence[LogRow]) -> _Reality:
    """The log as the reference sees it, brought to its last instant; with pools that are gone by now."""
    quotas = {str(pool): 0 for epoch in epochs for pool, _ in epoch.quotas}
    quotas |= {str(pool): int(quota) for pool, quota in epochs[0].quotas}
    reality = _Reality(Shadow(quotas), quotas)
    coming = list(epochs)
    for entry in entries:
        while coming and coming[0].from_seq < entry.seq:
            reality.begin(coming.pop(0))
        reality.tell(entry)
    for epoch in coming:
        reality.begin(epoch)
    if entries:
        reality.shadow.advance(reality.last_s)
    return reality


@dataclass(frozen=True)
class _Measured:
    """A job against the reference; None where the reference is not known yet."""

    earlier_s: float | None
    later_s: float | None
    has_ended: bool
    is_consenting: bool

    @property
    def is_early(self) -> bool:
        return self.earlier_s is not None and self.earlier_s > 0.0

    @property
    def is_slowed(self) -> bool:
        return self.later_s is not None and is_slowed(self.later_s)


def _measure(job: JobRow, reality: _Reality) -> _Measured:
    known = reality.jobs.get(job.job_id)
    has_ended = job.state == LiveState.ENDED
    is_consenting = bool(job.spec.get("is_shareable"))
    if known is None:
        return _Measured(None, None, False, is_consenting)
    start_s, end_s = reality.shadow.exact_start_s(known), reality.shadow.exact_end_s(known)
    earlier_s = None
    if job.started_s is not None and start_s is not None:
        earlier_s = start_s - job.started_s
    later_s = job.ended_s - end_s if has_ended and job.ended_s is not None and end_s is not None else None
    return _Measured(earlier_s, later_s, has_ended, is_consenting)


def _sharing(jobs: Sequence[JobRow], entries: Sequence[LogRow]) -> dict[str, Any]:
    """Lent GPU-hours and repeated ones, out of the log: an attempt is lent until it ends or is converted."""
    width = {job.job_id: job.num_gpus for job in jobs}
    since: dict[str, float] = {}
    lent_s = repeated_s = 0.0
    squeezed: set[str] = set()
    kinds: Counter[str] = Counter()
    for entry in entries:
        kinds[entry.kind] += 1
        if entry.kind == FactKind.DECIDED:
            continue
        job_id = str(entry.job_id)
        if entry.kind == FactKind.STARTED:
            if entry.data.get("is_guest") and not entry.data.get("host_job_id"):
                since[job_id] = entry.at_s
            squeezed |= {one for one in (entry.data.get("host_job_id"),) if one}
            if entry.data.get("host_job_id"):
                squeezed.add(job_id)
            continue
        begun_s = since.pop(job_id, None)
        if begun_s is not None:
            lent_s += (entry.at_s - begun_s) * width[job_id]
        if entry.kind in (FactKind.SENT_BACK, FactKind.RESTARTED):
            repeated_s += float(entry.data.get("lost_s", 0.0)) * width[job_id]
    last_s = entries[-1].at_s if entries else 0.0
    lent_s += sum((last_s - begun_s) * width[job_id] for job_id, begun_s in since.items())
    return {
        "guests": sum(job.was_guest for job in jobs),
        "lent_gpu_hours": round(lent_s / _HOUR_S, 4),
        "sent_back": kinds[FactKind.SENT_BACK],
        "repeated_gpu_hours": round(repeated_s / _HOUR_S, 4),
        "squeezed": len(squeezed),
    }


def _holds(decisions: Iterable[DecisionRow]) -> dict[str, int]:
    held = [sum(hold["num_gpus"] for hold in one.answer.get("holds", ())) for one in decisions]
    return {"holds": sum(gpus > 0 for gpus in held), "held_gpus_most": max(held, default=0)}


def _in_force(conditions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By which means shares were changed, and from when on they held, as the executors read them back."""
    keys = ("primitive", "enforcement", "effective_at", "state")
    counted = Counter(tuple(str(condition.get(key, "")) for key in keys) for condition in conditions)
    return [
        {**dict(zip(keys, means, strict=True)), "times": times} for means, times in sorted(counted.items())
    ]


def _promise(measured: Iterable[_Measured]) -> dict[str, Any]:
    known = list(measured)
    early = [one.earlier_s for one in known if one.is_early and one.earlier_s is not None]
    slowed = [one for one in known if one.is_slowed]
    return {
        "started_early": len(early),
        "hours_earlier": round(sum(early) / _HOUR_S, 4),
        "slowed": len(slowed),
        "slowed_most_s": round(max((one.later_s or 0.0 for one in slowed), default=0.0), 3),
        "unresolved": sum(one.has_ended and one.later_s is None for one in known),
        "consenting_slowed": sum(one.is_consenting for one in slowed),
    }


def _pool(pool: str, jobs: Sequence[JobRow], measured: Mapping[str, _Measured]) -> dict[str, Any]:
    mine = [job for job in jobs if job.pool == pool]
    waits = [job.started_s - job.submit_s for job in mine if job.started_s is not None]
    return {
        "pool": pool,
        "jobs": len(mine),
        "ended": sum(job.state == LiveState.ENDED for job in mine),
        "started_early": sum(measured[job.job_id].is_early for job in mine),
        "slowed": sum(measured[job.job_id].is_slowed for job in mine),
        "mean_wait_s": round(sum(waits) / len(waits), 3) if waits else None,
    }
