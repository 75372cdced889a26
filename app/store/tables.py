"""The tables. `..._s` columns are seconds since the cluster's clock origin; `..._at` are instants in UTC."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from app.store.types import JsonColumn, UtcDateTime

Json = dict[str, Any]

NAMING: Final = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
SQLModel.metadata.naming_convention = NAMING


class EnforcedBy(StrEnum):
    """Who carries plans out: the scheduler that asks, or our executors on the nodes."""

    SCHEDULER = "scheduler"
    EXECUTORS = "executors"


class LiveState(StrEnum):
    """Where a live job is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    CANCELLED = "cancelled"


class PlanStatus(StrEnum):
    """What became of a plan."""

    PUBLISHED = "published"
    SUPERSEDED = "superseded"


class RunStatus(StrEnum):
    """Where a run is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


def _json(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(JsonColumn, nullable=nullable))


def _instant(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(UtcDateTime, nullable=nullable))


class ClusterRow(SQLModel, table=True):
    """A cluster: its clock, its policy, and the number of the last entry of its log.

    Whoever writes to a cluster's log locks this row first, so entries of one cluster are in one order.
    """

    __tablename__ = "clusters"

    name: str = Field(primary_key=True, max_length=63)
    clock_origin: datetime = _instant()
    enforced_by: str = Field(max_length=16)
    policy: str = Field(max_length=63)
    settings: Json = _json()
    seed: int = 0
    is_lending: bool = True
    replan_every_s: float | None = None
    seq: int = 0
    epoch: int = 0
    version: int = 1
    created_at: datetime = _instant()


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
    settings: Json = _json()
    seed: int = 0
    snapshot: list[Json] = Field(sa_column=Column(JsonColumn, nullable=False))
    nodes: list[list[Any]] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    created_at: datetime = _instant()


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
    data: Json = _json()
    uid: str | None = Field(default=None, max_length=255)
    source: str = Field(max_length=63)
    recorded_at: datetime = _instant()


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
    spec: Json = _json()
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
    answer: Json = _json()
    took_ms: float
    plan_id: str | None = Field(default=None, max_length=64)
    decided_at: datetime = _instant()


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
    content: Json = _json()
    content_sha256: str = Field(max_length=64)
    created_at: datetime = _instant()


class ImportStatus(StrEnum):
    """Where an upload of job history is."""

    RECEIVING = "receiving"
    WAITING = "waiting"
    IMPORTED = "imported"
    REFUSED = "refused"


class HistoryImportRow(SQLModel, table=True):
    """An upload of job history and what was found in it.

    `shift_s`: the file's second 0 on the cluster's clock. `faults`: the first of `num_faults`.
    """

    __tablename__ = "history_imports"

    import_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name", index=True)
    file_format: str = Field(max_length=32)
    is_lenient: bool = False
    shift_s: float = 0.0
    status: str = Field(default=ImportStatus.RECEIVING.value, max_length=16)
    num_bytes: int = 0
    sha256: str = Field(default="", max_length=64)
    num_jobs: int | None = None
    num_skipped: int | None = None
    num_faults: int | None = None
    faults: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    created_at: datetime = _instant()


class HistoryChunkRow(SQLModel, table=True):
    """A piece of an upload, kept until it has been read."""

    __tablename__ = "history_chunks"

    import_id: str = Field(primary_key=True, foreign_key="history_imports.import_id")
    position: int = Field(primary_key=True)
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class HistoryJobRow(SQLModel, table=True):
    """One imported job, in the columns of `data.schema`."""

    __tablename__ = "history_jobs"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    job_id: str = Field(primary_key=True, max_length=255)
    import_id: str = Field(foreign_key="history_imports.import_id", index=True)
    pool: str = Field(max_length=255)
    submit_s: float
    num_gpus: int
    duration_s: float
    user: str | None = None
    name: str | None = None
    model: str | None = None
    limit_s: float | None = None
    state: str | None = None
    deadline_s: float | None = None
    requeue_u: float | None = None
    gpu_type: str | None = None
    array_id: str | None = None
    priority: float | None = None
    checkpoint_s: float | None = None
    restart_s: float | None = None
    start_s: float | None = None


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
    lease_until: datetime | None = _instant(nullable=True)
    is_lost: bool = False
    is_revoked: bool = False
    observed_epoch: int = 0
    observed_generation: int = 0
    devices: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    capabilities: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    refusals: list[Json] = Field(default_factory=list, sa_column=Column(JsonColumn, nullable=False))
    status_at: datetime | None = _instant(nullable=True)
    enrolled_at: datetime = _instant()


class JoinTokenRow(SQLModel, table=True):
    """A one-time token by which a node's executor enrols; only its hash is kept."""

    __tablename__ = "join_tokens"

    token_sha256: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name")
    node: str = Field(max_length=255)
    expires_at: datetime = _instant()
    used_at: datetime | None = _instant(nullable=True)


class DesiredRow(SQLModel, table=True):
    """What is wanted on a node now: the whole document its executor polls for."""

    __tablename__ = "desired"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    node: str = Field(primary_key=True, max_length=255)
    epoch: int
    generation: int
    document: Json = _json()
    content_sha256: str = Field(max_length=64)
    changed_at: datetime = _instant()


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
    observed: Json = _json()
    ended_at: datetime | None = _instant(nullable=True)


class ExecutorEventRow(SQLModel, table=True):
    """An event an executor reported; the same id is taken once."""

    __tablename__ = "executor_events"

    event_id: str = Field(primary_key=True, max_length=64)
    executor_id: str = Field(foreign_key="executors.executor_id", index=True)
    cluster: str = Field(foreign_key="clusters.name")
    kind: str = Field(max_length=32)
    at: datetime = _instant()
    placement_id: str | None = Field(default=None, max_length=128)
    job_id: str | None = Field(default=None, max_length=255)
    data: Json = _json()
    recorded_at: datetime = _instant()


class ApiKeyRow(SQLModel, table=True):
    """An API key; only its hash is kept."""

    __tablename__ = "api_keys"

    key_id: str = Field(primary_key=True, max_length=32)
    name: str = Field(max_length=255)
    secret_sha256: str = Field(max_length=64)
    scopes: list[str] = Field(sa_column=Column(JsonColumn, nullable=False))
    created_at: datetime = _instant()
    revoked_at: datetime | None = _instant(nullable=True)


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
    arguments: Json = _json()
    result: Json | None = _json(nullable=True)
    error: str | None = None
    requested_by: str = Field(max_length=63)
    requested_at: datetime = _instant()
    started_at: datetime | None = _instant(nullable=True)
    finished_at: datetime | None = _instant(nullable=True)
    worker: str | None = Field(default=None, max_length=128)


class WorkerRow(SQLModel, table=True):
    """A worker process that is alive as long as it renews its lease; runs of one that is gone are resumed."""

    __tablename__ = "workers"

    worker_id: str = Field(primary_key=True, max_length=128)
    started_at: datetime = _instant()
    lease_until: datetime = _instant()
