"""Runs on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from app.schemas.base import Sent


class RunState(StrEnum):
    """Where a run is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunName(StrEnum):
    """What a run does."""

    REPLAN = "replan"
    IMPORT = "import"
    WHAT_IF = "what_if"
    TRAIN = "train"
    BACKTEST = "backtest"
    OBSERVE = "observe"


class RunOut(Sent):
    """A piece of long work. It survives the death of the process that carries it out."""

    run_id: str = Field(examples=["run-019b8b7418017ce70d909622378581fe"])
    cluster: str
    kind: RunName
    status: RunState
    arguments: dict[str, Any] = Field(description="what it was asked for with")
    result: dict[str, Any] | None = Field(
        description="what came of it; while it runs, `progress` with `done` and `total`; of one that was "
        "cancelled, `kept` and what there was by then"
    )
    error: str | None = Field(description="why it failed, and what to do")
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None = Field(description="set once nothing will happen to it any more")
    worker: str | None = Field(description="who carried it out last")


class RunsOut(Sent):
    """A page of a cluster's runs, the newest first."""

    items: list[RunOut]
    next: str | None = Field(description="give it as `before` for the next page; null on the last")
