"""Events of runs on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from app.schemas.base import Sent


class RunEventName(StrEnum):
    """What has happened to a run."""

    QUEUED = "queued"
    STARTED = "started"
    PROGRESS = "progress"
    INCUMBENT = "incumbent"
    HANDED_OVER = "handed_over"
    CANCELLING = "cancelling"
    FINISHED = "finished"


class RunEventOut(Sent):
    """One event of a run. In a stream `number` is the event's `id`, and `kind` its name."""

    number: int = Field(description="1, 2, ... within the run", examples=[3])
    kind: RunEventName
    at: datetime
    data: dict[str, Any] = Field(
        description="progress: `done` and `total`; incumbent: what the run could end with; started and "
        "handed_over: `worker`; finished: `status` and `error`, and what a cancelled run has `kept`",
        examples=[{"done": 3.0, "total": 12.0}],
    )


class RunEventsOut(Sent):
    """A page of a run's events, in their order."""

    items: list[RunEventOut]
    next: int | None = Field(description="give it as `after` for what comes next; null behind the last event")
