"""Plans and decisions."""

from collections.abc import Sequence

from sqlmodel import Session, col, select

from app.store.tables import DecisionRow, PlanRow, PlanStatus


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
    """Add a plan under the next number; the one before it is superseded."""
    before = latest(session, plan.cluster)
    plan.number = 1 if before is None else before.number + 1
    if before is not None:
        before.status = PlanStatus.SUPERSEDED.value
    session.add(plan)
    session.flush()


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
