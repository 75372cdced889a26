"""Clusters and their inventories."""

from collections.abc import Collection, Mapping, Sequence

from sqlmodel import Session, col, func, select

from app.store.live import UNFINISHED
from app.store.tables import ClusterRow, JobRow, NodeRow, PlacementRow, PoolRow


def get(session: Session, name: str) -> ClusterRow | None:
    """A cluster, not locked."""
    return session.get(ClusterRow, name)


def page(session: Session, after: str, limit: int) -> Sequence[ClusterRow]:
    """Clusters by name, those after `after`."""
    query = select(ClusterRow).where(col(ClusterRow.name) > after).order_by(col(ClusterRow.name))
    return session.exec(query.limit(limit)).all()


def add(session: Session, row: ClusterRow) -> None:
    """Keep a new cluster.

    Raises:
        IntegrityError: if there is one of that name.
    """
    session.add(row)
    session.flush()


def pools(session: Session, cluster: str) -> Sequence[PoolRow]:
    """Pools in their order."""
    query = select(PoolRow).where(PoolRow.cluster == cluster).order_by(col(PoolRow.position))
    return session.exec(query).all()


def nodes(session: Session, cluster: str) -> Sequence[NodeRow]:
    """Nodes in their order."""
    query = select(NodeRow).where(NodeRow.cluster == cluster).order_by(col(NodeRow.position))
    return session.exec(query).all()


def replace_pools(session: Session, cluster: str, wanted: Collection[PoolRow]) -> None:
    """Make these the cluster's pools."""
    names = {row.name for row in wanted}
    for row in pools(session, cluster):
        if row.name not in names:
            session.delete(row)
    for row in wanted:
        session.merge(row)
    session.flush()


def replace_nodes(session: Session, cluster: str, wanted: Collection[NodeRow]) -> None:
    """Make these the cluster's nodes; what is known of a node that stays as it is, stays known."""
    known = {row.name: row for row in nodes(session, cluster)}
    names = {row.name for row in wanted}
    for name, row in known.items():
        if name not in names:
            session.delete(row)
    for row in wanted:
        before = known.get(row.name)
        if before is not None:
            row.is_lost = before.is_lost
            row.gpu_uuids = before.gpu_uuids if before.num_gpus == row.num_gpus else []
        session.merge(row)
    session.flush()


def unfinished_jobs_by_pool(session: Session, cluster: str) -> Mapping[str, int]:
    """How many jobs wait or run in each pool that has some."""
    query = (
        select(JobRow.pool, func.count())
        .where(JobRow.cluster == cluster, col(JobRow.state).in_(UNFINISHED))
        .group_by(col(JobRow.pool))
    )
    return dict(session.exec(query).all())


def nodes_in_use(session: Session, cluster: str) -> set[str]:
    """Nodes on which something is wanted, or has not ended yet."""
    query = (
        select(PlacementRow.node)
        .where(
            PlacementRow.cluster == cluster,
            col(PlacementRow.is_wanted).is_(True) | col(PlacementRow.ended_at).is_(None),
        )
        .distinct()
    )
    return set(session.exec(query).all())
