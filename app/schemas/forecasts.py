"""Forecasts and explanations on the wire."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from app.schemas.base import Received, Sent, with_example
from app.schemas.live import JobId, JobIn, Seconds

MAX_JOBS = 1_000
"""Most jobs whose lives are asked for in one call."""

Level = Annotated[float, Field(strict=True, gt=0.0, lt=1.0)]


class AskedJob(Received):
    """A job whose life is asked for: a live one by its id, or any one by what is known at submit."""

    job_id: JobId
    job: JobIn | None = None
    elapsed_s: Seconds | None = Field(
        default=None, description="how long it has run; by default what is known of the live job, or nothing"
    )


class LifetimesIn(Received):
    """Jobs, and what is asked of their lives."""

    model_config = with_example(
        jobs=[
            {"job_id": "job-1"},
            {
                "job_id": "new",
                "job": {"pool": "vision", "num_gpus": 4, "limit_s": 7200.0},
                "elapsed_s": 600.0,
            },
        ],
        levels=[0.1, 0.5, 0.9],
        within_s=[3600.0],
    )

    jobs: Annotated[list[AskedJob], Field(min_length=1, max_length=MAX_JOBS)]
    levels: Annotated[list[Level], Field(min_length=1, max_length=99)] = Field(
        default_factory=lambda: [0.1, 0.5, 0.9]
    )
    within_s: Annotated[list[Seconds], Field(max_length=50)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _levels_increase(self) -> Self:
        if sorted(set(self.levels)) != self.levels:
            raise ValueError("levels must increase")
        return self


class LifetimeOut(Sent):
    """How long a job will run. Null: longer than the forecast can tell."""

    job_id: str
    elapsed_s: float
    total_s: list[float | None] = Field(description="quantiles of its whole length, by level")
    remaining_s: list[float | None] = Field(description="quantiles of what is left, by level")
    ends_within: list[float | None] = Field(description="chance to end within each of `within_s` from now")


class RestsOn(Sent):
    """What a forecast rests on."""

    models: dict[str, str | float | bool]
    as_of: datetime = Field(description="what had ended by then has been learned from before anything else")
    jobs_learned_from: int


class LifetimesOut(RestsOn):
    """Forecasts of lives, in the order in which they were asked for."""

    levels: list[float]
    within_s: list[float]
    jobs: list[LifetimeOut]


class StepOut(Sent):
    """A stretch of time from now. What jobs that are still to come ask for in it."""

    from_s: float
    to_s: float
    peak_gpus: list[float] = Field(description="most GPUs at once in its first half hour, by level")
    peak_gpus_mean: float
    jobs: list[float] = Field(description="jobs that arrive, by level")
    jobs_mean: float


class BurstOut(Sent):
    """Many GPUs asked for at once, too rarely for the steps to show."""

    num_gpus: float
    num_jobs: float
    per_day: float


class PoolDemandOut(Sent):
    """A pool's demand."""

    pool: str
    quota_gpus: int
    steps: list[StepOut]
    bursts: list[BurstOut]


class DemandOut(RestsOn):
    """Forecasts of demand from an instant on."""

    at: datetime
    levels: list[float]
    pools: list[PoolDemandOut]


class ChangeOut(Sent):
    """What would let a job start now, all else being as it is."""

    lever: str
    value: float | None
    text: str


class WaitOut(Sent):
    """Why a job waits: docs/explain-waiting.md has the reasons."""

    job_id: str
    pool: str
    num_gpus: int
    submitted_at: datetime
    why: str = Field(examples=["held-for-pool"])
    text: str
    evidence: dict[str, float | str]
    changes: list[ChangeOut]
    earliest_at: datetime | None = Field(description="expected start; null: not before something unknown")
    latest_at: datetime | None


class WaitsOut(Sent):
    """Why jobs wait, the first in line first; `decision` is the last one made."""

    at: datetime
    num_waiting: int
    decision: int | None
    items: list[WaitOut]


class ExplanationOut(Sent):
    """What a job does, and why it waits if it does."""

    job_id: str
    state: str
    text: str
    decision: int | None
    wait: WaitOut | None
