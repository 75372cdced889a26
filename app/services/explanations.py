"""Why jobs of a live cluster wait, run as guests or were sent back, as of a decision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine
from sqlmodel import Session

from app.errors import Conflict, UnknownCluster, UnknownResource
from app.services.advising import Advisers
from app.services.facts import FactKind
from app.store import explanations, live, plans
from app.store.engine import reading
from app.store.tables import ClusterRow, DecisionRow, JobRow, LiveState


@dataclass(frozen=True)
class SentBack:
    """When a job was sent back last.

    Attributes:
        at_s: instant.
        decision_seq: the decision that named it; None where no decision did, or it was a plan's that is gone.
        reason: as it was told.
    """

    at_s: float
    decision_seq: int | None
    reason: str | None


@dataclass(frozen=True)
class JobExplained:
    """About one job.

    Attributes:
        cluster: on whose clock seconds are.
        job: its row.
        decision: as of which.
        said: of `app.children.explaining.one_job`.
        dropped: why a part of the decision about it was not carried out.
        sent_back: when it was last; None if it never was.
    """

    cluster: ClusterRow
    job: JobRow
    decision: DecisionRow
    said: Mapping[str, Any]
    dropped: str | None
    sent_back: SentBack | None


@dataclass(frozen=True)
class Explained:
    """A decision, and what was said of it."""

    cluster: ClusterRow
    decision: DecisionRow
    said: Mapping[str, Any]


def of_job(engine: Engine, advisers: Advisers, cluster: str, job_id: str) -> JobExplained:
    """Explain a job that waits or runs, as of the latest decision.

    Raises:
        UnknownResource: if there is no such cluster or job.
        Conflict: if it has ended, or nothing has been decided yet.
        DecisionUnavailable: if there is no answer in time.
    """
    with reading(engine) as session:
        row = _cluster(session, cluster)
        job = live.job(session, cluster, job_id)
        if job is None:
            raise UnknownResource(f"cluster {cluster} has no job {job_id!r}")
        if job.state not in (LiveState.WAITING, LiveState.RUNNING):
            raise Conflict(
                f"job {job_id} neither waits nor runs, it is {job.state}: there is nothing to explain"
            )
        decision = _latest(session, cluster)
        sent_back = _sent_back(session, cluster, job_id)
    said = advisers.explain(cluster, {**_request(decision), "asked": "job", "job_id": job_id})
    dropped = [one["why"] for one in decision.answer.get("dropped", ()) if one["job_id"] == job_id]
    return JobExplained(row, job, decision, said, dropped[0] if dropped else None, sent_back)


def of_waiting(engine: Engine, advisers: Advisers, cluster: str) -> Explained:
    """Explain all jobs that wait, as of the latest decision.

    Raises:
        UnknownResource: if there is no such cluster.
        Conflict: if nothing has been decided yet.
        DecisionUnavailable: if there is no answer in time.
    """
    with reading(engine) as session:
        row, decision = _cluster(session, cluster), _latest(session, cluster)
    return Explained(row, decision, advisers.explain(cluster, {**_request(decision), "asked": "waiting"}))


def of_decision(engine: Engine, advisers: Advisers, cluster: str, seq: int) -> Explained:
    """Explain the holds and send-backs of a decision.

    Raises:
        UnknownResource: if there is no such cluster or decision.
        DecisionUnavailable: if there is no answer in time.
    """
    with reading(engine) as session:
        row, decision = _cluster(session, cluster), plans.decision(session, cluster, seq)
    if decision is None:
        raise UnknownResource(f"entry {seq} of cluster {cluster} is no decision")
    return Explained(row, decision, advisers.explain(cluster, {**_request(decision), "asked": "decision"}))


def _request(decision: DecisionRow) -> dict[str, Any]:
    return {"epoch": decision.epoch, "seq": decision.seq, "done": decision.answer}


def _cluster(session: Session, name: str) -> ClusterRow:
    row = session.get(ClusterRow, name)
    if row is None:
        raise UnknownCluster(name)
    return row


def _latest(session: Session, cluster: str) -> DecisionRow:
    decision = plans.latest_decision(session, cluster)
    if decision is None:
        raise Conflict(f"nothing has been decided for cluster {cluster} yet: ask for a decision first")
    return decision


def _sent_back(session: Session, cluster: str, job_id: str) -> SentBack | None:
    entry = explanations.last_fact(session, cluster, job_id, FactKind.SENT_BACK.value)
    if entry is None:
        return None
    decision = explanations.decision_before(session, cluster, entry.seq)
    named = decision is not None and job_id in decision.answer.get("send_backs", ())
    seq = decision.seq if decision is not None and named else None
    return SentBack(entry.at_s, seq, entry.data.get("reason"))
