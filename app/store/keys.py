"""API keys."""

from collections.abc import Sequence

from sqlmodel import Session, col, select

from app.store.tables import ApiKeyRow


def get(session: Session, key_id: str) -> ApiKeyRow | None:
    """A key by its id, revoked or not."""
    return session.get(ApiKeyRow, key_id)


def add(session: Session, row: ApiKeyRow) -> None:
    """Keep a new key."""
    session.add(row)


def all_keys(session: Session) -> Sequence[ApiKeyRow]:
    """All keys, the oldest first."""
    query = select(ApiKeyRow).order_by(col(ApiKeyRow.created_at), col(ApiKeyRow.key_id))
    return session.exec(query).all()
