"""Clusters: made, changed, and told what they consist of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, Invalid, UnknownCluster, VersionClash
from app.services import epochs, modes
from app.services.policies import check_policy
from app.store import clusters as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import Approval, ClusterRow, Mode, NodeRow, PoolRow
from app.store.tables.clusters import PLAN_VALID_S
from domain.cluster import Node, Pool, check_quotas

_CHANGEABLE: Final = (
    "is_lending",
    "mode",
    "approval",
    "plan_valid_s",
    "policy",
    "settings",
    "replan_every_s",
)
_BEGINS_EPOCH: Final = frozenset({"policy", "settings"})

Versions = Collection[int] | None
"""Versions a change may be based on; None: any."""


@dataclass(frozen=True, slots=True)
class NewCluster:
    """What a cluster is made of; see `app.store.tables.ClusterRow`."""

    name: str
    enforced_by: str
    policy: str
    settings: Mapping[str, str]
    seed: int = 0
    clock_origin: datetime | None = None
    replan_every_s: float | None = None
    mode: str = Mode.ENFORCE
    approval: str = Approval.AUTOMATIC
    plan_valid_s: float = PLAN_VALID_S


@dataclass(frozen=True, slots=True)
class Inventory:
    """A cluster's pools and nodes at one version of the cluster."""

    version: int
    pools: Sequence[PoolRow]
    nodes: Sequence[NodeRow]


def create(engine: Engine, wanted: NewCluster, clock: Clock) -> ClusterRow:
    """Make a cluster; without a clock origin it is the Monday before, so that weekdays line up.

    Raises:
        SettingError: if its policy cannot run live.
        Invalid: if its clock begins in the future.
        Conflict: if there is one of that name.
    """
    now = clock.now()
    check_policy(wanted.policy, wanted.settings)
    origin = monday_before(now) if wanted.clock_origin is None else wanted.clock_origin
    if origin > now:
        raise Invalid(f"clock_origin lies in the future: it is {now.isoformat()} now")
    row = ClusterRow(
        name=wanted.name,
        clock_origin=origin,
        enforced_by=wanted.enforced_by,
        policy=wanted.policy,
        settings=dict(wanted.settings),
        seed=wanted.seed,
        replan_every_s=wanted.replan_every_s,
        mode=wanted.mode,
        approval=wanted.approval,
        plan_valid_s=wanted.plan_valid_s,
        created_at=now,
    )
    try:
        with transaction(engine) as session:
            store.add(session, row)
    except IntegrityError as error:
        raise Conflict(f"there is a cluster {wanted.name!r} already") from error
    return row


def get(engine: Engine, name: str) -> ClusterRow:
    """A cluster.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    with reading(engine) as session:
        return require(session, name)


def page(engine: Engine, after: str, limit: int) -> Sequence[ClusterRow]:
    """Clusters by name, those after `after`."""
    with reading(engine) as session:
        return store.page(session, after, limit)


def change(
    engine: Engine, name: str, changes: Mapping[str, Any], versions: Versions, clock: Clock
) -> ClusterRow:
    """Change some of a cluster's fields; those with the value they have already count as not changed.

    A policy that is set without settings gets its own defaults.

    Args:
        engine: the database.
        name: the cluster's.
        changes: new values by field, of those in `_CHANGEABLE`.
        versions: on which the change is based.
        clock: our clock.

    Raises:
        UnknownCluster: if there is none of that name.
        VersionClash: if somebody else was faster.
        SettingError: if the policy cannot run live.
    """
    if "policy" in changes and "settings" not in changes:
        changes = {**changes, "settings": {}}
    if _BEGINS_EPOCH & set(
        changes
    ):  # slow the first time, so before the lock; the kill switch never waits for it
        versions = {_check_policy_of(engine, name, changes, versions)}
    with transaction(engine) as session:
        row = lock_cluster(session, name)
        require_version(row, versions)
        changed = {
            field: value
            for field, value in changes.items()
            if field in _CHANGEABLE and value != getattr(row, field)
        }
        for field, value in changed.items():
            setattr(row, field, value)
        if changed:
            row.version += 1
        if "mode" in changed or changed.get("is_lending") is False:
            modes.close_all(session, row, clock)
        if _BEGINS_EPOCH & set(changed):
            epochs.begin(session, row, f"{' and '.join(sorted(_BEGINS_EPOCH & set(changed)))} changed", clock)
        return row


def inventory(engine: Engine, name: str) -> Inventory:
    """A cluster's pools and nodes.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    with reading(engine) as session:
        return _inventory(session, require(session, name))


def put_inventory(
    engine: Engine,
    name: str,
    pools: Sequence[PoolRow],
    nodes: Sequence[NodeRow],
    versions: Versions,
    clock: Clock,
) -> Inventory:
    """Say what a cluster consists of. Quotas may be cut: what runs drains, nothing is killed.

    Raises:
        UnknownCluster: if there is none of that name.
        VersionClash: if somebody else was faster.
        Invalid: if names repeat, a node's pool is unknown, or quotas exceed the nodes' GPUs.
        Conflict: if a pool that still has jobs, or a node that still has placements, would be gone.
    """
    check_inventory(pools, nodes)
    with transaction(engine) as session:
        row = lock_cluster(session, name)
        require_version(row, versions)
        before = _inventory(session, row)
        was = _facts(before)  # its rows are about to change
        _require_unused(session, name, before, (pools, nodes))
        store.replace_pools(session, name, pools)
        store.replace_nodes(session, name, nodes)
        after = _inventory(session, row)
        if was != _facts(after):
            row.version += 1
            epochs.begin(session, row, "inventory changed", clock)
        return Inventory(row.version, after.pools, after.nodes)


def check_inventory(pools: Sequence[PoolRow], nodes: Sequence[NodeRow]) -> None:
    """Check what the promise rests on.

    Raises:
        Invalid: if names repeat, a node's pool is unknown, or quotas exceed the nodes' GPUs.
    """
    for kind, names in (("pool", [row.name for row in pools]), ("node", [row.name for row in nodes])):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise Invalid(f"{kind} {name!r} is listed twice")
            seen.add(name)
    try:
        quotas = {row.name: Pool(row.name, row.quota_gpus).quota_gpus for row in pools}
        capacity = sum(Node(row.name, row.num_gpus, row.gpu_type, row.pool).num_gpus for row in nodes)
        check_quotas(quotas, capacity if nodes else sum(quotas.values()))
    except ValueError as error:
        raise Invalid(str(error)) from error
    for row in nodes:
        if row.pool is not None and row.pool not in quotas:
            raise Invalid(f"node {row.name!r}: its pool {row.pool!r} is not among the pools")


def monday_before(now: datetime) -> datetime:
    """The Monday, 00:00 UTC, at or before an instant."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=midnight.weekday())


def require(session: Session, name: str) -> ClusterRow:
    """The cluster, not locked.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    row = store.get(session, name)
    if row is None:
        raise UnknownCluster(name)
    return row


def require_version(row: ClusterRow, versions: Versions) -> None:
    """Refuse a change that is based on another version than the present one.

    Raises:
        VersionClash: if so.
    """
    if versions is not None and row.version not in versions:
        raise VersionClash(
            f"cluster {row.name!r} is at version {row.version} by now; look again, then change it"
        )


def _check_policy_of(engine: Engine, name: str, changes: Mapping[str, Any], versions: Versions) -> int:
    """Check the policy as it would be; says for which version of the cluster that holds."""
    with reading(engine) as session:
        row = require(session, name)
    require_version(row, versions)
    check_policy(changes.get("policy", row.policy), changes.get("settings", row.settings))
    return row.version


def _inventory(session: Session, row: ClusterRow) -> Inventory:
    return Inventory(row.version, store.pools(session, row.name), store.nodes(session, row.name))


def _facts(inventory: Inventory) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    return (
        [(row.name, row.quota_gpus, row.is_requeueable) for row in inventory.pools],
        [(row.name, row.num_gpus, row.gpu_type, row.pool) for row in inventory.nodes],
    )


def _require_unused(
    session: Session, cluster: str, before: Inventory, wanted: tuple[Sequence[PoolRow], Sequence[NodeRow]]
) -> None:
    """Refuse to take away what jobs stand on; a quota of 0 drains a pool."""
    pools, nodes = wanted
    gone_pools = {row.name for row in before.pools} - {row.name for row in pools}
    busy_pools = store.unfinished_jobs_by_pool(session, cluster) if gone_pools else {}
    for name in sorted(gone_pools & set(busy_pools)):
        raise Conflict(
            f"pool {name!r} has {busy_pools[name]} unfinished jobs; "
            "give it a quota of 0 and let it drain first"
        )
    sizes = {row.name: row.num_gpus for row in nodes}
    smaller = {row.name for row in before.nodes if sizes.get(row.name, 0) < row.num_gpus}
    for name in sorted(smaller & store.nodes_in_use(session, cluster) if smaller else ()):
        raise Conflict(f"something still runs on node {name!r}; wait until it has ended")
