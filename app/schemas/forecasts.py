"""Forecasts on the wire: how long jobs live, and what pools will ask for."""

from datetime import datetime
from itertools import pairwise
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from app.schemas.base import MAX_GPUS, Instant, Name, Received, Sent
from app.schemas.live import JobId, Seconds, ShortText

MOST_JOBS: Final = 1_000
MOST_LEVELS: Final = 19
MOST_TIMES: Final = 16


def increasing(levels: list[float]) -> list[float]:
    """Levels in ascending order, each once.

    Raises:
        ValueError: if they are not.
    """
    if any(after <= before for before, after in pairwise(levels)):
        raise ValueError("levels have to increase")
    return levels


Level = Annotated[float, Field(gt=0.0, lt=1.0)]
Levels = Annotated[list[Level], Field(min_length=1, max_length=MOST_LEVELS), AfterValidator(increasing)]


class NewJobIn(Received):
    """A job as it is known at submit; it need not have been told of, and nothing is recorded."""

    pool: Name = Field(examples=["vision"])
    num_gpus: Annotated[int, Field(ge=1, le=MAX_GPUS)]
    user: ShortText | None = None
    name: ShortText | None = None
    model: ShortText | None = None
    limit_s: Annotated[float, Field(ge=1.0, le=1e11)] | None = None
    gpu_type: ShortText | None = None
    array_id: ShortText | None = None


class AskedJobIn(Received):
    """A job that is asked about: one that waits or runs, by its id, or one that is not there, by its fields.

    `elapsed_s`: how long it has run; left out: as the log says, 0 for one that does not run.
    """

    job_id: JobId | None = None
    job: NewJobIn | None = None
    elapsed_s: Seconds | None = None

    @model_validator(mode="after")
    def _is_one_job(self) -> Self:
        if (self.job_id is None) == (self.job is None):
            raise ValueError("give either `job_id`, of a live job, or `job`, its fields")
        return self


class LifetimesIn(Received):
    """Jobs, and what is asked about them."""

    jobs: Annotated[list[AskedJobIn], Field(min_length=1, max_length=MOST_JOBS)] = Field(
        examples=[[{"job": {"pool": "vision", "num_gpus": 2, "user": "ann"}, "elapsed_s": 3600.0}]]
    )
    levels: Levels = Field(default=[0.1, 0.5, 0.9], description="in (0, 1), ascending")
    within_s: Annotated[list[Seconds], Field(max_length=MOST_TIMES)] = Field(
        default_factory=list, description="chances to end within so many seconds from now"
    )
    ends_by: Annotated[list[Instant], Field(max_length=MOST_TIMES)] = Field(
        default_factory=list, description="chances to have ended by these instants"
    )


class LifetimeOut(Sent):
    """Forecast of one job; lists are in the order of `levels` and `ends_by` of the answer."""

    job_id: str | None
    pool: str | None
    elapsed_s: float | None
    total_s: list[float] | None = Field(description="whole life, at least what has elapsed")
    remaining_s: list[float] | None
    chances: list[float] | None = Field(description="to have ended by each instant of `ends_by`")
    why_not: str | None = Field(description="there is no forecast, and why")


class RestsOnOut(Sent):
    """The model and the history behind an answer."""

    model: str
    epoch: int
    trained_as_of: datetime
    jobs_learned_from: int
    seed: int


class HeldOutOut(Sent):
    """How such forecasts do on the last part of what they learn from, which they had then not seen."""

    what: str
    model: str
    baseline: str
    pinball: float = Field(description="mean pinball loss at nine levels; the less, the better")
    baseline_pinball: float
    beats_baseline: bool
    coverage_80: float | None = Field(description="share within the .1 and the .9 quantile; .8 is right")
    number: int = Field(description="outcomes scored")
    since: datetime
    until: datetime


class ScoreOut(Sent):
    """A score, or why there is none yet, and what to make of it."""

    state: Literal["pending", "known", "failed", "too-little-history"]
    score: HeldOutOut | None
    note: str


class LifetimesOut(Sent):
    """Forecasts of lifetimes, in the order in which jobs were asked about."""

    at: datetime
    levels: list[float]
    ends_by: list[datetime] = Field(description="those of `within_s` first")
    items: list[LifetimeOut]
    rests_on: RestsOnOut
    held_out: ScoreOut


class DemandIn(Received):
    """Of which pools, how far, in which steps."""

    pool: Annotated[list[Name], Field(max_length=1_000)] | None = Field(
        default=None, description="repeated; all where it is left out"
    )
    horizon_s: Annotated[float, Field(gt=0.0, le=7 * 86_400.0)] = 86_400.0
    step_s: Annotated[float, Field(ge=60.0, le=86_400.0)] = 3_600.0
    levels: Levels = Field(default=[0.1, 0.5, 0.9], description="repeated, ascending")


class StepOut(Sent):
    """One step; quantiles are in the order of `levels`."""

    begins: datetime
    peak_gpus: list[float] = Field(description="most GPUs that jobs arriving from now on hold at once")
    peak_gpus_mean: float
    arrivals: list[float] = Field(description="jobs that arrive")
    arrivals_mean: float


class PoolDemandOut(Sent):
    """What a pool will ask for."""

    pool: str
    quota_gpus: int
    steps: list[StepOut]


class DemandOut(Sent):
    """What pools will ask for, step by step."""

    at: datetime
    step_s: float
    levels: list[float]
    samples: int = Field(description="past stretches behind it; 0: nothing is known, the quota is said")
    pools: list[PoolDemandOut]
    rests_on: RestsOnOut
    held_out_peak_gpus: ScoreOut
    held_out_arrivals: ScoreOut
