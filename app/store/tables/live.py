"""The log of a cluster, and what it comes to: jobs and decisions."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field
from app.store.types import JsonColumn


class LiveState(StrEnum):
    """Where a live job is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"


class LogRow(SQLModel, table=True):
    """One fact, or one decision, of a cluster, in the order in which it was recorded.

    `uid` is the sender's name for it: the same one is recorded once.
    """

    __tablename__ = "log"
    __table_args__ = (UniqueConstraint("cluster", "uid"),)

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    seq: int = Field(primary_key=True)
    kind: str = Field(max_length=16)
    at_s: float
    job_id: str | None = Field(default=None, max_length=255)
    data: Json = json_field()
    uid: str | None = Field(default=None, max_length=255)
    source: str = Field(max_length=63)
    recorded_at: datetime = instant_field()


class JobRow(SQLModel, table=True):
    """A live job as the log has it so far.

    `rank` orders a pool's line. `spec` is what an executor needs to launch it; empty where the scheduler
    launches. `host_job_id`: whose GPU a rider shares.
    """

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "cluster", "state", "job_id"),)

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    job_id: str = Field(primary_key=True, max_length=255)
    pool: str = Field(max_length=255)
    submit_s: float
    num_gpus: int
    user: str | None = None
    name: str | None = None
    model: str | None = None
    limit_s: float | None = None
    deadline_s: float | None = None
    requeue_u: float | None = None
    gpu_type: str | None = None
    array_id: str | None = None
    priority: float | None = None
    spec: Json = json_field()
    rank: float
    state: str = Field(max_length=16)
    is_guest: bool = False
    was_guest: bool = False
    own_from_s: float | None = None
    first_started_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    end_state: str | None = Field(default=None, max_length=16)
    attempts: int = 0
    lost_s: float = 0.0
    gpus: list[list[Any]] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    share_pct: float = 100.0
    host_job_id: str | None = Field(default=None, max_length=255)


class DecisionRow(SQLModel, table=True):
    """One decision, with what it needs to be derived again: the log up to `seq` and the epoch."""

    __tablename__ = "decisions"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    seq: int = Field(primary_key=True)
    epoch: int
    at_s: float
    idle_gpus: int
    answer: Json = json_field()
    took_ms: float
    plan_id: str | None = Field(default=None, max_length=64)
    decided_at: datetime = instant_field()
