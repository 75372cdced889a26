"""The log of a cluster and its projection: live jobs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Row
from sqlmodel import Session, col, func, select

from app.store.tables import ClusterRow, EpochRow, JobRow, LiveState, LogRow, PlacementRow

UNFINISHED = (LiveState.WAITING.value, LiveState.RUNNING.value)

_AT_ONCE: Final = 500
"""Names in one query."""

_AT_A_TIME: Final = 5_000
"""Log entries in one answer, so that a long log does not have to fit into memory."""


def job(session: Session, cluster: str, job_id: str) -> JobRow | None:
    """A live job."""
    return session.get(JobRow, (cluster, job_id))


def jobs_by_id(session: Session, cluster: str, job_ids: Iterable[str]) -> dict[str, JobRow]:
    """Those of the live jobs that there are."""
    found: dict[str, JobRow] = {}
    for part in _parts(job_ids):
        query = select(JobRow).where(JobRow.cluster == cluster, col(JobRow.job_id).in_(part))
        found.update((row.job_id, row) for row in session.exec(query))
    return found


def unfinished(session: Session, cluster: str) -> Sequence[JobRow]:
    """Jobs that wait or run, in the order of their lines."""
    query = (
        select(JobRow)
        .where(JobRow.cluster == cluster, col(JobRow.state).in_(UNFINISHED))
        .order_by(col(JobRow.rank), col(JobRow.job_id))
    )
    return session.exec(query).all()


def running(session: Session, cluster: str) -> Sequence[JobRow]:
    """Jobs that run, in the order in which they started."""
    query = (
        select(JobRow)
        .where(JobRow.cluster == cluster, JobRow.state == LiveState.RUNNING.value)
        .order_by(col(JobRow.started_s), col(JobRow.job_id))
    )
    return session.exec(query).all()


def used_gpus(session: Session, cluster: str) -> int:
    """GPUs that running jobs have; riders have none of their own."""
    return int(session.exec(_used(cluster)).one() or 0)


def idle_gpus(session: Session, cluster: ClusterRow) -> int:
    """GPUs of the epoch that no job has."""
    query = select(EpochRow.capacity_gpus, _used(cluster.name).scalar_subquery()).where(
        EpochRow.cluster == cluster.name, EpochRow.number == cluster.epoch
    )
    found = session.exec(query).one_or_none()
    return 0 if found is None else max(found[0] - int(found[1] or 0), 0)


def _used(cluster: str) -> Any:
    return select(func.sum(JobRow.num_gpus)).where(
        JobRow.cluster == cluster,
        JobRow.state == LiveState.RUNNING.value,
        col(JobRow.host_job_id).is_(None),
    )


def jobs(
    session: Session, cluster: str, *, states: Sequence[str], after: str, limit: int
) -> Sequence[JobRow]:
    """A page of live jobs by id, those after `after`; of all states where none are given."""
    query = select(JobRow).where(JobRow.cluster == cluster, col(JobRow.job_id) > after)
    if states:
        query = query.where(col(JobRow.state).in_(states))
    return session.exec(query.order_by(col(JobRow.job_id)).limit(limit)).all()


def all_jobs(session: Session, cluster: str) -> Sequence[JobRow]:
    """All live jobs there ever were, in the order of their lines."""
    query = select(JobRow).where(JobRow.cluster == cluster)
    return session.exec(query.order_by(col(JobRow.rank), col(JobRow.job_id))).all()


def ended_before(session: Session, cluster: str, seq: int) -> Sequence[JobRow]:
    """Jobs whose end was recorded by log entry `seq`."""
    ends = select(LogRow.job_id).where(
        LogRow.cluster == cluster, col(LogRow.seq) <= seq, LogRow.kind == "ended"
    )
    query = select(JobRow).where(
        JobRow.cluster == cluster,
        JobRow.state == LiveState.ENDED.value,
        col(JobRow.job_id).in_(ends),
    )
    return session.exec(query.order_by(col(JobRow.ended_s), col(JobRow.job_id))).all()


def lowest_rank(session: Session, cluster: str, pool: str) -> float:
    """Rank of the head of a pool's line; 0 where nobody waits."""
    query = select(func.min(JobRow.rank)).where(
        JobRow.cluster == cluster, JobRow.pool == pool, col(JobRow.state).in_(UNFINISHED)
    )
    return float(session.exec(query).one() or 0.0)


def append(session: Session, cluster: ClusterRow, entry: LogRow) -> int:
    """Give an entry the next number of the cluster's log; the caller holds the cluster's lock."""
    cluster.seq += 1
    entry.seq = cluster.seq
    session.add(entry)
    return cluster.seq


def known_uids(session: Session, cluster: str, uids: Iterable[str]) -> set[str]:
    """Those of the senders' names that are in the log already."""
    found: set[str] = set()
    for part in _parts(uids):
        query = select(LogRow.uid).where(LogRow.cluster == cluster, col(LogRow.uid).in_(part))
        found.update(uid for uid in session.exec(query) if uid is not None)
    return found


def last_at_s(session: Session, cluster: ClusterRow) -> float | None:
    """Instant of the last log entry; None while the log is empty."""
    query = select(LogRow.at_s).where(LogRow.cluster == cluster.name, LogRow.seq == cluster.seq)
    return session.exec(query).one_or_none()


def entries(session: Session, cluster: str, after: int, until: int) -> Sequence[LogRow]:
    """Log entries with after < seq <= until."""
    query = (
        select(LogRow)
        .where(LogRow.cluster == cluster, col(LogRow.seq) > after, col(LogRow.seq) <= until)
        .order_by(col(LogRow.seq))
    )
    return session.exec(query).all()


def told(session: Session, cluster: str, after: int, until: int) -> Sequence[Row[Any]]:
    """The first of these entries, as many as are told at a time: seq, kind, at_s, job_id and data."""
    query = (
        select(LogRow.seq, LogRow.kind, LogRow.at_s, LogRow.job_id, LogRow.data)  # type: ignore[call-overload]
        .where(LogRow.cluster == cluster, col(LogRow.seq) > after, col(LogRow.seq) <= until)
        .order_by(col(LogRow.seq))
    )
    found: Sequence[Row[Any]] = session.exec(query.limit(_AT_A_TIME)).all()
    return found


def epoch(session: Session, cluster: str, number: int) -> EpochRow | None:
    """An epoch by its number."""
    return session.get(EpochRow, (cluster, number))


def epochs(session: Session, cluster: str) -> Sequence[EpochRow]:
    """All epochs in their order."""
    query = select(EpochRow).where(EpochRow.cluster == cluster).order_by(col(EpochRow.number))
    return session.exec(query).all()


def wanted_placements(session: Session, cluster: str) -> Sequence[PlacementRow]:
    """Placements that are wanted now, by id."""
    query = select(PlacementRow).where(PlacementRow.cluster == cluster, col(PlacementRow.is_wanted).is_(True))
    return session.exec(query.order_by(col(PlacementRow.placement_id))).all()


def wanted_of(session: Session, cluster: str, job_id: str) -> Sequence[PlacementRow]:
    """Placements of one job that are wanted now."""
    query = select(PlacementRow).where(
        PlacementRow.cluster == cluster,
        PlacementRow.job_id == job_id,
        col(PlacementRow.is_wanted).is_(True),
    )
    return session.exec(query.order_by(col(PlacementRow.rank))).all()


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    wanted = sorted(set(names))
    for first in range(0, len(wanted), _AT_ONCE):
        yield wanted[first : first + _AT_ONCE]


def rows_as_dicts(rows: Iterable[JobRow]) -> list[dict[str, Any]]:
    """Plain dictionaries, for a snapshot."""
    return [
        {
            **row.model_dump(exclude={"cluster", "spec"}),
            "is_shareable": bool((row.spec or {}).get("is_shareable")),
        }
        for row in rows
    ]
