"""What happens to runs."""

from datetime import datetime
from enum import StrEnum

from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field


class RunEventKind(StrEnum):
    """What has happened to a run."""

    QUEUED = "queued"
    STARTED = "started"
    PROGRESS = "progress"
    INCUMBENT = "incumbent"
    HANDED_OVER = "handed_over"
    CANCELLING = "cancelling"
    FINISHED = "finished"


class RunEventRow(SQLModel, table=True):
    """One event of a run, numbered 1, 2, ... within it; nothing comes after `finished`."""

    __tablename__ = "run_events"

    run_id: str = Field(primary_key=True, foreign_key="runs.run_id", max_length=64, ondelete="CASCADE")
    number: int = Field(primary_key=True)
    kind: str = Field(max_length=16)
    at: datetime = instant_field()
    data: Json = json_field()
