"""Runs and the workers that carry them out."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import CursorResult, and_, or_, update
from sqlmodel import Session, col, delete, func, select

from app.store.tables import ClusterRow, EnforcedBy, Json, RunRow, RunStatus, WorkerRow

MAX_QUEUED_AT_ONCE: Final = 1_000
"""So many queued runs are looked at in one go; the rest has its turn later."""

_OVER: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


class Place(NamedTuple):
    """Where a page of runs ends: in the order newest first, then by id."""

    requested_at: datetime
    run_id: str


def is_over(run: RunRow) -> bool:
    """Whether nothing is going to happen to it any more."""
    return run.status in _OVER


def get(session: Session, run_id: str) -> RunRow | None:
    """A run."""
    return session.get(RunRow, run_id)


def lock(session: Session, run_id: str) -> RunRow | None:
    """A run as it is now; whoever else asks for it waits until the transaction ends."""
    query = select(RunRow).where(RunRow.run_id == run_id).with_for_update()
    return session.exec(query.execution_options(populate_existing=True)).one_or_none()


def add(session: Session, run: RunRow) -> RunRow:
    """A new run."""
    session.add(run)
    session.flush()
    return run


def queued_like(session: Session, cluster: str, kind: str, dedup: str) -> RunRow | None:
    """The queued run that was asked for under the same de-duplication name."""
    query = (
        select(RunRow)
        .where(RunRow.cluster == cluster, RunRow.kind == kind, RunRow.status == RunStatus.QUEUED.value)
        .order_by(col(RunRow.requested_at), col(RunRow.run_id))
    )
    return next((run for run in session.exec(query) if run.arguments.get("dedup") == dedup), None)


def count_queued(session: Session, cluster: str, kind: str) -> int:
    """How many runs of a kind wait in a cluster."""
    query = (
        select(func.count())
        .select_from(RunRow)
        .where(RunRow.cluster == cluster, RunRow.kind == kind, RunRow.status == RunStatus.QUEUED.value)
    )
    return session.exec(query).one()


def page(
    session: Session, cluster: str, kind: str | None, before: Place | None, limit: int
) -> Sequence[RunRow]:
    """Runs of a cluster, newest first, from behind `before` on."""
    query = select(RunRow).where(RunRow.cluster == cluster)
    if kind is not None:
        query = query.where(RunRow.kind == kind)
    if before is not None:
        query = query.where(
            or_(
                col(RunRow.requested_at) < before.requested_at,
                and_(col(RunRow.requested_at) == before.requested_at, col(RunRow.run_id) < before.run_id),
            )
        )
    ordered = query.order_by(col(RunRow.requested_at).desc(), col(RunRow.run_id).desc())
    return session.exec(ordered.limit(limit)).all()


def queued(session: Session) -> Sequence[RunRow]:
    """Runs that wait, the oldest first."""
    query = select(RunRow).where(RunRow.status == RunStatus.QUEUED.value)
    ordered = query.order_by(col(RunRow.requested_at), col(RunRow.run_id))
    return session.exec(ordered.limit(MAX_QUEUED_AT_ONCE)).all()


def cancelled_among(session: Session, run_ids: Collection[str]) -> list[str]:
    """Those of the runs that have been cancelled."""
    query = select(RunRow.run_id).where(
        col(RunRow.run_id).in_(run_ids), RunRow.status == RunStatus.CANCELLED.value
    )
    return list(session.exec(query))


def status_of(session: Session, run_id: str) -> str | None:
    """Where a run is; None if there is none of that id."""
    return session.exec(select(RunRow.status).where(RunRow.run_id == run_id)).one_or_none()


def keep_result(session: Session, run_id: str, worker_id: str, result: Json) -> bool:
    """Put down what a run has found so far, unless it is no longer this worker's; says whether it was."""
    changed = _update(
        session,
        update(RunRow).where(col(RunRow.run_id) == run_id, *_carried_out_by(worker_id)).values(result=result),
    )
    return changed > 0


def succeed(session: Session, run_id: str, worker_id: str, now: datetime) -> bool:
    """A run has its result, unless it is no longer this worker's; says whether it was."""
    changed = _update(
        session,
        update(RunRow)
        .where(col(RunRow.run_id) == run_id, *_carried_out_by(worker_id))
        .values(status=RunStatus.SUCCEEDED.value, finished_at=now),
    )
    return changed > 0


def fail(session: Session, run_id: str, worker_id: str, error: str, now: datetime) -> bool:
    """A run has failed, unless it is no longer this worker's; says whether it was."""
    changed = _update(
        session,
        update(RunRow)
        .where(col(RunRow.run_id) == run_id, *_carried_out_by(worker_id))
        .values(status=RunStatus.FAILED.value, result=None, error=error, finished_at=now),
    )
    return changed > 0


def carried_out_by(session: Session, worker_id: str) -> set[str]:
    """Runs that are said to be carried out by a worker."""
    return set(session.exec(select(RunRow.run_id).where(*_carried_out_by(worker_id))))


def requeue(session: Session, run_ids: Collection[str], worker_id: str) -> int:
    """Queue runs again, those that are still said to be carried out by the worker."""
    return _update(
        session,
        update(RunRow)
        .where(col(RunRow.run_id).in_(run_ids), *_carried_out_by(worker_id))
        .values(status=RunStatus.QUEUED.value, worker=None),
    )


def release(session: Session, worker_id: str) -> int:
    """Queue again what a worker was carrying out, and forget the worker."""
    changed = _update(
        session,
        update(RunRow).where(*_carried_out_by(worker_id)).values(status=RunStatus.QUEUED.value, worker=None),
    )
    session.exec(delete(WorkerRow).where(col(WorkerRow.worker_id) == worker_id))
    return changed


def lapsed_workers(session: Session, now: datetime) -> list[str]:
    """Workers whose lease has run out; each is given to one caller only, until its transaction ends."""
    query = select(WorkerRow.worker_id).where(col(WorkerRow.lease_until) < now)
    return list(session.exec(query.with_for_update(skip_locked=True)))


def orphaned(session: Session) -> list[str]:
    """Workers that are said to carry runs out and are not known (any more)."""
    known = select(WorkerRow.worker_id)
    query = select(RunRow.worker).where(
        RunRow.status == RunStatus.RUNNING.value, col(RunRow.worker).not_in(known)
    )
    return [worker for worker in session.exec(query.distinct()) if worker is not None]


def enrol_worker(session: Session, worker_id: str, now: datetime, lease_s: float) -> None:
    """A worker begins."""
    until = now + timedelta(seconds=lease_s)
    session.add(WorkerRow(worker_id=worker_id, started_at=now, lease_until=until))


def renew(session: Session, worker_id: str, now: datetime, lease_s: float) -> bool:
    """Extend a worker's lease; false if others have taken its runs over."""
    until = now + timedelta(seconds=lease_s)
    changed = _update(
        session, update(WorkerRow).where(col(WorkerRow.worker_id) == worker_id).values(lease_until=until)
    )
    return changed > 0


def live_workers(session: Session) -> set[str]:
    """Workers that count as alive."""
    return set(session.exec(select(WorkerRow.worker_id)))


def newest_request(session: Session, cluster: str, kind: str) -> datetime | None:
    """When a run of this kind was last asked for."""
    query = select(RunRow.requested_at).where(RunRow.cluster == cluster, RunRow.kind == kind)
    return session.exec(query.order_by(col(RunRow.requested_at).desc()).limit(1)).one_or_none()


def replanned_clusters(session: Session) -> Sequence[ClusterRow]:
    """Clusters whose plans are made again unasked: every so often, or because executors wait for them."""
    by_itself = col(ClusterRow.replan_every_s).is_not(None) | (
        col(ClusterRow.enforced_by) == EnforcedBy.EXECUTORS.value
    )
    query = select(ClusterRow).where(by_itself, col(ClusterRow.epoch) > 0)
    return session.exec(query.order_by(col(ClusterRow.name))).all()


def _carried_out_by(worker_id: str) -> tuple[Any, Any]:
    return col(RunRow.status) == RunStatus.RUNNING.value, col(RunRow.worker) == worker_id


def _update(session: Session, statement: Any) -> int:
    done: CursorResult[Any] = session.exec(statement.execution_options(synchronize_session=False))
    return done.rowcount
