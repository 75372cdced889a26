"""Approving and rejecting plans: one reviewer succeeds, and nothing that is over goes out."""

from collections.abc import Sequence

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, UnknownResource, VersionClash
from app.services import modes, planning
from app.services.clusters import Versions, require
from app.services.times import to_s
from app.store import plans
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, Mode, PlanRow, PlanStatus


def page(
    engine: Engine, name: str, *, before: int | None, limit: int
) -> tuple[ClusterRow, Sequence[PlanRow]]:
    """Plans, newest first, those with a lower number than `before`, and their cluster.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    with reading(engine) as session:
        return require(session, name), plans.page(session, name, before=before, limit=limit)


def approve(
    engine: Engine, name: str, plan_id: str, versions: Versions, *, reviewer: str, clock: Clock
) -> tuple[ClusterRow, PlanRow]:
    """Approve a draft: it goes out in the same transaction, so nobody sees one that is half carried out.

    Args:
        engine: the database.
        name: the cluster's.
        plan_id: the plan's.
        versions: of the plan, those that the reviewer may have seen.
        reviewer: who approves.
        clock: ours.

    Raises:
        UnknownCluster: if there is no cluster of that name.
        UnknownResource: if it has no such plan.
        VersionClash: if somebody was faster.
        Conflict: if it is no draft (any more), has expired, is of an older epoch or another mode, or nothing
            may come of plans here.
    """
    refused = None
    with transaction(engine) as session:
        cluster = lock_cluster(session, name)
        plan = _under_review(session, cluster, plan_id, versions)
        refused = _why_not(cluster, plan, clock)
        if refused is None:
            plans.supersede_others(session, plan, to_s(cluster, clock.now()))
            planning.go_out(session, cluster, plan, clock)
            _correct_decision(session, plan)
            _sign(plan, reviewer, clock)
    if refused is not None:  # what the plan has become is kept
        raise Conflict(refused)
    return cluster, plan


def reject(
    engine: Engine, name: str, plan_id: str, versions: Versions, *, reviewer: str, clock: Clock
) -> tuple[ClusterRow, PlanRow]:
    """Reject a draft.

    Raises:
        As `approve`, but an old draft may be rejected.
    """
    with transaction(engine) as session:
        cluster = lock_cluster(session, name)
        plan = _under_review(session, cluster, plan_id, versions)
        plan.status = PlanStatus.REJECTED.value
        _sign(plan, reviewer, clock)
        return cluster, plan


def _under_review(session: Session, cluster: ClusterRow, plan_id: str, versions: Versions) -> PlanRow:
    plan = plans.by_id(session, cluster.name, plan_id)  # not `latest`: that is another one a moment later
    if plan is None:
        raise UnknownResource(f"cluster {cluster.name} has no plan {plan_id!r}")
    if versions is not None and plan.version not in versions:
        raise VersionClash(
            f"plan {plan.plan_id} is at version {plan.version} by now and is {plan.status}; look again"
        )
    if plan.status != PlanStatus.DRAFT:
        raise Conflict(f"plan {plan.plan_id} is {plan.status}: only drafts are reviewed")
    return plan


def _why_not(cluster: ClusterRow, plan: PlanRow, clock: Clock) -> str | None:
    """Why a draft may not go out; one that never can any more is closed."""
    if cluster.mode == Mode.OBSERVE:
        return f"cluster {cluster.name} is only observed: nothing comes of its plans"
    if planning.has_expired(cluster, plan, clock):
        plan.status, why = PlanStatus.EXPIRED.value, "has expired"
    elif plan.epoch != cluster.epoch:
        plan.status, why = PlanStatus.SUPERSEDED.value, f"is of epoch {plan.epoch}, now is {cluster.epoch}"
    elif plan.mode != cluster.mode:
        plan.status, why = PlanStatus.SUPERSEDED.value, f"was made in mode {plan.mode}"
    elif modes.is_pushed(cluster) and plan.decided_seq is None:
        plan.status, why = PlanStatus.SUPERSEDED.value, "has no entry in the log"
    else:
        return None
    plan.version += 1
    return f"plan {plan.plan_id} {why}: ask for another, POST .../replans"


def _correct_decision(session: Session, plan: PlanRow) -> None:
    """The decision behind a plan says what has come of it."""
    if plan.decided_seq is None:
        return
    made = plans.decision(session, plan.cluster, plan.decided_seq)
    if made is not None:
        made.answer = planning.decided_answer(plan)


def _sign(plan: PlanRow, reviewer: str, clock: Clock) -> None:
    plan.reviewed_by, plan.reviewed_at = reviewer[:255], clock.now()
    plan.version += 1
