"""Webhooks on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.schemas.base import Received, Sent
from app.schemas.runs import RunName


class WebhookIn(Received):
    """Who is to be told when runs of the cluster end."""

    url: Annotated[
        str,
        Field(
            min_length=8,
            max_length=2048,
            description="https; http to this machine only",
            examples=["https://hooks.example.org/antecast"],
        ),
    ]
    kinds: Annotated[
        list[RunName],
        Field(max_length=16, description="kinds of runs; none means all", examples=[["replan", "train"]]),
    ] = Field(default_factory=list)


class WebhookOut(Sent):
    """A receiver. Its secret is not shown again."""

    webhook_id: str = Field(examples=["wh-5f0c1d2e3f405162738495a6"])
    cluster: str
    url: str
    kinds: list[RunName]
    created_by: str
    created_at: datetime


class WebhookMade(WebhookOut):
    """A receiver and its secret, shown this once."""

    secret: str = Field(
        description="signs what is sent: see the page on webhooks",
        examples=["whsec_pbb6r1L9kXv0wYkq2tTn8wX5jQ7m1cZ0l3uV4aB6dEg="],
    )


class WebhooksOut(Sent):
    """A page of a cluster's receivers, the newest first."""

    items: list[WebhookOut]
    next: str | None = Field(description="give it as `before` for the next page; null on the last")


class DeliveryState(StrEnum):
    """Where a delivery is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class DeliveryOut(Sent):
    """One message to a receiver."""

    delivery_id: str = Field(description="also what `webhook-id` says", examples=["msg-0a1b2c"])
    run_id: str
    status: DeliveryState
    attempts: int = Field(description="how often it was sent since it was last asked for")
    next_at: datetime = Field(description="where it is pending: when it is tried")
    answered: int | None = Field(description="status of the last answer")
    error: str | None = Field(description="why the last attempt failed")
    created_at: datetime
    delivered_at: datetime | None


class DeliveriesOut(Sent):
    """A page of what a receiver was told, or is to be, the newest first."""

    items: list[DeliveryOut]
    next: str | None = Field(description="give it as `before` for the next page; null on the last")
