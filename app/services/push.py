"""Plan -> push: what is wanted on each node, as one whole document that its executor polls for.

A document is a function of the placements that are wanted and of their jobs, of nothing else, so that
making it again changes nothing; where what it is made of has not changed, it is not made. Generations are
numbered through a whole cluster: whoever publishes holds the cluster's lock, so their order is that of the
commits, and a reader that has seen one generation has missed none before it.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import structlog
from sqlmodel import Session

from app.clock import Clock
from app.store import executors as store
from app.store.engine import lock_cluster
from app.store.tables import DesiredRow, PlacementRow

DEFAULT_VALID_FOR_S: Final = 600.0
"""For how long a node may start what a document wants after it has last heard of the control plane."""

MAX_GRACE_S: Final = 3600.0
_FORMAT: Final = 1
"""To be raised whenever documents say the same in another way: all are then made anew."""

_HASHED: Final = ("epoch", "generation", "valid_for_s", "plan_id", "placements", "actions")
_BELOW_NORMAL_ROLES: Final = ("guest", "rider")

_log = structlog.get_logger(__name__)


def publish(
    session: Session, cluster: str, clock: Clock, *, nodes: Collection[str] | None = None
) -> list[str]:
    """Make the documents of nodes anew; where one says something new, it is the node's next generation.

    Args:
        session: an open transaction. The cluster is locked here, if it is not yet.
        cluster: its name.
        clock: our clock.
        nodes: only these; all where it is left out.

    Returns:
        The nodes whose document has changed, in order.
    """
    epoch = lock_cluster(session, cluster).epoch
    session.flush()
    uuids = store.uuids(session, cluster, nodes)
    wishes = store.wishes(session, cluster, nodes)
    before = store.versions(session, cluster)
    digests = {node: _wish_hash(wishes.get(node, ()), uuids[node]) for node in uuids}
    changed = sorted(
        node for node in uuids if node not in before or before[node].content_sha256 != digests[node]
    )
    last = max((version.generation for version in before.values()), default=0)
    for node, content in _contents(session, cluster, changed, uuids).items():
        now_epoch = max(epoch, before[node].epoch) if node in before else epoch
        row = DesiredRow(
            cluster=cluster,
            node=node,
            epoch=now_epoch,
            generation=last + 1,
            document=seal(content, epoch=now_epoch, generation=last + 1),
            content_sha256=digests[node],
            changed_at=clock.now(),
        )
        store.put_desired(session, row)
    session.flush()
    return changed


def seal(content: Mapping[str, Any], *, epoch: int, generation: int) -> dict[str, Any]:
    """A whole document: the content, its version and the hash over both."""
    document = {**content, "epoch": epoch, "generation": generation}
    return {**document, "hash": document_hash(document)}


def document_hash(document: Mapping[str, Any]) -> str:
    """Hash of a document, by which an executor sees that it has all of it."""
    return _sha256({name: document[name] for name in _HASHED})


def content_of(
    placements: Sequence[PlacementRow],
    specs: Mapping[str, Mapping[str, Any]],
    uuids: Sequence[str],
    plan_numbers: Mapping[str, int],
) -> dict[str, Any]:
    """What is wanted on one node.

    Args:
        placements: those that are wanted there.
        specs: what the jobs launch, by job.
        uuids: the node's GPUs in the order of their index.
        plan_numbers: numbers of the plans that the placements come from, by id.
    """
    entries = []
    for row in sorted(placements, key=lambda row: row.placement_id):
        spec = specs.get(row.job_id) or {}
        if spec.get("argv") and all(0 <= index < len(uuids) for index in row.gpu_indices):
            entries.append(_entry(row, spec, [uuids[index] for index in row.gpu_indices]))
        else:
            # Neither can be seen on the node: it has no executor yet, or its scheduler launches jobs.
            _log.warning("placement_not_pushed", placement_id=row.placement_id, node=row.node)
    plans = [row.plan_id for row in placements if row.plan_id is not None]
    newest = max(plans, key=lambda plan: (plan_numbers.get(plan, 0), plan), default=None)
    return {"valid_for_s": DEFAULT_VALID_FOR_S, "plan_id": newest, "placements": entries, "actions": []}


def _wish_hash(wishes: Sequence[Sequence[Any]], uuids: Sequence[str]) -> str:
    """Hash of what a node's document is made of, but for what jobs launch, which never changes."""
    return _sha256({"format": _FORMAT, "wishes": [list(wish) for wish in wishes], "uuids": list(uuids)})


def _contents(
    session: Session, cluster: str, nodes: Sequence[str], uuids: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    if not nodes:
        return {}
    rows = store.wanted(session, cluster, nodes)
    specs = store.specs(session, cluster, (row.job_id for row in rows))
    numbers = store.plan_numbers(session, {row.plan_id for row in rows if row.plan_id is not None})
    by_node: dict[str, list[PlacementRow]] = defaultdict(list)
    for row in rows:
        by_node[row.node].append(row)
    return {node: content_of(by_node[node], specs, uuids[node], numbers) for node in nodes}


def _entry(row: PlacementRow, spec: Mapping[str, Any], gpus: list[str]) -> dict[str, Any]:
    env = {str(name): str(value) for name, value in (spec.get("env") or {}).items()}
    env["ANTECAST_JOB_ID"] = row.job_id
    env["ANTECAST_RANK"] = str(row.rank)
    env["ANTECAST_NUM_RANKS"] = str(row.num_ranks)
    return {
        "placement_id": row.placement_id,
        "job_id": row.job_id,
        "rank": row.rank,
        "num_ranks": row.num_ranks,
        "argv": [str(argument) for argument in spec["argv"]],
        "env": env,
        "gpus": gpus,
        "share_pct": float(row.share_pct),
        "memory_mib": spec.get("memory_mib"),
        "priority": int(row.role in _BELOW_NORMAL_ROLES),
        "state": row.state,
        "grace_s": min(max(float(spec.get("grace_s", 5.0)), 0.0), MAX_GRACE_S),
        "on_disconnect": spec.get("on_disconnect", "hold"),
        "role": row.role,
    }


def _sha256(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
