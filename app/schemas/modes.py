"""Modes on the wire: reviewed actions, and reports of observed days."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.schemas.base import Received, Sent


class ActionKind(StrEnum):
    """What lending does."""

    START = "start"
    SEND_BACK = "send_back"
    HOLD = "hold"


class ActionState(StrEnum):
    """Where an action is."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DONE = "done"
    WITHDRAWN = "withdrawn"


class ActionOut(Sent):
    """One thing that lending wants done: start a job as a guest, send a guest back, keep GPUs idle."""

    number: int = Field(examples=[12])
    kind: ActionKind
    job_id: str | None = Field(description="null for a hold")
    pool: str
    num_gpus: int
    status: ActionState
    seq: int = Field(description="entry in the log of the decision that proposed it first")
    last_seq: int = Field(description="and of the newest")
    times: int = Field(description="how many decisions, one after the other, have proposed it")
    answered_seq: int | None = Field(description="the first decision that gave it out")
    proposed_at: datetime
    reviewed_by: str | None
    reviewed_at: datetime | None
    closed_at: datetime | None


class ActionsOut(Sent):
    """Actions by number. `next_after` goes into `after` for the next page."""

    items: list[ActionOut]
    next_after: int | None


class ObservationIn(Received):
    """Which day is to be looked back at."""

    day: Annotated[
        date | None,
        Field(description="a day in UTC that is over; the newest where null", examples=["2026-01-06"]),
    ] = None


class WaitsOut(Sent):
    """Means over the jobs submitted on the day; null where there are none."""

    mean_queue_delay_s: float | None
    mean_jct_s: float | None


class WouldHaveOut(WaitsOut):
    """The day under the policy."""

    lent_gpu_hours: float
    repeated_gpu_hours: float
    held_idle_gpu_hours: float


class HappenedOut(WaitsOut):
    """The day as it was; of the jobs that were told live."""

    jobs: int


class EarlierOut(Sent):
    """Jobs that would have begun earlier, and by how much in sum."""

    jobs: int
    hours: float


class SlowedJobOut(Sent):
    """A job that would have ended later than without sharing."""

    job_id: str
    pool: str
    num_gpus: int
    later_s: float = Field(description="than without sharing")
    later_than_happened_s: float | None = Field(description="than it really ended; null while it runs")


class ObservedPoolOut(Sent):
    """One pool on the day."""

    pool: str
    jobs: int
    earlier: EarlierOut = Field(description="than without sharing")
    slowed: int


class LeftOutOut(Sent):
    """Jobs of the day that are in none of the figures."""

    wider_than_quota: int
    not_started: int = Field(description="nobody knows how long they run")


class ObservedInputsOut(Sent):
    """What the report rests on."""

    jobs_sha256: str
    question_sha256: str


class ObservationReport(Sent):
    """What sharing would have made of a day, beside what happened and beside no sharing (walls)."""

    policy: str
    settings: dict[str, str]
    quotas: list[tuple[str, int]]
    jobs: int = Field(description="submitted on the day, and replayed")
    still_running: int = Field(description="of these; their length is what they have run so far")
    left_out: LeftOutOut
    would_have: WouldHaveOut
    walls: WaitsOut
    happened: HappenedOut
    earlier_than_walls: EarlierOut
    earlier_than_happened: EarlierOut
    slowed: int
    slowed_most_s: float
    slowed_after_s: float
    slowed_jobs: list[SlowedJobOut] = Field(description="the most slowed first, at most 200")
    pools: list[ObservedPoolOut]
    inputs: ObservedInputsOut


class ObservationOut(Sent):
    """An observed day."""

    day: date
    run_id: str
    created_at: datetime
    report: ObservationReport


class ObservationsOut(Sent):
    """Observed days, newest first. `next_before` goes into `before` for the next page."""

    items: list[ObservationOut]
    next_before: date | None
