"""Facts in: each is checked against what is known, written to the cluster's log and to its projection.

The log is the cluster's memory. A policy's state is a fold of it (`app.children.state`), so every process
that reads it comes to the same state, and every decision can be derived again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlmodel import Session

from app.clock import Clock
from app.services.facts import Fact, FactKind, job_of
from app.store import clusters, live, plans
from app.store.tables import ClusterRow, EnforcedBy, JobRow, LiveState, LogRow

FUTURE_S: Final = 300.0
"""How far ahead of our clock a fact may lie; further ahead it would hold up all that follow."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A fact that was not recorded, and why."""

    index: int
    job_id: str
    reason: str


@dataclass(slots=True)
class Recorded:
    """What became of the facts of one call.

    Attributes:
        accepted: how many were recorded.
        duplicates: how many had been told before.
        rejected: those that contradict what is known; the others are recorded all the same.
        kinds: kinds of the accepted ones.
        last_s: instant of the log's last entry then; None while it is empty.
    """

    accepted: int = 0
    duplicates: int = 0
    rejected: list[Rejection] = field(default_factory=list)
    kinds: list[FactKind] = field(default_factory=list)
    last_s: float | None = None


class _Contradiction(Exception):  # noqa: N818  (it never leaves this module)
    """The fact does not go with what is known."""


class _Repeated(Exception):  # noqa: N818
    """The fact says what is known already."""


@dataclass(frozen=True, slots=True)
class _Scene:
    session: Session
    cluster: ClusterRow
    quotas: Mapping[str, int]
    requeueable_pools: frozenset[str]
    jobs: dict[str, JobRow]


def record(
    session: Session, cluster: ClusterRow, facts: Sequence[Fact], *, source: str, clock: Clock
) -> Recorded:
    """Record facts in the order given; the caller holds the cluster's lock.

    An entry's instant is never before that of the entry before it: a fact that is told late is told as of
    then, while the projection keeps the instant it was reported for.

    Args:
        session: an open transaction.
        cluster: the locked row.
        facts: what happened.
        source: who says so.
        clock: our clock.
    """
    pools = clusters.pools(session, cluster.name) if any(map(_is_submission, facts)) else ()
    scene = _Scene(
        session,
        cluster,
        {pool.name: pool.quota_gpus for pool in pools},
        frozenset(pool.name for pool in pools if pool.is_requeueable),
        live.jobs_by_id(session, cluster.name, (fact.job_id for fact in facts)),
    )
    told = live.known_uids(session, cluster.name, (fact.uid for fact in facts if fact.uid is not None))
    now = clock.now()
    latest_s = (now - cluster.clock_origin).total_seconds() + FUTURE_S
    result = Recorded(last_s=live.last_at_s(session, cluster))
    for index, fact in enumerate(facts):
        if fact.uid is not None and fact.uid in told:
            result.duplicates += 1
            continue
        try:
            _require_not_ahead(fact, latest_s)
            data = _PROJECTIONS[fact.kind](scene, fact)
        except _Repeated:
            result.duplicates += 1
            continue
        except (_Contradiction, ValueError) as error:
            result.rejected.append(Rejection(index, fact.job_id, str(error)))
            continue
        result.last_s = fact.at_s if result.last_s is None else max(result.last_s, fact.at_s)
        live.append(
            session,
            cluster,
            LogRow(
                cluster=cluster.name,
                seq=0,
                kind=fact.kind.value,
                at_s=result.last_s,
                job_id=fact.job_id,
                data={**data, "reported_s": fact.at_s},
                uid=fact.uid,
                source=source,
                recorded_at=now,
            ),
        )
        if fact.uid is not None:
            told.add(fact.uid)
        result.accepted += 1
        result.kinds.append(fact.kind)
    return result


def _is_submission(fact: Fact) -> bool:
    return fact.kind == FactKind.SUBMITTED


def _require_not_ahead(fact: Fact, latest_s: float) -> None:
    if fact.at_s > latest_s:
        raise _Contradiction(
            f"it lies {fact.at_s - latest_s + FUTURE_S:.0f} s ahead of the service's clock, "
            f"at most {FUTURE_S:.0f} s are allowed: check the sender's clock"
        )


def _submitted(scene: _Scene, fact: Fact) -> dict[str, Any]:
    values: dict[str, Any] = {**fact.data, "job_id": fact.job_id}
    values["submit_s"] = values.get("submit_s") if values.get("submit_s") is not None else fact.at_s
    spec = values.pop("spec", None) or {}
    if values.get("pool") not in scene.quotas:
        raise _Contradiction(f"pool {values.get('pool')!r} is not in the inventory")
    quota = scene.quotas[values["pool"]]
    if values["num_gpus"] > quota:
        raise _Contradiction(
            f"it asks for {values['num_gpus']} GPUs, the quota of pool {values['pool']} is {quota}"
        )
    if scene.cluster.enforced_by == EnforcedBy.EXECUTORS and not spec.get("argv"):
        raise _Contradiction("executors launch the jobs of this cluster: its spec has no argv")
    if fact.job_id in scene.jobs:
        raise _Repeated
    says = values.pop("is_requeueable", None)
    if says is None and values.get("requeue_u") is None:
        says = values["pool"] in scene.requeueable_pools
    if says is not None and values.get("requeue_u") is None:
        values["requeue_u"] = 0.0 if says else None
    is_shareable = bool(spec.get("is_shareable"))
    if is_shareable:
        values["requeue_u"] = None
    job_of(values)
    row = JobRow(
        cluster=scene.cluster.name,
        rank=float(scene.cluster.seq + 1),
        state=LiveState.WAITING.value,
        spec=spec,
        gpus=[],
        **values,
    )
    scene.session.add(row)
    scene.jobs[row.job_id] = row
    return {**values, "is_shareable": is_shareable}


def _started(scene: _Scene, fact: Fact) -> dict[str, Any]:
    row = _known(scene, fact)
    if row.state == LiveState.RUNNING:
        raise _Repeated
    _require(row, LiveState.WAITING, "started")
    says = fact.data.get("is_guest")
    is_guest = _was_to_be_guest(scene, fact.job_id) if says is None else bool(says)
    row.state = LiveState.RUNNING.value
    row.is_guest = is_guest
    row.was_guest = row.was_guest or is_guest
    row.own_from_s = None if is_guest else fact.at_s
    row.started_s = fact.at_s
    row.first_started_s = fact.at_s if row.first_started_s is None else row.first_started_s
    row.attempts += 1
    row.gpus = [list(gpu) for gpu in fact.data.get("gpus", ())]
    row.host_job_id = fact.data.get("host_job_id")
    row.share_pct = float(fact.data.get("share_pct", 100.0))
    return {
        "is_guest": is_guest,
        "gpus": row.gpus,
        "host_job_id": row.host_job_id,
        "share_pct": row.share_pct,
    }


def _was_to_be_guest(scene: _Scene, job_id: str) -> bool:
    """How the last decision had it start; one that no decision has started is its pool's own."""
    last = plans.latest_decision(scene.session, scene.cluster.name)
    starts = [] if last is None else last.answer.get("starts", [])
    return any(start["job_id"] == job_id and start["is_guest"] for start in starts)


def _ended(scene: _Scene, fact: Fact) -> dict[str, Any]:
    row = _known(scene, fact)
    if row.state == LiveState.ENDED:
        raise _Repeated
    _require(row, LiveState.RUNNING, "ended")
    duration_s = fact.data.get("duration_s")
    if duration_s is None:
        duration_s = max(fact.at_s - (row.started_s or 0.0), 0.0)
    if duration_s < 0.0:
        raise _Contradiction(f"its duration is {duration_s} s, must be at least 0")
    row.state = LiveState.ENDED.value
    row.end_state = str(fact.data.get("state", "unknown"))
    _leave(scene, row, fact.at_s)
    return {**fact.data, "state": row.end_state, "duration_s": duration_s}


def _cancelled(scene: _Scene, fact: Fact) -> dict[str, Any]:
    row = _known(scene, fact)
    if row.state in (LiveState.CANCELLED, LiveState.ENDED):
        raise _Repeated
    was_running = row.state == LiveState.RUNNING
    row.state = LiveState.CANCELLED.value
    row.end_state = "cancelled"
    _leave(scene, row, fact.at_s)
    return {**fact.data, "was_running": was_running}


def _sent_back(scene: _Scene, fact: Fact) -> dict[str, Any]:
    row = _known(scene, fact)
    if row.state == LiveState.WAITING:
        raise _Repeated
    _require(row, LiveState.RUNNING, "sent back")
    if row.own_from_s is not None and scene.cluster.enforced_by == EnforcedBy.EXECUTORS:
        raise _Contradiction("it is its pool's own; own jobs are never sent back")
    return _wait_again(scene, row, fact)


def _converted(scene: _Scene, fact: Fact) -> dict[str, Any]:
    """A guest has become its pool's own, where it runs."""
    row = _known(scene, fact)
    _require(row, LiveState.RUNNING, "become own")
    if row.own_from_s is not None:
        raise _Repeated
    row.own_from_s = fact.at_s
    return dict(fact.data)


def _restarted(scene: _Scene, fact: Fact) -> dict[str, Any]:
    """An own job lost its node: it waits again, at the head of its pool."""
    row = _known(scene, fact)
    _require(row, LiveState.RUNNING, "restarted")
    row.rank = live.lowest_rank(scene.session, scene.cluster.name, row.pool) - 1.0
    return _wait_again(scene, row, fact)


def _wait_again(scene: _Scene, row: JobRow, fact: Fact) -> dict[str, Any]:
    lost_s = max(fact.at_s - (row.started_s or 0.0), 0.0)
    row.lost_s += lost_s
    _leave(scene, row, None)
    row.state = LiveState.WAITING.value
    row.is_guest, row.own_from_s, row.started_s = False, None, None
    return {**fact.data, "lost_s": lost_s}


def _leave(scene: _Scene, row: JobRow, ended_s: float | None) -> None:
    """A job leaves its GPUs; a rider that it was host to has them alone from now on."""
    if row.spec.get("is_shareable"):
        for other in live.running(scene.session, scene.cluster.name):
            if other.host_job_id == row.job_id:
                other.host_job_id = row.host_job_id
    row.ended_s = ended_s
    row.gpus = []
    row.host_job_id = None
    row.share_pct = 100.0


def _known(scene: _Scene, fact: Fact) -> JobRow:
    row = scene.jobs.get(fact.job_id)
    if row is None:
        raise _Contradiction("it was never submitted: send its submitted event first")
    return row


def _require(row: JobRow, state: LiveState, what: str) -> None:
    if row.state != state:
        raise _Contradiction(f"it cannot have {what}: it is {row.state}")


_PROJECTIONS: Final[Mapping[FactKind, Callable[[_Scene, Fact], dict[str, Any]]]] = {
    FactKind.SUBMITTED: _submitted,
    FactKind.STARTED: _started,
    FactKind.ENDED: _ended,
    FactKind.CANCELLED: _cancelled,
    FactKind.SENT_BACK: _sent_back,
    FactKind.RESTARTED: _restarted,
    FactKind.CONVERTED: _converted,
}
