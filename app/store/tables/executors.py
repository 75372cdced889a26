"""Executors, what is wanted on their nodes, and what they say of it."""

from datetime import datetime
from typing import Final

from sqlalchemy import Column, Index, text
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field
from app.store.types import JsonColumn


class ExecutorRow(SQLModel, table=True):
    """An executor on a node: one row per enrolment, at most one of a node that is not revoked."""

    __tablename__ = "executors"

    executor_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name", index=True)
    node: str = Field(max_length=255)
    secret_sha256: str = Field(max_length=64)
    version: str = Field(default="", max_length=63)
    session: int = 0
    boot_id: str = Field(default="", max_length=64)
    lease_until: datetime | None = instant_field(nullable=True)
    is_lost: bool = False
    is_revoked: bool = False
    observed_epoch: int = 0
    observed_generation: int = 0
    devices: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    capabilities: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    refusals: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    status_at: datetime | None = instant_field(nullable=True)
    enrolled_at: datetime = instant_field()


class JoinTokenRow(SQLModel, table=True):
    """A one-time token by which a node's executor enrols; only its hash is kept."""

    __tablename__ = "join_tokens"

    token_sha256: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name")
    node: str = Field(max_length=255)
    expires_at: datetime = instant_field()
    used_at: datetime | None = instant_field(nullable=True)


class DesiredRow(SQLModel, table=True):
    """What is wanted on a node now: the whole document its executor polls for."""

    __tablename__ = "desired"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    node: str = Field(primary_key=True, max_length=255)
    epoch: int
    generation: int
    document: Json = json_field()
    content_sha256: str = Field(max_length=64)
    changed_at: datetime = instant_field()


_OPEN: Final = text("ended_at IS NULL")
"""Placements that have not ended: an index of these alone does not grow with all there ever were."""


class PlacementRow(SQLModel, table=True):
    """One attempt of one job on one node: what is wanted of it, and what its executor says of it.

    Wanted while `is_wanted`; `observed` is the executor's last word (empty until the first).
    """

    __tablename__ = "placements"
    __table_args__ = (
        Index(None, "cluster", "is_wanted"),
        Index(None, "cluster", "job_id"),
        Index(None, "cluster", "node", sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    placement_id: str = Field(primary_key=True, max_length=128)
    cluster: str = Field(foreign_key="clusters.name")
    job_id: str = Field(max_length=255)
    attempt: int
    node: str = Field(max_length=255)
    rank: int = 0
    num_ranks: int = 1
    gpu_indices: list[int] = Field(sa_column=Column(JsonColumn, nullable=False))
    share_pct: float = 100.0
    role: str = Field(max_length=16)
    state: str = Field(default="running", max_length=16)
    is_wanted: bool = True
    plan_id: str | None = Field(default=None, max_length=64)
    observed: Json = json_field()
    ended_at: datetime | None = instant_field(nullable=True)


class ExecutorEventRow(SQLModel, table=True):
    """An event an executor reported; the same id is taken once."""

    __tablename__ = "executor_events"

    event_id: str = Field(primary_key=True, max_length=64)
    executor_id: str = Field(foreign_key="executors.executor_id", index=True)
    cluster: str = Field(foreign_key="clusters.name")
    kind: str = Field(max_length=32)
    at: datetime = instant_field()
    placement_id: str | None = Field(default=None, max_length=128)
    job_id: str | None = Field(default=None, max_length=255)
    data: Json = json_field()
    recorded_at: datetime = instant_field()
