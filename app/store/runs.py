"""Runs and the workers that carry them out."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, CursorResult, and_, or_, update
from sqlmodel import Session, col, delete, func, select

from app.store import run_events, webhooks
from app.store.tables import (
    ClusterRow,
    EnforcedBy,
    Json,
    RunEventKind,
    RunRow,
    RunStatus,
    WorkerRow,
)

MAX_QUEUED_AT_ONCE: Final = 1_000
"""So many queued runs are looked at in one go; the rest has its turn later."""

_OVER: Final = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


class Place(NamedTuple):
    """Where a page of runs ends: in the order newest first, then by id."""

    requested_at: datetime
    run_id: str


def is_over(run: RunRow) -> bool:
    """Whether its outcome is settled; one that is cancelled may still be winding up (no `finished_at`)."""
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
    run_events.append(session, run.run_id, RunEventKind.QUEUED, run.requested_at, {"by": run.requested_by})
    return run


def begin(session: Session, run: RunRow, worker_id: str, now: datetime) -> None:
    """A worker begins with a run, or goes on with it; the caller has it locked."""
    run.status = RunStatus.RUNNING.value
    run.worker = worker_id
    run.started_at = run.started_at or now
    run_events.append(session, run.run_id, RunEventKind.STARTED, now, {"worker": worker_id})


def cancel(session: Session, run: RunRow, now: datetime) -> None:
    """Cancel a run that the caller has locked; one that is over stays as it is.

    One that runs is over once its worker has wound it up: then it has `finished_at`.
    """
    if is_over(run):
        return
    is_running = run.status == RunStatus.RUNNING
    run.status = RunStatus.CANCELLED.value
    run.result = None
    if is_running:
        run_events.append(session, run.run_id, RunEventKind.CANCELLING, now)
    else:
        _finish(session, run, now)


def wind_up(session: Session, run_id: str, worker_id: str, result: Json | None, now: datetime) -> bool:
    """A cancelled run is over, with what is kept of it, unless it is not this worker's; says whether."""
    run = lock(session, run_id)
    if run is None or run.worker != worker_id or run.status != RunStatus.CANCELLED or run.finished_at:
        return False
    run.result = result
    _finish(session, run, now)
    return True


def adopt(session: Session, run: RunRow, error: str | None, now: datetime) -> None:
    """A run whose workflow is over and whose worker did not come to say so; the caller has it locked."""
    run.status = RunStatus.SUCCEEDED.value if error is None else RunStatus.FAILED.value
    run.error = error
    _finish(session, run, now)


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


def tell_progress(
    session: Session, run_id: str, worker_id: str, now: datetime, *, done: float, total: float
) -> bool:
    """How far a run is, unless it is no longer this worker's; says whether it was."""
    far: Json = {"done": done, "total": total}
    is_kept = keep_result(session, run_id, worker_id, {"progress": far})
    if is_kept:
        run_events.append(session, run_id, RunEventKind.PROGRESS, now, far)
    return is_kept


def tell_incumbent(session: Session, run_id: str, worker_id: str, now: datetime, about: Json) -> bool:
    """A run has something that it could end with, unless it is no longer this worker's; says whether."""
    run = lock(session, run_id)
    if run is None or run.worker != worker_id or run.status != RunStatus.RUNNING:
        return False
    run_events.append(session, run_id, RunEventKind.INCUMBENT, now, about)
    return True


def succeed(session: Session, run_id: str, worker_id: str, now: datetime) -> bool:
    """A run has its result, unless it is no longer this worker's; says whether it was."""
    run = _locked_of(session, run_id, worker_id)
    if run is None:
        return False
    run.status = RunStatus.SUCCEEDED.value
    _finish(session, run, now)
    return True


def fail(session: Session, run_id: str, worker_id: str, error: str, now: datetime) -> bool:
    """A run has failed, unless it is no longer this worker's; says whether it was."""
    run = _locked_of(session, run_id, worker_id)
    if run is None:
        return False
    run.status = RunStatus.FAILED.value
    run.result = None
    run.error = error
    _finish(session, run, now)
    return True


def held_by(session: Session, worker_id: str) -> set[str]:
    """Runs that are said to be carried out, or wound up, by a worker."""
    return set(session.exec(select(RunRow.run_id).where(_held(), RunRow.worker == worker_id)))


def let_go(session: Session, run_ids: Collection[str], worker_id: str, now: datetime) -> int:
    """Queue runs again that are still said to be the worker's, and end cancelled ones; returns how many."""
    mine = select(RunRow).where(_held(), RunRow.worker == worker_id, col(RunRow.run_id).in_(run_ids))
    return _hand_over(session, mine, now)


def release(session: Session, worker_id: str, now: datetime) -> int:
    """Queue again what a worker was carrying out, end what it was to wind up, and forget the worker."""
    changed = _hand_over(session, select(RunRow).where(_held(), RunRow.worker == worker_id), now)
    session.exec(delete(WorkerRow).where(col(WorkerRow.worker_id) == worker_id))
    return changed


def leases(session: Session) -> dict[str, datetime]:
    """Until when each worker says it is there."""
    return dict(session.exec(select(WorkerRow.worker_id, WorkerRow.lease_until)).all())


def lapsed_among(session: Session, silent: Mapping[str, datetime]) -> list[str]:
    """Those of the workers that have not renewed since; each is given to one caller only, until it commits.

    Args:
        session: an open transaction.
        silent: workers, and the leases they were last seen with.
    """
    query = select(WorkerRow).where(col(WorkerRow.worker_id).in_(silent))
    locked = query.with_for_update(skip_locked=True).execution_options(populate_existing=True)
    return [row.worker_id for row in session.exec(locked) if row.lease_until == silent[row.worker_id]]


def orphaned(session: Session) -> list[str]:
    """Workers that are said to carry runs out and are not known (any more)."""
    known = select(WorkerRow.worker_id)
    query = select(RunRow.worker).where(_held(), col(RunRow.worker).not_in(known))
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


def newest_request(session: Session, cluster: str, kind: str, until: datetime) -> datetime | None:
    """When a run of this kind was last asked for, up to an instant.

    What bears a later one was asked for by a clock that was ahead. It must not put a schedule off.
    """
    query = select(RunRow.requested_at).where(
        RunRow.cluster == cluster, RunRow.kind == kind, col(RunRow.requested_at) <= until
    )
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


def _held() -> ColumnElement[bool]:
    """Runs that run, or are cancelled and not wound up yet."""
    is_cancelled = col(RunRow.status) == RunStatus.CANCELLED.value
    is_running = col(RunRow.status) == RunStatus.RUNNING.value
    return or_(is_running, and_(is_cancelled, col(RunRow.finished_at).is_(None)))


def _locked_of(session: Session, run_id: str, worker_id: str) -> RunRow | None:
    run = lock(session, run_id)
    is_its = run is not None and run.status == RunStatus.RUNNING and run.worker == worker_id
    return run if is_its else None


def _hand_over(session: Session, runs: Any, now: datetime) -> int:
    """Queue runs again; those that are cancelled are over."""
    left = session.exec(runs.with_for_update().execution_options(populate_existing=True)).all()
    for run in left:
        if run.status == RunStatus.CANCELLED:
            _finish(session, run, now)
            continue
        left_by, run.worker = run.worker, None
        run.status = RunStatus.QUEUED.value
        run_events.append(session, run.run_id, RunEventKind.HANDED_OVER, now, {"worker": left_by})
    return len(left)


def _finish(session: Session, run: RunRow, now: datetime) -> None:
    """The end of a run: its last event, and the messages to whoever wants to know, all in one transaction."""
    run.finished_at = now
    session.add(run)
    told: Json = {"status": run.status, "error": run.error}
    if run.status == RunStatus.CANCELLED and run.result is not None:
        told["kept"] = run.result.get("kept")
    run_events.append(session, run.run_id, RunEventKind.FINISHED, now, told)
    webhooks.queue(session, run, now)


def _update(session: Session, statement: Any) -> int:
    done: CursorResult[Any] = session.exec(statement.execution_options(synchronize_session=False))
    return done.rowcount
