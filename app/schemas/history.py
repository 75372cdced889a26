"""Imports of job history on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.schemas.base import Instant, Received, Sent
from app.schemas.problems import FaultOut


class ImportState(StrEnum):
    """Where an import is."""

    RECEIVING = "receiving"
    WAITING = "waiting"
    IMPORTED = "imported"
    REFUSED = "refused"


class UploadOptions(Received):
    """How an upload is to be read."""

    file_format: Annotated[str, Field(alias="format", max_length=32)] = "csv"
    lenient: Annotated[bool, Field(description="leave bad rows out instead of refusing the file")] = False
    origin: Annotated[
        Instant | None, Field(description="instant of the file's second 0; the cluster's origin by default")
    ] = None
    tz: Annotated[
        str | None,
        Field(max_length=64, description="time zone of stamps without an offset", examples=["Europe/Zurich"]),
    ] = None


class ImportQueued(Sent):
    """An upload that waits to be read."""

    import_id: str = Field(examples=["imp-0123456789abcdef0123456789abcdef"])
    run_id: str = Field(description="the run that reads it")
    num_bytes: int
    sha256: str


class ImportOut(Sent):
    """An import and what was found in the file."""

    import_id: str
    file_format: str = Field(examples=["csv"])
    is_lenient: bool
    status: ImportState
    shift_s: float = Field(description="second 0 of the file on the cluster's clock")
    num_bytes: int
    sha256: str
    num_jobs: int | None = Field(description="jobs imported; null until the file is read")
    num_skipped: int | None = Field(description="rows left out: bad ones, and jobs known already")
    num_faults: int | None = Field(description="all that were found, also those that are not listed")
    faults: list[FaultOut] = Field(description="in a list of imports the first few, else up to 1,000")
    created_at: datetime


class HistoryOut(Sent):
    """A page of a cluster's imports, the newest first."""

    num_jobs: int = Field(description="jobs of all imports together")
    items: list[ImportOut]
    next: str | None = Field(description="give it as `before` for the next page; null on the last")
