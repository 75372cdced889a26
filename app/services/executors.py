"""Executors: how a node's comes to be trusted, opens sessions, keeps its lease, and is given up for lost."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, NotAllowed, NotAuthenticated, UnknownResource
from app.services import clusters, epochs, placement_ends, push, replan, walltime
from app.services.durable import Runs
from app.store import executors as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.executors import Waiting
from app.store.tables import ClusterRow, ExecutorRow, JoinTokenRow, NodeRow

_SECRET_BYTES: Final = 32
_ID_BYTES: Final = 8

_log = structlog.get_logger(__name__)


class StaleSession(Conflict):
    """The executor has opened another session since, or was given up for lost: it has to open a new one."""

    def __init__(self) -> None:
        super().__init__("this session is over: open a new one")


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that has proved who it is."""

    executor_id: str
    cluster: str
    node: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What an executor needs from now on. The secret is nowhere else."""

    executor_id: str
    secret: str


@dataclass(frozen=True, slots=True)
class Opening:
    """What an executor says when it opens a session.

    Attributes:
        boot_id: of the node's kernel.
        version: of the executor.
        devices: its GPUs; each has `uuid` and `index`.
        capabilities: what can be enforced there.
        adopted: ids of the placements that it found running.
    """

    boot_id: str
    version: str
    devices: Sequence[Mapping[str, Any]]
    capabilities: Sequence[Mapping[str, Any]]
    adopted: Sequence[str]


def hash_of(secret: str) -> str:
    """The only form in which a secret is kept; it has 256 random bits, so a plain hash will do."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def issue_join_token(session: Session, cluster: str, node: str, ttl_s: int, clock: Clock) -> str:
    """Make a token with which the executor of one node can enrol, once.

    Raises:
        UnknownCluster: if there is no such cluster.
        Conflict: if it has no such node.
    """
    lock_cluster(session, cluster)
    if store.node(session, cluster, node) is None:
        raise Conflict(f"node {node!r} is not in the inventory of cluster {cluster}: add it first")
    token = secrets.token_urlsafe(_SECRET_BYTES)
    row = JoinTokenRow(
        token_sha256=hash_of(token),
        cluster=cluster,
        node=node,
        expires_at=clock.now() + timedelta(seconds=walltime.seconds_on_clock(clock, ttl_s)),
    )
    session.add(row)
    return token


def enrol(session: Session, token: str, node: str, version: str, clock: Clock) -> Enrolled:
    """Trust the executor that holds a join token from now on, and no other one of its node.

    Raises:
        NotAuthenticated: if the token is unknown, used up or expired.
        NotAllowed: if it is for another node.
        Conflict: if the node has left the inventory.
    """
    now = clock.now()
    digest = hash_of(token)
    ticket = store.join_token(session, digest)
    if ticket is None:
        raise _bad_token()
    cluster = lock_cluster(session, ticket.cluster)
    ticket = store.join_token(session, digest)
    if ticket is None or ticket.used_at is not None or ticket.expires_at <= now:
        raise _bad_token()
    if ticket.node != node:
        raise NotAllowed("this join token is for another node")
    inventory = store.node(session, cluster.name, node)
    if inventory is None:
        raise Conflict(f"node {node!r} is no longer in the inventory of cluster {cluster.name}")
    ticket.used_at = now
    lease_until = _replace(session, cluster.name, node)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    row = ExecutorRow(
        executor_id=f"ex-{secrets.token_hex(_ID_BYTES)}",
        cluster=cluster.name,
        node=node,
        secret_sha256=hash_of(secret),
        version=version,
        # What an older executor's lease covered it covers still: a successor that never shows up is missed.
        lease_until=lease_until,
        is_lost=inventory.is_lost,
        devices=[],
        capabilities=[],
        refusals=[],
        enrolled_at=now,
    )
    session.add(row)
    _log.info("executor_enrolled", cluster=cluster.name, node=node, executor_id=row.executor_id)
    return Enrolled(row.executor_id, secret)


def _bad_token() -> NotAuthenticated:
    return NotAuthenticated("the join token is unknown, used up or expired: ask for a new one")


def _replace(session: Session, cluster: str, node: str) -> datetime | None:
    lease_until = None
    for older in store.enrolled(session, cluster, node):
        lease_until = older.lease_until
        older.is_revoked = True
        older.lease_until = None
    return lease_until


def revoke(session: Session, executor_id: str) -> None:
    """Trust an executor no longer. What it runs goes on until its lease has run out, and then counts as lost.

    Raises:
        UnknownResource: if there is none.
    """
    row = store.locked_executor(session, executor_id)
    if row is None:
        raise UnknownResource(f"there is no executor {executor_id!r}")
    row.is_revoked = True
    _log.info("executor_revoked", cluster=row.cluster, node=row.node, executor_id=executor_id)


def authenticate(engine: Engine, executor_id: str, secret: str) -> Executor:
    """Who calls.

    Raises:
        NotAuthenticated: if nobody has this secret.
        NotAllowed: if it is another executor's, or this one's no longer.
    """
    digest = hash_of(secret)
    with reading(engine) as session:
        row = store.executor(session, executor_id)
        if row is None or not hmac.compare_digest(row.secret_sha256, digest):
            if store.is_secret_of_another(session, digest):
                raise NotAllowed("an executor may speak for itself only")
            raise NotAuthenticated("the executor's secret is not valid")
    if row.is_revoked:
        raise _revoked()
    return Executor(row.executor_id, row.cluster, row.node)


def page(engine: Engine, cluster: str, after: str, limit: int) -> Sequence[ExecutorRow]:
    """A cluster's executors by id, those after `after`.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    clusters.get(engine, cluster)
    with reading(engine) as session:
        return store.executors(session, cluster, after=after, limit=limit)


def require_session(now: ExecutorRow | Waiting | None, session_number: int) -> None:
    """Nothing, if an executor may still speak in a session.

    Raises:
        NotAllowed: if it has been revoked.
        StaleSession: if the session is over.
    """
    if now is None or now.is_revoked:
        raise _revoked()
    if now.session != session_number or now.is_lost:
        raise StaleSession


def _revoked() -> NotAllowed:
    return NotAllowed("this executor has been revoked: enrol it again with a new join token")


def open_session(
    session: Session, who: Executor, opening: Opening, *, lease_s: float, clock: Clock, runs: Runs | None
) -> int:
    """Begin a session; older ones of this executor are over.

    Returns:
        The number of the session.

    Raises:
        NotAllowed: if the executor has been revoked.
        Conflict: if its GPUs are not those of the inventory.
    """
    cluster = lock_cluster(session, who.cluster)
    row = store.locked_executor(session, who.executor_id)
    if row is None or row.is_revoked:
        raise _revoked()
    node = store.node(session, who.cluster, who.node)
    if node is None:
        raise Conflict(f"node {who.node!r} is no longer in the inventory of cluster {who.cluster}")
    found = _uuids(node, opening.devices)
    is_back = row.is_lost or node.is_lost or not node.gpu_uuids
    node.gpu_uuids = found
    row.session += 1
    row.boot_id, row.version = opening.boot_id, opening.version
    row.devices = [dict(device) for device in opening.devices]
    row.capabilities = [dict(capability) for capability in opening.capabilities]
    row.is_lost = False
    row.lease_until = walltime.later(clock, lease_s)
    session.flush()
    ends = placement_ends.Ends(session, cluster, clock)
    ends.note_adopted(who.node, opening.adopted)
    if is_back:
        epochs.nodes_changed(session, cluster, lost=[], back=[who.node], clock=clock)
    push.publish(session, who.cluster, clock, nodes=ends.nodes | {who.node})
    if is_back or ends.num_facts:
        request_replan(session, runs, cluster)
    _log.info("session_opened", cluster=who.cluster, node=who.node, session=row.session, is_back=is_back)
    return row.session


def _uuids(node: NodeRow, devices: Sequence[Mapping[str, Any]]) -> list[str]:
    in_order = sorted(devices, key=lambda device: int(device["index"]))
    found = [str(device["uuid"]) for device in in_order]
    if len(found) != node.num_gpus:
        raise Conflict(
            f"node {node.name} has {node.num_gpus} GPUs in the inventory, its executor found {len(found)}: "
            "correct the inventory, or look at the node"
        )
    if len(set(found)) != len(found) or len({device["index"] for device in devices}) != len(found):
        raise Conflict(f"node {node.name}: its executor names a GPU twice")
    return found


def lost(session: Session, cluster: str, now: datetime) -> list[str]:
    """Nodes whose executor's lease has run out and that are not marked lost, in order."""
    return sorted({row.node for row in store.overdue(session, now, cluster)})


def sweep(engine: Engine, clock: Clock, runs: Runs | None = None) -> list[tuple[str, str]]:
    """Give the nodes up whose executor's lease has run out.

    Args:
        engine: of the database.
        clock: our clock.
        runs: where a new plan is asked for; none is where it is left out.

    Returns:
        (cluster, node) of those that were given up.
    """
    with reading(engine) as session:
        names = sorted({row.cluster for row in store.overdue(session, clock.now())})
    given_up = []
    for name in names:
        with transaction(engine) as session:
            cluster = lock_cluster(session, name)
            overdue = store.locked_overdue(session, clock.now(), name)
            if not overdue:
                continue
            nodes = sorted({row.node for row in overdue})
            for row in overdue:
                row.is_lost = True
            session.flush()
            epochs.nodes_changed(session, cluster, lost=nodes, back=[], clock=clock)
            push.publish(session, name, clock)
            request_replan(session, runs, cluster)
            given_up += [(name, node) for node in nodes]
            _log.warning("nodes_lost", cluster=name, nodes=nodes)
    return given_up


def request_replan(session: Session, runs: Runs | None, cluster: ClusterRow) -> None:
    """Ask for a new plan, where there is a place to ask."""
    if runs is not None:
        replan.after_event(session, runs, cluster)
