"""Clusters: what they consist of, and the epochs of their policies."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Column
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field
from app.store.types import JsonColumn


class EnforcedBy(StrEnum):
    """Who carries plans out: the scheduler that asks, or our executors on the nodes."""

    SCHEDULER = "scheduler"
    EXECUTORS = "executors"


class Mode(StrEnum):
    """How far what is decided goes: only into reports, past a reviewer, or out at once."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


class Approval(StrEnum):
    """Whether a plan has to be approved before it goes out."""

    AUTOMATIC = "automatic"
    REQUIRED = "required"


PLAN_VALID_S: Final = 3600.0
"""For how long a plan may be approved and carried out, where the cluster does not say."""


class ClusterRow(SQLModel, table=True):
    """A cluster: its clock, its policy, and the number of the last entry of its log.

    `is_lending` is the kill switch. `plan_valid_s`: a plan that is older is never carried out.

    Whoever writes to a cluster's log locks this row first, so entries of one cluster are in one order.
    """

    __tablename__ = "clusters"

    name: str = Field(primary_key=True, max_length=63)
    clock_origin: datetime = instant_field()
    enforced_by: str = Field(max_length=16)
    policy: str = Field(max_length=63)
    settings: Json = json_field()
    seed: int = 0
    is_lending: bool = True
    mode: str = Field(default=Mode.ENFORCE.value, max_length=16)
    approval: str = Field(default=Approval.AUTOMATIC.value, max_length=16)
    plan_valid_s: float = PLAN_VALID_S
    replan_every_s: float | None = None
    seq: int = 0
    epoch: int = 0
    version: int = 1
    created_at: datetime = instant_field()


class PoolRow(SQLModel, table=True):
    """A pool and its quota. `is_requeueable`: what a job's record that does not say is taken to mean."""

    __tablename__ = "pools"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    name: str = Field(primary_key=True, max_length=255)
    position: int
    quota_gpus: int
    is_requeueable: bool = False


class NodeRow(SQLModel, table=True):
    """A host and its GPUs. `gpu_uuids`: in the order of their index; empty until an executor reports them."""

    __tablename__ = "nodes"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    name: str = Field(primary_key=True, max_length=255)
    position: int
    num_gpus: int
    gpu_type: str = Field(default="any", max_length=63)
    pool: str | None = Field(default=None, max_length=255)
    gpu_uuids: list[str] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    is_lost: bool = False


class EpochRow(SQLModel, table=True):
    """From where on a policy's state is told from the log.

    A policy is built anew where what it stands on changes: quotas, nodes, policy, settings, or the history
    it learns from. `snapshot` holds the unfinished jobs of that moment in the order of their lines. `nodes`
    are those that are there, as name, GPUs and type, where executors enforce and so it is known who runs
    where; else there are none.
    """

    __tablename__ = "epochs"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    number: int = Field(primary_key=True)
    from_seq: int
    at_s: float
    reason: str
    quotas: list[list[Any]] = Field(sa_column=Column(JsonColumn, nullable=False))
    capacity_gpus: int
    policy: str = Field(max_length=63)
    settings: Json = json_field()
    seed: int = 0
    snapshot: list[Json] = Field(sa_column=Column(JsonColumn, nullable=False))
    nodes: list[list[Any]] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    created_at: datetime = instant_field()
