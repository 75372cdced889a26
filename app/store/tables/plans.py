"""Plans."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Column, UniqueConstraint
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field
from app.store.types import JsonColumn


class PlanStatus(StrEnum):
    """What became of a plan. The first two are open: something may still come of it."""

    DRAFT = "draft"
    APPROVED = "approved"
    APPLIED = "applied"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    REJECTED = "rejected"


class PlanRow(SQLModel, table=True):
    """A plan made by a run. A run makes at most one, however often it is resumed.

    `version` is what If-Match has to name. `expires_s`: it is not carried out after this instant. `mode`: the
    cluster's when the plan was made. `decided_seq`: its entry in the log, where it has one. `churn`: share of
    what the plan before said that is no longer so, or is new. `hold_checks`: what its holds came to.
    """

    __tablename__ = "plans"
    __table_args__ = (UniqueConstraint("cluster", "number"),)

    plan_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name", index=True)
    number: int
    run_id: str = Field(unique=True, max_length=64)
    epoch: int
    seq_seen: int
    seq: int
    at_s: float
    status: str = Field(max_length=16)
    version: int = 1
    mode: str = Field(default="enforce", max_length=16)
    decided_seq: int | None = None
    expires_s: float | None = None
    churn: float | None = None
    reviewed_by: str | None = Field(default=None, max_length=255)
    reviewed_at: datetime | None = instant_field(nullable=True)
    applied_at: datetime | None = instant_field(nullable=True)
    hold_checks: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    content: Json = json_field()
    content_sha256: str = Field(max_length=64)
    created_at: datetime = instant_field()
