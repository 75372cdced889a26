"""API keys."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlmodel import Session, and_, col, or_, select, update

from app.store.tables import ApiKeyRow


def get(session: Session, key_id: str) -> ApiKeyRow | None:
    """A key by its id, revoked or not."""
    return session.get(ApiKeyRow, key_id)


def add(session: Session, row: ApiKeyRow) -> None:
    """Keep a new key."""
    session.add(row)


def lock(session: Session, key_id: str) -> ApiKeyRow | None:
    """A key as it is now; whoever else asks for it waits until the transaction ends."""
    query = select(ApiKeyRow).where(ApiKeyRow.key_id == key_id).with_for_update()
    return session.exec(query.execution_options(populate_existing=True)).one_or_none()


def successor(session: Session, key_id: str) -> ApiKeyRow | None:
    """The key that replaces another by rotation."""
    return session.exec(select(ApiKeyRow).where(ApiKeyRow.replaces == key_id)).first()


def page(session: Session, after: ApiKeyRow | None, limit: int | None) -> Sequence[ApiKeyRow]:
    """Keys, the oldest first, those behind `after`; all of them where there is no limit."""
    query = select(ApiKeyRow).order_by(col(ApiKeyRow.created_at), col(ApiKeyRow.key_id))
    if after is not None:
        query = query.where(
            or_(
                col(ApiKeyRow.created_at) > after.created_at,
                and_(col(ApiKeyRow.created_at) == after.created_at, col(ApiKeyRow.key_id) > after.key_id),
            )
        )
    return session.exec(query.limit(limit)).all()


def used(session: Session, last_at: Mapping[str, datetime]) -> None:
    """Put down when keys were last used; an earlier instant than is known changes nothing."""
    for key_id, at in sorted(last_at.items()):
        statement = update(ApiKeyRow).where(
            col(ApiKeyRow.key_id) == key_id,
            or_(col(ApiKeyRow.last_used_at).is_(None), col(ApiKeyRow.last_used_at) < at),
        )
        session.exec(statement.values(last_used_at=at).execution_options(synchronize_session=False))
