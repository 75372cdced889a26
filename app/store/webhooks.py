"""Receivers of a cluster, and the messages to them."""

import json
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, CursorResult
from sqlmodel import Session, and_, col, delete, func, or_, select

from app.store.tables import DeliveryStatus, RunRow, WebhookDeliveryRow, WebhookRow

_TYPE: Final = "run.finished"


class Place(NamedTuple):
    """Where a page ends: in the order newest first, then by id."""

    created_at: datetime
    row_id: str


def get(session: Session, cluster: str, webhook_id: str) -> WebhookRow | None:
    """A receiver of a cluster."""
    row = session.get(WebhookRow, webhook_id)
    return row if row is not None and row.cluster == cluster else None


def add(session: Session, row: WebhookRow) -> None:
    """A new receiver."""
    session.add(row)
    session.flush()


def remove(session: Session, row: WebhookRow) -> None:
    """A receiver goes, and with it what was to be told it."""
    session.delete(row)


def count(session: Session, cluster: str) -> int:
    """How many receivers a cluster has."""
    query = select(func.count()).select_from(WebhookRow).where(WebhookRow.cluster == cluster)
    return session.exec(query).one()


def page(session: Session, cluster: str, before: Place | None, limit: int) -> Sequence[WebhookRow]:
    """Receivers of a cluster, newest first, from behind `before` on."""
    created_at, row_id = col(WebhookRow.created_at), col(WebhookRow.webhook_id)
    query = select(WebhookRow).where(WebhookRow.cluster == cluster)
    if before is not None:
        query = query.where(
            or_(created_at < before.created_at, and_(created_at == before.created_at, row_id < before.row_id))
        )
    return session.exec(query.order_by(created_at.desc(), row_id.desc()).limit(limit)).all()


def deliveries(
    session: Session, webhook_id: str, before: Place | None, limit: int
) -> Sequence[WebhookDeliveryRow]:
    """Messages to a receiver, newest first, from behind `before` on."""
    created_at, row_id = col(WebhookDeliveryRow.created_at), col(WebhookDeliveryRow.delivery_id)
    query = select(WebhookDeliveryRow).where(WebhookDeliveryRow.webhook_id == webhook_id)
    if before is not None:
        query = query.where(
            or_(created_at < before.created_at, and_(created_at == before.created_at, row_id < before.row_id))
        )
    return session.exec(query.order_by(created_at.desc(), row_id.desc()).limit(limit)).all()


def delivery(session: Session, delivery_id: str) -> WebhookDeliveryRow | None:
    """A message as it is now; whoever else asks for it waits until the transaction ends."""
    query = select(WebhookDeliveryRow).where(WebhookDeliveryRow.delivery_id == delivery_id)
    locked = query.with_for_update().execution_options(populate_existing=True)
    return session.exec(locked).one_or_none()


def queue(session: Session, run: RunRow, now: datetime) -> None:
    """A run has ended: a message for each receiver that wants to know, in the same transaction."""
    receivers = session.exec(select(WebhookRow).where(WebhookRow.cluster == run.cluster)).all()
    for receiver in receivers:
        if receiver.kinds and run.kind not in receiver.kinds:
            continue
        delivery_id = f"msg-{secrets.token_hex(16)}"
        session.add(
            WebhookDeliveryRow(
                delivery_id=delivery_id,
                webhook_id=receiver.webhook_id,
                run_id=run.run_id,
                body=_body(run, now),
                next_at=now,
                created_at=now,
            )
        )


def due(session: Session, now: datetime) -> Sequence[str]:
    """Receivers for which there are messages whose time has come."""
    return session.exec(select(WebhookDeliveryRow.webhook_id).where(_is_due(now)).distinct()).all()


def claim(
    session: Session, webhook_ids: Sequence[str], now: datetime, *, per_receiver: int, hold_s: float
) -> list[WebhookDeliveryRow]:
    """Take messages whose time has come, at most so many of each receiver: none is held up by another.

    They are put off by `hold_s`, so that they are tried again if whoever took them dies.
    """
    taken: list[WebhookDeliveryRow] = []
    for webhook_id in webhook_ids:
        query = select(WebhookDeliveryRow).where(WebhookDeliveryRow.webhook_id == webhook_id, _is_due(now))
        ordered = query.order_by(col(WebhookDeliveryRow.next_at), col(WebhookDeliveryRow.delivery_id))
        taken += session.exec(ordered.limit(per_receiver).with_for_update(skip_locked=True)).all()
    for row in taken:
        row.next_at = now + timedelta(seconds=hold_s)
        row.attempts += 1
    session.flush()
    return taken


def receivers(session: Session, webhook_ids: set[str]) -> dict[str, WebhookRow]:
    """Receivers by id."""
    query = select(WebhookRow).where(col(WebhookRow.webhook_id).in_(webhook_ids))
    return {row.webhook_id: row for row in session.exec(query)}


def forget(session: Session, before: datetime) -> int:
    """Remove messages that were made before an instant and are not pending; returns how many."""
    done: CursorResult[Any] = session.exec(
        delete(WebhookDeliveryRow).where(
            col(WebhookDeliveryRow.status) != DeliveryStatus.PENDING.value,
            col(WebhookDeliveryRow.created_at) < before,
        )
    )
    return done.rowcount


def _is_due(now: datetime) -> ColumnElement[bool]:
    is_pending = col(WebhookDeliveryRow.status) == DeliveryStatus.PENDING.value
    return is_pending & (col(WebhookDeliveryRow.next_at) <= now)


def _body(run: RunRow, now: datetime) -> str:
    """The message. It says that the run is over and where it is found, not what it found."""
    said = {
        "type": _TYPE,
        "timestamp": now.isoformat(),
        "data": {
            "run_id": run.run_id,
            "cluster": run.cluster,
            "kind": run.kind,
            "status": run.status,
            "error": run.error,
            "requested_by": run.requested_by,
            "requested_at": run.requested_at.isoformat(),
            "finished_at": None if run.finished_at is None else run.finished_at.isoformat(),
            "location": f"/v1/runs/{run.run_id}",
        },
    }
    return json.dumps(said, separators=(",", ":"), sort_keys=True, allow_nan=False)
