"""Epochs: where a policy's state begins anew because what it stands on has changed.

Quotas, nodes, the policy, its settings and the history that forecasts learn from are fixed within an epoch.
A new one starts from a snapshot of the unfinished jobs, in the order of their lines. Those that run as own
are own again, also where the quota was cut below their width (they drain), and guests are guests; the
reference begins with the jobs of the snapshot alone, so it can only be earlier than before, and the promise
stricter.
"""

import math
from collections.abc import Sequence
from typing import Any

from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict
from app.services import observe
from app.services.facts import Fact, FactKind
from app.services.times import to_s
from app.store import clusters, live
from app.store.tables import ClusterRow, EnforcedBy, EpochRow, JobRow, NodeRow, PoolRow
from domain.cluster import shrink_quotas


def begin(
    session: Session, cluster: ClusterRow, reason: str, clock: Clock, *, at_s: float | None = None
) -> EpochRow | None:
    """Begin a new epoch; the caller holds the cluster's lock.

    Args:
        session: an open transaction.
        cluster: the locked row.
        reason: what has changed, for people.
        clock: our clock.
        at_s: instant as of which forecasts learn; the last entry's, or now before there is one, where None.

    Returns:
        The epoch; None as long as the cluster has no pools.

    Raises:
        Conflict: if `at_s` lies before the last entry of the log, or ahead of the clock.
    """
    pools = clusters.pools(session, cluster.name)
    if not pools:
        return None
    nodes = clusters.nodes(session, cluster.name)
    quotas, capacity = _quotas_left(cluster, pools, nodes)
    last_s = live.last_at_s(session, cluster)
    now_s = to_s(cluster, clock.now())
    if at_s is not None and not (-math.inf if last_s is None else last_s) <= at_s <= now_s:
        raise Conflict(f"an epoch can begin between the last fact, {last_s} s, and now, {now_s} s")
    if at_s is None:
        at_s = now_s if last_s is None else last_s
    cluster.epoch += 1
    row = EpochRow(
        cluster=cluster.name,
        number=cluster.epoch,
        from_seq=cluster.seq,
        at_s=at_s,
        reason=reason,
        quotas=[[name, quota] for name, quota in quotas.items()],
        capacity_gpus=capacity,
        policy=cluster.policy,
        settings=dict(cluster.settings),
        seed=cluster.seed,
        snapshot=live.rows_as_dicts(live.unfinished(session, cluster.name)),
        nodes=_known_nodes(cluster, nodes),
        created_at=clock.now(),
    )
    session.add(row)
    return row


def is_there(cluster: ClusterRow, node: NodeRow) -> bool:
    """Whether a node's GPUs can be used: it is not lost and, where executors enforce, has reported them."""
    return not node.is_lost and (cluster.enforced_by == EnforcedBy.SCHEDULER or bool(node.gpu_uuids))


def _known_nodes(cluster: ClusterRow, nodes: Sequence[NodeRow]) -> list[list[Any]]:
    """Nodes for which it is known who runs where: name, GPUs and type."""
    if cluster.enforced_by != EnforcedBy.EXECUTORS:
        return []
    return [[node.name, node.num_gpus, node.gpu_type] for node in nodes if is_there(cluster, node)]


def _quotas_left(
    cluster: ClusterRow, pools: Sequence[PoolRow], nodes: Sequence[NodeRow]
) -> tuple[dict[str, int], int]:
    """Quotas and capacity without the nodes that are not there; what nobody was promised goes first."""
    quotas = {pool.name: pool.quota_gpus for pool in pools}
    if not nodes:
        return quotas, sum(quotas.values())
    unpromised = sum(node.num_gpus for node in nodes) - sum(quotas.values())
    for node in nodes:
        if not is_there(cluster, node):
            spared = min(unpromised, node.num_gpus)
            unpromised -= spared
            quotas = shrink_quotas(quotas, node.num_gpus - spared, node.pool)
    return quotas, sum(node.num_gpus for node in nodes if is_there(cluster, node))


def nodes_changed(
    session: Session, cluster: ClusterRow, *, lost: Sequence[str], back: Sequence[str], clock: Clock
) -> None:
    """Nodes are gone, or are back; the caller holds the cluster's lock.

    What ran on a lost node waits again: guests at their place, own jobs at the head of their pool. Quotas
    shrink by the rule of `domain.cluster.shrink_quotas` until the node is back.
    """
    now_s = to_s(cluster, clock.now())
    for node in clusters.nodes(session, cluster.name):
        if node.name in lost:
            node.is_lost = True
        elif node.name in back:
            node.is_lost = False
    gone = set(lost)
    unfinished = live.unfinished(session, cluster.name)
    hit = [job for job in unfinished if any(gpu[0] in gone for gpu in job.gpus)]
    facts = [_waits_again(job, now_s) for job in reversed(hit)]
    observe.record(session, cluster, facts, source="nodes", clock=clock)
    for job in hit:
        for placement in live.wanted_of(session, cluster.name, job.job_id):
            placement.is_wanted = False
            if placement.node in gone:
                placement.ended_at = clock.now()
    session.flush()
    said = [f"{', '.join(names)} {what}" for names, what in ((lost, "lost"), (back, "back")) if names]
    begin(session, cluster, f"nodes: {'; '.join(said)}", clock)


def _waits_again(job: JobRow, now_s: float) -> Fact:
    kind = FactKind.SENT_BACK if job.own_from_s is None else FactKind.RESTARTED
    return Fact(kind, now_s, job.job_id, {"reason": "node lost"})
