"""How far a decision goes: whether the cluster lends, who carries out, and the kill switch."""

from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.services.times import to_s
from app.store import modes as store
from app.store import plans
from app.store.engine import lock_cluster, transaction
from app.store.tables import ActionStatus, Approval, ClusterRow, EnforcedBy, Mode

Json = dict[str, Any]

STOPPED: Final = "lending is stopped"
"""Why a guest of a plan does not start."""


def lends(cluster: ClusterRow) -> bool:
    """Whether a guest may be started: nobody has thrown the kill switch, and more is wanted than a look."""
    return cluster.is_lending and cluster.mode != Mode.OBSERVE


def is_pushed(cluster: ClusterRow) -> bool:
    """Whether plans reach the nodes: executors carry them out, and the cluster is not only observed."""
    return cluster.enforced_by == EnforcedBy.EXECUTORS and cluster.mode != Mode.OBSERVE


def waits_for_approval(cluster: ClusterRow) -> bool:
    """Whether a plan has to be approved first. In an observed cluster nothing comes of a plan at all."""
    return cluster.mode == Mode.OBSERVE or cluster.approval == Approval.REQUIRED


def follows_events(cluster: ClusterRow) -> bool:
    """Whether each event leads to a plan: it goes out by itself, and nobody else would ask for it.

    Where somebody approves plans, a draft has to stand still for as long as it is looked at.
    """
    return is_pushed(cluster) and not waits_for_approval(cluster)


def without_guests(answer: Json) -> Json:
    """An answer that lends nothing: guests that were to start are dropped, and it says why."""
    guests = [start["job_id"] for start in answer["starts"] if start["is_guest"]]
    return {
        **answer,
        "starts": [start for start in answer["starts"] if not start["is_guest"]],
        "dropped": [
            *answer.get("dropped", ()),
            *({"job_id": job_id, "why": STOPPED} for job_id in guests),
        ],
    }


def stop_lending(engine: Engine, name: str, clock: Clock) -> ClusterRow:
    """The kill switch: from the end of this transaction on no guest starts. Once or twice is the same.

    Whoever carries a decision or a plan out asks `lends` under the cluster's lock, so one that began before
    lends no more either. Guests that run are left until their GPUs are wanted.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    with transaction(engine) as session:
        row = lock_cluster(session, name)
        if row.is_lending:
            row.is_lending = False
            row.version += 1
            close_all(session, row, clock)
        return row


def close_all(session: Session, cluster: ClusterRow, clock: Clock) -> None:
    """Nothing comes any more of plans and actions that are open; the caller holds the cluster's lock."""
    plans.close_open(session, cluster.name, to_s(cluster, clock.now()), plans.OPEN)
    for action in store.open_actions(session, cluster.name):
        action.status = ActionStatus.WITHDRAWN.value
        action.closed_at = clock.now()
    session.flush()
