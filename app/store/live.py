"""The log of a cluster and its projection: live jobs."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlmodel import Session, col, func, select

from app.store.tables import ClusterRow, EpochRow, JobRow, LiveState, LogRow, NodeRow, PlacementRow, PoolRow

UNFINISHED = (LiveState.WAITING.value, LiveState.RUNNING.value)


def job(session: Session, cluster: str, job_id: str) -> JobRow | None:
    """A live job."""
    return session.get(JobRow, (cluster, job_id))


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
    query = select(func.sum(JobRow.num_gpus)).where(
        JobRow.cluster == cluster,
        JobRow.state == LiveState.RUNNING.value,
        col(JobRow.host_job_id).is_(None),
    )
    return int(session.exec(query).one() or 0)


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


def pools(session: Session, cluster: str) -> Sequence[PoolRow]:
    """Pools in their order."""
    query = select(PoolRow).where(PoolRow.cluster == cluster).order_by(col(PoolRow.position))
    return session.exec(query).all()


def nodes(session: Session, cluster: str) -> Sequence[NodeRow]:
    """Nodes in their order."""
    query = select(NodeRow).where(NodeRow.cluster == cluster).order_by(col(NodeRow.position))
    return session.exec(query).all()


def append(session: Session, cluster: ClusterRow, entry: LogRow) -> int:
    """Give an entry the next number of the cluster's log; the caller holds the cluster's lock."""
    cluster.seq += 1
    entry.seq = cluster.seq
    session.add(entry)
    return cluster.seq


def known_uids(session: Session, cluster: str, uids: Iterable[str]) -> set[str]:
    """Those of the senders' names that are in the log already."""
    wanted = sorted(set(uids))
    found: set[str] = set()
    for first in range(0, len(wanted), 500):
        part = wanted[first : first + 500]
        query = select(LogRow.uid).where(LogRow.cluster == cluster, col(LogRow.uid).in_(part))
        found.update(uid for uid in session.exec(query) if uid is not None)
    return found


def last_at_s(session: Session, cluster: ClusterRow) -> float | None:
    """Instant of the last log entry; None while the log is empty."""
    last = session.get(LogRow, (cluster.name, cluster.seq))
    return None if last is None else last.at_s


def entries(session: Session, cluster: str, after: int, until: int) -> Sequence[LogRow]:
    """Log entries with after < seq <= until."""
    query = (
        select(LogRow)
        .where(LogRow.cluster == cluster, col(LogRow.seq) > after, col(LogRow.seq) <= until)
        .order_by(col(LogRow.seq))
    )
    return session.exec(query).all()


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


def leaving_placements(session: Session, cluster: str) -> Sequence[PlacementRow]:
    """Placements that are no longer wanted but whose end has not been reported."""
    query = select(PlacementRow).where(
        PlacementRow.cluster == cluster,
        col(PlacementRow.is_wanted).is_(False),
        col(PlacementRow.ended_at).is_(None),
    )
    return session.exec(query).all()


def rows_as_dicts(rows: Iterable[JobRow]) -> list[dict[str, Any]]:
    """Plain dictionaries, for a snapshot."""
    return [row.model_dump(exclude={"cluster", "spec"}) for row in rows]
