"""Plans."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field


class PlanStatus(StrEnum):
    """What became of a plan."""

    PUBLISHED = "published"
    SUPERSEDED = "superseded"


class PlanRow(SQLModel, table=True):
    """A plan made by a run. A run makes at most one, however often it is resumed."""

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
    content: Json = json_field()
    content_sha256: str = Field(max_length=64)
    created_at: datetime = instant_field()
