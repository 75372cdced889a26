"""Plans on the wire: their life, what their holds rest on, and one beside another."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from app.schemas.base import Sent
from app.schemas.clusters import ClusterMode
from app.schemas.live import AnswerOut


class PlanState(StrEnum):
    """Where a plan is in its life."""

    DRAFT = "draft"
    APPROVED = "approved"
    APPLIED = "applied"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    REJECTED = "rejected"


class HoldForecastOut(Sent):
    """By when the GPUs of a hold will be there, as the plan expected it."""

    pool: str
    num_gpus: int
    by: datetime = Field(description="the deadline: from then on a job that is due now may count as slowed")
    charged_to: str = Field(description="the pool in whose quota the GPUs are")
    idle_gpus: int = Field(description="of the hold, idle from the start on")
    probability: float = Field(ge=0.0, le=1.0, description="that all are there by the deadline")
    likely_by: datetime | None = Field(description="first instant with a chance of 90 %")
    bound: datetime | None = Field(description="they are there by then at the latest, by jobs' limits")


class HoldCheckOut(Sent):
    """A hold of a plan in force against what is observed."""

    state: Literal["kept", "served", "over", "violated"]
    expected_gpus: int = Field(description="of the hold, idle when the plan went out")
    idle_gpus: int = Field(description="of the hold, idle as of `at`")
    drift_gpus: int = Field(description="what is missing of the expected ones, where it is violated")
    at: datetime


class PlanOut(AnswerOut):
    """A plan made by a run."""

    plan_id: str = Field(examples=["plan-run-019b8b7418017ce70d909622378581fe"])
    number: int = Field(examples=[7])
    run_id: str
    epoch: int
    seq_seen: int
    seq: int
    at: datetime
    status: PlanState
    version: int = Field(description="what If-Match has to name, in quotes")
    mode: ClusterMode = Field(description="the cluster's when the plan was made")
    expires_at: datetime | None
    reviewed_by: str | None
    reviewed_at: datetime | None
    applied_at: datetime | None
    churn: float | None = Field(
        description="share of it that differs from the plan before; null for the first"
    )
    is_enforced: bool = Field(description="false: advice; the scheduler asks for decisions")
    forecast: dict[str, Any]
    hold_forecasts: list[HoldForecastOut] = Field(description="one for each hold, in their order")
    hold_checks: list[HoldCheckOut] = Field(description="the same, once the plan has gone out")
    content_sha256: str
    created_at: datetime


class PlansOut(Sent):
    """Plans, newest first. `next_before` goes into `before` for the next page."""

    items: list[PlanOut]
    next_before: int | None


class DiffStart(Sent):
    """A start in one of two plans; `host_job_id`: it rides along."""

    job_id: str
    is_guest: bool | None
    gpus: list[tuple[str, int]] | None
    host_job_id: str | None


class DiffSendBack(Sent):
    """A guest to be sent back in one of two plans."""

    job_id: str


class DiffHold(Sent):
    """A hold in one of two plans."""

    pool: str
    num_gpus: int


class MovedStart(Sent):
    """A start in both, not the same."""

    before: DiffStart
    after: DiffStart


class MovedSendBack(Sent):
    """Never there: a send-back has nothing that could move."""

    before: DiffSendBack
    after: DiffSendBack


class MovedHold(Sent):
    """A hold in both, not as wide."""

    before: DiffHold
    after: DiffHold


class StartsDiff(Sent):
    """Starts of two plans."""

    added: list[DiffStart]
    gone: list[DiffStart]
    done: list[DiffStart] = Field(description="gone because something happened to the job meanwhile")
    moved: list[MovedStart]
    same: int


class SendBacksDiff(Sent):
    """Send-backs of two plans."""

    added: list[DiffSendBack]
    gone: list[DiffSendBack]
    done: list[DiffSendBack]
    moved: list[MovedSendBack]
    same: int


class HoldsDiff(Sent):
    """Holds of two plans."""

    added: list[DiffHold]
    gone: list[DiffHold]
    done: list[DiffHold]
    moved: list[MovedHold]
    same: int


class DiffCounts(Sent):
    """Over all three."""

    added: int
    gone: int
    moved: int
    done: int
    same: int


class PlanDiffOut(Sent):
    """A plan beside another: what changed its mind, and what merely happened."""

    plan_id: str
    to: str = Field(description="the one that it is set beside")
    starts: StartsDiff
    send_backs: SendBacksDiff
    holds: HoldsDiff
    counts: DiffCounts
    churn: float = Field(
        description="(added + gone + moved) / (these + same); what happened counts as neither"
    )
    forecast_changed: bool
    forecast_fields: list[str] = Field(description="fields of the forecast that differ")
