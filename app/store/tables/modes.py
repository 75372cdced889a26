"""What modes leave behind: actions that somebody reviews, and reports of observed days."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Index
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field


class ActionKind(StrEnum):
    """What lending does."""

    START = "start"
    SEND_BACK = "send_back"
    HOLD = "hold"


class ActionStatus(StrEnum):
    """Where an action is. The first two are open."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DONE = "done"
    WITHDRAWN = "withdrawn"


class ActionRow(SQLModel, table=True):
    """One thing that lending wants done in a cluster whose mode is advise.

    It is one row as long as decisions propose it one after the other: `seq` is the first of them, `last_seq`
    the newest, `times` how many. `answered_seq`: the first decision that gave it out, once accepted.
    """

    __tablename__ = "actions"
    __table_args__ = (Index(None, "cluster", "status", "number"),)

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    number: int = Field(primary_key=True)
    kind: str = Field(max_length=16)
    job_id: str | None = Field(default=None, max_length=255)
    pool: str = Field(max_length=255)
    num_gpus: int
    seq: int
    last_seq: int
    answered_seq: int | None = None
    times: int = 1
    status: str = Field(default=ActionStatus.PROPOSED.value, max_length=16)
    proposed_at: datetime = instant_field()
    reviewed_by: str | None = Field(default=None, max_length=255)
    reviewed_at: datetime | None = instant_field(nullable=True)
    closed_at: datetime | None = instant_field(nullable=True)


class ObservationRow(SQLModel, table=True):
    """What sharing would have made of one day, beside what happened and beside no sharing.

    `day` is a day in UTC, as YYYY-MM-DD; one row a day, the newest run's.
    """

    __tablename__ = "observations"

    cluster: str = Field(primary_key=True, foreign_key="clusters.name")
    day: str = Field(primary_key=True, max_length=10)
    run_id: str = Field(max_length=64)
    content: Json = json_field()
    created_at: datetime = instant_field()
