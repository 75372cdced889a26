"""Who wants to be told when runs end, and what is to be told."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Column, Index, Text
from sqlmodel import Field, SQLModel

from app.store.tables.base import instant_field
from app.store.types import JsonColumn


class DeliveryStatus(StrEnum):
    """Where a delivery is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class WebhookRow(SQLModel, table=True):
    """A receiver of one cluster. Its secret is not here: it follows from the service's key and the nonce.

    `kinds`: of runs; none means all of them.
    """

    __tablename__ = "webhooks"

    webhook_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name", index=True)
    url: str = Field(max_length=2048)
    kinds: list[str] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    nonce: str = Field(max_length=64)
    created_by: str = Field(max_length=63)
    created_at: datetime = instant_field()


class WebhookDeliveryRow(SQLModel, table=True):
    """One message to one receiver, written with the end of the run that it tells of.

    `next_at`: when it is tried (again), where it is pending. `body`: the bytes that are signed and sent.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_page", "webhook_id", "created_at", "delivery_id"),
        Index("ix_webhook_deliveries_due", "status", "next_at"),
    )

    delivery_id: str = Field(primary_key=True, max_length=64)
    webhook_id: str = Field(foreign_key="webhooks.webhook_id", max_length=64, ondelete="CASCADE")
    run_id: str = Field(max_length=64)
    body: str = Field(sa_column=Column(Text, nullable=False))
    status: str = Field(default=DeliveryStatus.PENDING.value, max_length=16)
    attempts: int = 0
    next_at: datetime = instant_field()
    answered: int | None = None
    error: str | None = Field(default=None, max_length=500)
    created_at: datetime = instant_field()
    delivered_at: datetime | None = instant_field(nullable=True)
