"""What explanations look up: the latest fact of a kind about a job, and the decision before an entry."""

from sqlmodel import Session, col, select

from app.store.tables import DecisionRow, LogRow


def last_fact(session: Session, cluster: str, job_id: str, kind: str) -> LogRow | None:
    """The latest entry of a kind about a job."""
    query = select(LogRow).where(LogRow.cluster == cluster, LogRow.job_id == job_id, LogRow.kind == kind)
    return session.exec(query.order_by(col(LogRow.seq).desc()).limit(1)).one_or_none()


def decision_before(session: Session, cluster: str, seq: int) -> DecisionRow | None:
    """The newest decision before an entry of the log."""
    query = select(DecisionRow).where(DecisionRow.cluster == cluster, col(DecisionRow.seq) < seq)
    return session.exec(query.order_by(col(DecisionRow.seq).desc()).limit(1)).one_or_none()
