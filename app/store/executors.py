"""Executors, their join tokens and events, placements, and what is wanted on each node."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, or_
from sqlalchemy import select as columns
from sqlmodel import Session, col, func, select

from app.store.tables import (
    DesiredRow,
    ExecutorEventRow,
    ExecutorRow,
    JobRow,
    JoinTokenRow,
    NodeRow,
    PlacementRow,
    PlanRow,
)

_PART = 500


class Version(NamedTuple):
    """Which document is wanted on a node."""

    epoch: int
    generation: int
    content_sha256: str


class Waiting(NamedTuple):
    """What is wanted of an executor (nothing yet: generation -1), and who it is by now."""

    executor_id: str
    session: int
    is_lost: bool
    is_revoked: bool
    generation: int
    document: dict[str, object] | None


def executor(session: Session, executor_id: str) -> ExecutorRow | None:
    """An executor as it is now."""
    return session.get(ExecutorRow, executor_id, populate_existing=True)


def locked_executor(session: Session, executor_id: str) -> ExecutorRow | None:
    """An executor as it is now; whoever else asks for it so waits until the transaction ends."""
    return session.get(ExecutorRow, executor_id, populate_existing=True, with_for_update=True)


def is_secret_of_another(session: Session, secret_sha256: str) -> bool:
    """Whether a secret belongs to any executor."""
    query = select(ExecutorRow.executor_id).where(ExecutorRow.secret_sha256 == secret_sha256)
    return session.exec(query.limit(1)).first() is not None


def executors(session: Session, cluster: str, *, after: str, limit: int) -> Sequence[ExecutorRow]:
    """A page of a cluster's executors by id, those after `after`."""
    query = select(ExecutorRow).where(ExecutorRow.cluster == cluster, col(ExecutorRow.executor_id) > after)
    return session.exec(query.order_by(col(ExecutorRow.executor_id)).limit(limit)).all()


def enrolled(session: Session, cluster: str, node: str) -> Sequence[ExecutorRow]:
    """Executors of a node that are not revoked."""
    query = select(ExecutorRow).where(
        ExecutorRow.cluster == cluster, ExecutorRow.node == node, col(ExecutorRow.is_revoked).is_(False)
    )
    return session.exec(query).all()


def overdue(session: Session, now: datetime, cluster: str | None = None) -> Sequence[ExecutorRow]:
    """Executors whose lease has run out and that are not marked lost; of one cluster, or of all."""
    query = select(ExecutorRow).where(
        col(ExecutorRow.lease_until).is_not(None),
        col(ExecutorRow.lease_until) < now,
        col(ExecutorRow.is_lost).is_(False),
    )
    if cluster is not None:
        query = query.where(ExecutorRow.cluster == cluster)
    query = query.order_by(col(ExecutorRow.cluster), col(ExecutorRow.node), col(ExecutorRow.executor_id))
    return session.exec(query).all()


def locked_overdue(session: Session, now: datetime, cluster: str) -> Sequence[ExecutorRow]:
    """The same of one cluster; those that are just renewing their lease are waited for and left out."""
    query = (
        select(ExecutorRow)
        .where(
            ExecutorRow.cluster == cluster,
            col(ExecutorRow.lease_until) < now,
            col(ExecutorRow.is_lost).is_(False),
        )
        .order_by(col(ExecutorRow.executor_id))
        .with_for_update()
    )
    return session.exec(query).all()


def node(session: Session, cluster: str, name: str) -> NodeRow | None:
    """A node of the inventory as it is now."""
    return session.get(NodeRow, (cluster, name), populate_existing=True)


def join_token(session: Session, token_sha256: str) -> JoinTokenRow | None:
    """A join token by its hash."""
    return session.get(JoinTokenRow, token_sha256, populate_existing=True)


def wishes(session: Session, cluster: str, nodes: Collection[str] | None) -> dict[str, list[tuple[Any, ...]]]:
    """All that is said of the placements that are wanted, by id, by node; of these nodes, or of all."""
    query = columns(
        col(PlacementRow.node),
        col(PlacementRow.placement_id),
        col(PlacementRow.job_id),
        col(PlacementRow.rank),
        col(PlacementRow.num_ranks),
        col(PlacementRow.gpu_indices),
        col(PlacementRow.share_pct),
        col(PlacementRow.role),
        col(PlacementRow.state),
        col(PlacementRow.plan_id),
    ).where(col(PlacementRow.cluster) == cluster, col(PlacementRow.is_wanted).is_(True))
    if nodes is not None:
        query = query.where(col(PlacementRow.node).in_(sorted(nodes)))
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for name, *wish in session.execute(query.order_by(col(PlacementRow.placement_id))):
        found[name].append(tuple(wish))
    return found


def wanted(session: Session, cluster: str, nodes: Collection[str]) -> Sequence[PlacementRow]:
    """Placements of nodes that are wanted, by id."""
    query = select(PlacementRow).where(
        PlacementRow.cluster == cluster,
        col(PlacementRow.is_wanted).is_(True),
        col(PlacementRow.node).in_(sorted(nodes)),
    )
    return session.exec(query.order_by(col(PlacementRow.placement_id))).all()


def open_on(session: Session, cluster: str, node_name: str) -> Sequence[PlacementRow]:
    """Placements of a node that have not ended, by id."""
    query = select(PlacementRow).where(
        PlacementRow.cluster == cluster,
        PlacementRow.node == node_name,
        col(PlacementRow.ended_at).is_(None),
    )
    query = query.order_by(col(PlacementRow.placement_id))
    return session.exec(query, execution_options={"populate_existing": True}).all()


def placements(session: Session, cluster: str, node_name: str, ids: Iterable[str]) -> dict[str, PlacementRow]:
    """Placements of a node by id; those that are not its own are left out."""
    asked = sorted(set(ids))
    found: dict[str, PlacementRow] = {}
    for first in range(0, len(asked), _PART):
        query = select(PlacementRow).where(
            PlacementRow.cluster == cluster,
            PlacementRow.node == node_name,
            col(PlacementRow.placement_id).in_(asked[first : first + _PART]),
        )
        rows = session.exec(query, execution_options={"populate_existing": True})
        found |= {row.placement_id: row for row in rows}
    return found


def last_attempt(session: Session, cluster: str, job_id: str) -> Sequence[PlacementRow]:
    """The ranks of a job's last attempt, by rank."""
    last = select(func.max(PlacementRow.attempt)).where(
        PlacementRow.cluster == cluster, PlacementRow.job_id == job_id
    )
    query = select(PlacementRow).where(
        PlacementRow.cluster == cluster,
        PlacementRow.job_id == job_id,
        PlacementRow.attempt == last.scalar_subquery(),
    )
    return session.exec(query.order_by(col(PlacementRow.rank))).all()


def job(session: Session, cluster: str, job_id: str) -> JobRow | None:
    """A live job."""
    return session.get(JobRow, (cluster, job_id))


def specs(session: Session, cluster: str, job_ids: Iterable[str]) -> dict[str, dict[str, object]]:
    """What is to be launched, by job."""
    asked = sorted(set(job_ids))
    found: dict[str, dict[str, object]] = {}
    for first in range(0, len(asked), _PART):
        query = select(JobRow.job_id, JobRow.spec).where(
            JobRow.cluster == cluster, col(JobRow.job_id).in_(asked[first : first + _PART])
        )
        found |= {job_id: dict(spec or {}) for job_id, spec in session.exec(query)}
    return found


def uuids(session: Session, cluster: str, nodes: Collection[str] | None) -> dict[str, list[str]]:
    """UUIDs of the GPUs in the order of their index, by node; of these nodes, or of all."""
    query = select(NodeRow.name, NodeRow.gpu_uuids).where(NodeRow.cluster == cluster)
    if nodes is not None:
        query = query.where(col(NodeRow.name).in_(sorted(nodes)))
    return {name: [str(uuid) for uuid in found] for name, found in session.exec(query)}


def plan_numbers(session: Session, plan_ids: Collection[str]) -> dict[str, int]:
    """Numbers of plans by id."""
    if not plan_ids:
        return {}
    query = select(PlanRow.plan_id, PlanRow.number).where(col(PlanRow.plan_id).in_(sorted(plan_ids)))
    return dict(session.exec(query).all())


def versions(session: Session, cluster: str) -> dict[str, Version]:
    """Which document is wanted, by node."""
    query = select(DesiredRow.node, DesiredRow.epoch, DesiredRow.generation, DesiredRow.content_sha256).where(
        DesiredRow.cluster == cluster
    )
    return {name: Version(epoch, number, digest) for name, epoch, number, digest in session.exec(query)}


def desired(session: Session, cluster: str, node_name: str) -> DesiredRow | None:
    """What is wanted on a node."""
    return session.get(DesiredRow, (cluster, node_name))


def generation(session: Session, cluster: str, node_name: str) -> int | None:
    """Generation of what is wanted on a node."""
    query = select(DesiredRow.generation).where(DesiredRow.cluster == cluster, DesiredRow.node == node_name)
    return session.exec(query).one_or_none()


def put_desired(session: Session, row: DesiredRow) -> None:
    """Replace what is wanted on a node."""
    session.merge(row)


def changes(session: Session, seen: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """(cluster, node, generation) of documents newer than the generation seen, in one query.

    Args:
        session: open for reading.
        seen: generation seen, by cluster.
    """
    newer = [
        and_(col(DesiredRow.cluster) == cluster, col(DesiredRow.generation) > last)
        for cluster, last in sorted(seen.items())
    ]
    query = select(DesiredRow.cluster, DesiredRow.node, DesiredRow.generation).where(or_(*newer))
    return list(session.exec(query))


def waiting(session: Session, executor_ids: Collection[str]) -> list[Waiting]:
    """What is wanted of executors, together with who they are by now."""
    asked = sorted(executor_ids)
    found: list[Waiting] = []
    for first in range(0, len(asked), _PART):
        query = (
            columns(
                col(ExecutorRow.executor_id),
                col(ExecutorRow.session),
                col(ExecutorRow.is_lost),
                col(ExecutorRow.is_revoked),
                func.coalesce(DesiredRow.generation, -1),
                col(DesiredRow.document),
            )
            .join(
                DesiredRow,
                and_(
                    col(DesiredRow.cluster) == ExecutorRow.cluster, col(DesiredRow.node) == ExecutorRow.node
                ),
                isouter=True,
            )
            .where(col(ExecutorRow.executor_id).in_(asked[first : first + _PART]))
        )
        found += [Waiting(*row) for row in session.execute(query)]
    return found


def known_events(session: Session, event_ids: Iterable[str]) -> set[str]:
    """Those of the events that have been taken before."""
    asked = sorted(set(event_ids))
    found: set[str] = set()
    for first in range(0, len(asked), _PART):
        query = select(ExecutorEventRow.event_id).where(
            col(ExecutorEventRow.event_id).in_(asked[first : first + _PART])
        )
        found.update(session.exec(query))
    return found


def gpu_memory_mib(session: Session, cluster: str) -> dict[tuple[str, int], int]:
    """Memory that jobs can have, by (node, index of the GPU), of GPUs whose executors have told it."""
    query = select(ExecutorRow.node, ExecutorRow.devices).where(
        ExecutorRow.cluster == cluster, col(ExecutorRow.is_revoked).is_(False)
    )
    found: dict[tuple[str, int], int] = {}
    for name, devices in session.exec(query):
        for device in devices or ():
            total = _reading(device, "memory_total_mib")
            if total is not None and not device.get("is_lost"):
                reserved = _reading(device, "memory_reserved_mib") or 0.0
                found[name, int(device["index"])] = int(total - reserved)
    return found


def _reading(device: Mapping[str, object], name: str) -> float | None:
    """A value that was measured on a device; None where it could not be."""
    told = device.get(name)
    value = told.get("value") if isinstance(told, dict) else told
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def share_changes(session: Session, cluster: str) -> Sequence[ExecutorEventRow]:
    """What executors said of shares they have changed, in the order in which it came."""
    query = select(ExecutorEventRow).where(
        ExecutorEventRow.cluster == cluster, col(ExecutorEventRow.kind).in_(("squeezed", "swelled"))
    )
    return session.exec(query.order_by(col(ExecutorEventRow.recorded_at), ExecutorEventRow.event_id)).all()


def gpus_being_left(session: Session, cluster: str) -> int:
    """GPUs on which something still is that is not wanted any more."""
    query = select(PlacementRow.gpu_indices).where(
        PlacementRow.cluster == cluster,
        col(PlacementRow.is_wanted).is_(False),
        col(PlacementRow.ended_at).is_(None),
    )
    return sum(len(indices) for indices in session.exec(query))
