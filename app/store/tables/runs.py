"""Durable work and who carries it out."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Index
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field


class RunStatus(StrEnum):
    """Where a run is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunRow(SQLModel, table=True):
    """A piece of durable work. Its id is that of its workflow."""

    __tablename__ = "runs"
    __table_args__ = (
        Index(None, "cluster", "status", "requested_at", "run_id"),
        Index(None, "cluster", "requested_at", "run_id"),
    )

    run_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name")
    kind: str = Field(max_length=16)
    status: str = Field(max_length=16, index=True)
    arguments: Json = json_field()
    result: Json | None = json_field(nullable=True)
    error: str | None = None
    requested_by: str = Field(max_length=63)
    requested_at: datetime = instant_field()
    started_at: datetime | None = instant_field(nullable=True)
    finished_at: datetime | None = instant_field(nullable=True)
    worker: str | None = Field(default=None, max_length=128)


class WorkerRow(SQLModel, table=True):
    """A worker process that is alive as long as it renews its lease; runs of one that is gone are resumed."""

    __tablename__ = "workers"

    worker_id: str = Field(primary_key=True, max_length=128)
    started_at: datetime = instant_field()
    lease_until: datetime = instant_field()
