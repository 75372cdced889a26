"""Receivers of a cluster: made and removed by admins, and what they were told."""

import secrets
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, UnknownResource
from app.services import webhook_secrets
from app.services.clusters import require
from app.services.webhook_post import target_of
from app.settings import ServiceSettings
from app.store import webhooks as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import DeliveryStatus, WebhookDeliveryRow, WebhookRow

MAX_RECEIVERS: Final = 20
"""Of one cluster."""


def create(
    engine: Engine,
    settings: ServiceSettings,
    cluster: str,
    *,
    url: str,
    kinds: Sequence[str],
    created_by: str,
    clock: Clock,
) -> tuple[WebhookRow, str]:
    """Make a receiver; returns it and its secret, which is shown this once.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has too many already, or there is nowhere to keep the key.
        SettingError: if the url is not allowed, or the key cannot be read.
    """
    target_of(url, allows_private=settings.webhook_private)
    key = webhook_secrets.read_key(settings, may_create=True)
    row = WebhookRow(
        webhook_id=f"wh-{secrets.token_hex(12)}",
        cluster=cluster,
        url=url,
        kinds=sorted(set(kinds)),
        nonce=secrets.token_hex(16),
        created_by=created_by[:63],
        created_at=clock.now(),
    )
    with transaction(engine) as session:
        lock_cluster(session, cluster)
        if store.count(session, cluster) >= MAX_RECEIVERS:
            raise Conflict(f"cluster {cluster} has {MAX_RECEIVERS} webhooks already: remove one first")
        store.add(session, row)
    return row, webhook_secrets.secret_of(key, row.webhook_id, row.nonce)


def rotate(
    engine: Engine, settings: ServiceSettings, cluster: str, webhook_id: str
) -> tuple[WebhookRow, str]:
    """Give a receiver a new secret; what is sent from now on is signed with it.

    Raises:
        UnknownResource: if there is no such receiver.
        SettingError, Conflict: as `create`.
    """
    key = webhook_secrets.read_key(settings, may_create=True)
    with transaction(engine) as session:
        row = _require(session, cluster, webhook_id)
        row.nonce = secrets.token_hex(16)
    return row, webhook_secrets.secret_of(key, row.webhook_id, row.nonce)


def remove(engine: Engine, cluster: str, webhook_id: str) -> None:
    """Remove a receiver, and with it what it has not been told yet.

    Raises:
        UnknownResource: if there is no such receiver.
    """
    with transaction(engine) as session:
        store.remove(session, _require(session, cluster, webhook_id))


def get(engine: Engine, cluster: str, webhook_id: str) -> WebhookRow:
    """A receiver.

    Raises:
        UnknownResource: if there is none of that id.
    """
    with reading(engine) as session:
        return _require(session, cluster, webhook_id)


def page(engine: Engine, cluster: str, before: str | None, limit: int) -> Sequence[WebhookRow]:
    """Receivers of a cluster, newest first; only those older than the one of id `before`.

    Raises:
        UnknownResource: if there is no such cluster, or it has no such receiver.
    """
    with reading(engine) as session:
        require(session, cluster)
        place = None
        if before is not None:
            last = _require(session, cluster, before)
            place = store.Place(last.created_at, last.webhook_id)
        return store.page(session, cluster, place, limit)


def deliveries(
    engine: Engine, cluster: str, webhook_id: str, before: str | None, limit: int
) -> Sequence[WebhookDeliveryRow]:
    """What a receiver was told, or is to be, newest first; only messages older than the one of id `before`.

    Raises:
        UnknownResource: if there is no such receiver or no such message.
    """
    with reading(engine) as session:
        _require(session, cluster, webhook_id)
        place = None
        if before is not None:
            last = _require_delivery(session, webhook_id, before)
            place = store.Place(last.created_at, last.delivery_id)
        return store.deliveries(session, webhook_id, place, limit)


def deliver_again(
    engine: Engine, cluster: str, webhook_id: str, delivery_id: str, clock: Clock
) -> WebhookDeliveryRow:
    """Try a message anew, also one that was given up; the receiver knows it by its id.

    Raises:
        UnknownResource: if there is no such receiver or no such message.
    """
    with transaction(engine) as session:
        _require(session, cluster, webhook_id)
        row = _require_delivery(session, webhook_id, delivery_id)
        row.status = DeliveryStatus.PENDING.value
        row.attempts = 0
        row.next_at = clock.now()
        row.delivered_at = None
        return row


def _require(session: Session, cluster: str, webhook_id: str) -> WebhookRow:
    require(session, cluster)
    row = store.get(session, cluster, webhook_id)
    if row is None:
        raise UnknownResource(f"cluster {cluster!r} has no webhook {webhook_id!r}")
    return row


def _require_delivery(session: Session, webhook_id: str, delivery_id: str) -> WebhookDeliveryRow:
    row = store.delivery(session, delivery_id)
    if row is None or row.webhook_id != webhook_id:
        raise UnknownResource(f"webhook {webhook_id!r} has no delivery {delivery_id!r}")
    return row
