"""Plans and decisions."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlmodel import Session, col, select

from app.store.tables import DecisionRow, PlanRow, PlanStatus

OPEN: Final = (PlanStatus.DRAFT.value, PlanStatus.APPROVED.value)
"""Plans of which something may still come."""


def by_run(session: Session, run_id: str) -> PlanRow | None:
    """The plan a run made."""
    return session.exec(select(PlanRow).where(PlanRow.run_id == run_id)).one_or_none()


def by_id(session: Session, cluster: str, plan_id: str) -> PlanRow | None:
    """A plan of a cluster."""
    plan = session.get(PlanRow, plan_id)
    return plan if plan is not None and plan.cluster == cluster else None


def latest(session: Session, cluster: str) -> PlanRow | None:
    """The newest plan."""
    query = select(PlanRow).where(PlanRow.cluster == cluster).order_by(col(PlanRow.number).desc()).limit(1)
    return session.exec(query).one_or_none()


def ask_again_s(session: Session, cluster: str, epoch: int) -> float | None:
    """When the newest plan wants to be asked again (cluster's clock), if it is of this epoch."""
    query = select(PlanRow.epoch, col(PlanRow.content)["ask_again_s"].as_float())
    query = query.where(PlanRow.cluster == cluster).order_by(col(PlanRow.number).desc()).limit(1)
    found = session.exec(query).one_or_none()
    return found[1] if found is not None and found[0] == epoch else None


def page(session: Session, cluster: str, *, before: int | None, limit: int) -> Sequence[PlanRow]:
    """Plans, newest first, those with a lower number than `before`."""
    query = select(PlanRow).where(PlanRow.cluster == cluster)
    if before is not None:
        query = query.where(col(PlanRow.number) < before)
    return session.exec(query.order_by(col(PlanRow.number).desc()).limit(limit)).all()


def add(session: Session, plan: PlanRow) -> None:
    """Add a plan under the next number. Older ones of which nothing has come yet are superseded.

    One that is carried out stays in force until another is.
    """
    before = latest(session, plan.cluster)
    plan.number = 1 if before is None else before.number + 1
    close_open(session, plan.cluster, plan.at_s)
    if plan.status in (PlanStatus.APPLIED, PlanStatus.APPROVED):
        supersede_others(session, plan, plan.at_s)
    session.add(plan)
    session.flush()


def close_open(
    session: Session, cluster: str, now_s: float, statuses: Collection[str] = (PlanStatus.DRAFT.value,)
) -> None:
    """Nothing comes of drafts any more, or of all plans of some statuses: expired or superseded."""
    query = select(PlanRow).where(PlanRow.cluster == cluster, col(PlanRow.status).in_(statuses))
    for row in session.exec(query).all():
        _close(row, now_s)
    session.flush()


def supersede_others(session: Session, plan: PlanRow, now_s: float) -> None:
    """A plan is about to go out: what was in force is so no more."""
    row = in_force(session, plan.cluster)
    if row is not None and row.plan_id != plan.plan_id:
        _close(row, now_s)
        session.flush()


def _close(row: PlanRow, now_s: float) -> None:
    is_over = row.status in OPEN and row.expires_s is not None and row.expires_s < now_s
    row.status = (PlanStatus.EXPIRED if is_over else PlanStatus.SUPERSEDED).value
    row.version += 1


def in_force(session: Session, cluster: str) -> PlanRow | None:
    """The plan that the cluster follows: carried out, or approved for a scheduler that carries it out."""
    wanted = (PlanStatus.APPLIED.value, PlanStatus.APPROVED.value)
    query = select(PlanRow).where(PlanRow.cluster == cluster, col(PlanRow.status).in_(wanted))
    return session.exec(query.order_by(col(PlanRow.number).desc()).limit(1)).one_or_none()


def one_before(session: Session, plan: PlanRow) -> PlanRow | None:
    """The plan with the number before."""
    query = select(PlanRow).where(PlanRow.cluster == plan.cluster, col(PlanRow.number) < plan.number)
    return session.exec(query.order_by(col(PlanRow.number).desc()).limit(1)).one_or_none()


def decision(session: Session, cluster: str, seq: int) -> DecisionRow | None:
    """The decision that a log entry stands for."""
    return session.get(DecisionRow, (cluster, seq))


def decisions(session: Session, cluster: str) -> Sequence[DecisionRow]:
    """All decisions in their order."""
    query = select(DecisionRow).where(DecisionRow.cluster == cluster).order_by(col(DecisionRow.seq))
    return session.exec(query).all()


def latest_decision(session: Session, cluster: str) -> DecisionRow | None:
    """The newest decision."""
    query = select(DecisionRow).where(DecisionRow.cluster == cluster).order_by(col(DecisionRow.seq).desc())
    return session.exec(query.limit(1)).one_or_none()
