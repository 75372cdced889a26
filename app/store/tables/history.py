"""Imported job history."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Column, LargeBinary
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field
from app.store.types import JsonColumn


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
    created_at: datetime = instant_field()


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
