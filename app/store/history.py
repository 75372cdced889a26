"""Imported job history: uploads, their pieces, and the jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, insert
from sqlmodel import Session, col, delete, func, or_, select

from app.store.tables import HistoryChunkRow, HistoryImportRow, HistoryJobRow, ImportStatus, JobRow

JOB_COLUMNS: Final = (
    "job_id",
    "pool",
    "submit_s",
    "num_gpus",
    "duration_s",
    "user",
    "name",
    "model",
    "limit_s",
    "state",
    "deadline_s",
    "requeue_u",
    "gpu_type",
    "array_id",
    "priority",
    "checkpoint_s",
    "restart_s",
    "start_s",
)
"""As in `data.schema`, in its order."""

_AT_ONCE: Final = 5_000


def get(session: Session, import_id: str) -> HistoryImportRow | None:
    """An import."""
    return session.get(HistoryImportRow, import_id)


def lock(session: Session, import_id: str) -> HistoryImportRow | None:
    """An import as it is now; whoever else asks for it waits until the transaction ends."""
    query = select(HistoryImportRow).where(HistoryImportRow.import_id == import_id).with_for_update()
    return session.exec(query.execution_options(populate_existing=True)).one_or_none()


def page(
    session: Session, cluster: str, before: HistoryImportRow | None, limit: int
) -> Sequence[HistoryImportRow]:
    """Imports of a cluster, the newest first; only those older than `before` where it is given."""
    query = select(HistoryImportRow).where(HistoryImportRow.cluster == cluster)
    created_at, import_id = col(HistoryImportRow.created_at), col(HistoryImportRow.import_id)
    if before is not None:
        is_same_moment = created_at == before.created_at
        query = query.where(
            or_(created_at < before.created_at, is_same_moment & (import_id < before.import_id))
        )
    return session.exec(query.order_by(created_at.desc(), import_id.desc()).limit(limit)).all()


def add(session: Session, row: HistoryImportRow) -> None:
    """Keep a new import."""
    session.add(row)
    session.flush()


def count_unfinished(session: Session, cluster: str) -> int:
    """Imports of a cluster whose bytes are kept: on their way in, or waiting to be read."""
    unfinished = (ImportStatus.RECEIVING.value, ImportStatus.WAITING.value)
    query = select(func.count()).where(
        HistoryImportRow.cluster == cluster, col(HistoryImportRow.status).in_(unfinished)
    )
    return session.exec(query).one()


def abandoned(session: Session, cluster: str, before: datetime) -> Sequence[str]:
    """Uploads that began before an instant and never got to their end."""
    query = select(HistoryImportRow.import_id).where(
        HistoryImportRow.cluster == cluster,
        HistoryImportRow.status == ImportStatus.RECEIVING.value,
        col(HistoryImportRow.created_at) < before,
    )
    return session.exec(query).all()


def remove(session: Session, import_id: str) -> None:
    """Forget an upload and its pieces."""
    remove_chunks(session, import_id)
    session.exec(delete(HistoryImportRow).where(col(HistoryImportRow.import_id) == import_id))


def add_chunk(session: Session, import_id: str, position: int, content: bytes) -> None:
    """Keep one piece."""
    session.add(HistoryChunkRow(import_id=import_id, position=position, content=content))


def chunks(session: Session, import_id: str) -> Iterator[bytes]:
    """The pieces in their order, one at a time."""
    position = 0
    while (row := session.get(HistoryChunkRow, (import_id, position))) is not None:
        yield row.content
        session.expunge(row)  # or all of them stay in memory
        position += 1


def remove_chunks(session: Session, import_id: str) -> None:
    """Forget the pieces of an upload."""
    session.exec(delete(HistoryChunkRow).where(col(HistoryChunkRow.import_id) == import_id))


def known_job_ids(session: Session, cluster: str) -> set[str]:
    """Ids of jobs that the cluster knows, imported or live."""
    imported = select(HistoryJobRow.job_id).where(HistoryJobRow.cluster == cluster)
    live = select(JobRow.job_id).where(JobRow.cluster == cluster)
    return set(session.exec(imported)) | set(session.exec(live))


def add_jobs(session: Session, cluster: str, import_id: str, jobs: Iterable[Mapping[str, Any]]) -> None:
    """Keep imported jobs; each has the fields of `JOB_COLUMNS`."""
    batch: list[dict[str, Any]] = []
    for job in jobs:
        batch.append({**job, "cluster": cluster, "import_id": import_id})
        if len(batch) == _AT_ONCE:
            session.connection().execute(insert(HistoryJobRow), batch)
            batch = []
    if batch:
        session.connection().execute(insert(HistoryJobRow), batch)


def count_jobs(session: Session, cluster: str) -> int:
    """How many imported jobs a cluster has."""
    query = select(func.count()).where(HistoryJobRow.cluster == cluster)
    return session.exec(query).one()


def rows(session: Session, cluster: str) -> Sequence[Row[Any]]:
    """All imported jobs in the order of (submit_s, job_id), with the fields of `JOB_COLUMNS`."""
    columns = [getattr(HistoryJobRow, name) for name in JOB_COLUMNS]
    query = select(*columns).where(HistoryJobRow.cluster == cluster)
    found: Sequence[Row[Any]] = session.exec(
        query.order_by(col(HistoryJobRow.submit_s), col(HistoryJobRow.job_id))
    ).all()
    return found
