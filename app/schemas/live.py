"""Facts, decisions, plans and live jobs on the wire. Instants are RFC 3339; GPUs are [node, index]."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from app.schemas.base import MAX_GPUS, MAX_NAME, Instant, Name, Received, Sent

MAX_FACTS = 10_000
"""Most events in one call."""

MAX_SPEC = 32_768
"""Most characters of a job's command and environment: a node's document holds those of all its jobs."""

Seconds = Annotated[float, Field(strict=True, ge=0.0, le=1e11)]
ShortText = Annotated[str, Field(max_length=MAX_NAME)]
Argument = Annotated[str, Field(max_length=32_768)]
JobId = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class SpecIn(Received):
    """What an executor needs to launch a job; left out where the scheduler launches it.

    `is_shareable`: the job consents to share its GPU with another that consents, at a reduced rate; then
    `memory_mib` says how much GPU memory it uses at most, and it is never sent back.
    """

    argv: Annotated[list[Argument], Field(min_length=1, max_length=1_000, examples=[["python3", "train.py"]])]
    env: Annotated[dict[ShortText, Argument], Field(max_length=200)] = Field(default_factory=dict)
    memory_mib: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = None
    is_shareable: StrictBool = False
    grace_s: Annotated[float, Field(strict=True, ge=0.0, le=3600.0)] = 5.0
    on_disconnect: Literal["hold", "pause", "stop"] = "hold"

    @model_validator(mode="after")
    def _fits_into_a_document(self) -> Self:
        size = sum(map(len, self.argv)) + sum(len(name) + len(text) for name, text in self.env.items())
        if size > MAX_SPEC:
            raise ValueError(f"argv and env have {size} characters together, at most {MAX_SPEC} are taken")
        return self


class JobIn(Received):
    """A job as it is known at submit.

    `is_requeueable` left out means what its pool says; it is never assumed.
    """

    pool: Name
    num_gpus: Annotated[int, Field(strict=True, ge=1, le=MAX_GPUS)]
    user: ShortText | None = None
    name: ShortText | None = None
    model: ShortText | None = None
    limit_s: Annotated[float, Field(strict=True, ge=1.0, le=1e11)] | None = None
    deadline: Instant | None = None
    is_requeueable: StrictBool | None = None
    requeue_u: Annotated[float, Field(strict=True, ge=0.0, le=1.0)] | None = None
    gpu_type: ShortText | None = None
    array_id: ShortText | None = None
    priority: Annotated[float, Field(strict=True, ge=-1e11, le=1e11)] | None = None
    spec: SpecIn | None = None


class EventIn(Received):
    """One thing that happened to a job."""

    kind: Literal["submitted", "started", "ended", "cancelled", "sent_back"]
    job_id: JobId
    at: Instant | None = Field(default=None, description="now where it is left out")
    uid: JobId | None = Field(
        default=None, description="your name for this event; told twice, it counts once"
    )
    job: JobIn | None = Field(default=None, description="with `submitted`: the job")
    is_guest: StrictBool | None = Field(
        default=None,
        description="with `started`: whether it runs on lent GPUs; as the last decision said where left out",
    )
    state: Literal["completed", "failed", "cancelled", "timeout", "unknown"] = Field(
        default="unknown", description="with `ended`: how"
    )
    duration_s: Seconds | None = Field(
        default=None, description="with `ended`: its length as you measured it"
    )
    reason: ShortText | None = None

    @model_validator(mode="after")
    def _job_goes_with_submitted(self) -> Self:
        if (self.kind == "submitted") != (self.job is not None):
            raise ValueError("`job` is given with `submitted`, and only then")
        return self


class EventsIn(Received):
    """Events in the order in which they happened."""

    events: Annotated[list[EventIn], Field(min_length=1, max_length=MAX_FACTS)]


class RejectedOut(Sent):
    """An event that contradicts what is known; the others were recorded."""

    index: int
    job_id: str
    reason: str


class EventsOut(Sent):
    """What became of the events."""

    accepted: int
    duplicates: int
    rejected: list[RejectedOut]


class DecisionIn(Received):
    """What has happened since the last call, and the question what to do now."""

    events: Annotated[list[EventIn], Field(max_length=MAX_FACTS)] = Field(default_factory=list)
    at: Instant | None = Field(default=None, description="instant of the decision; now where it is left out")
    idle_gpus: Annotated[int, Field(strict=True, ge=0, le=MAX_GPUS)] | None = Field(
        default=None, description="GPUs idle as you count them; as the events have it where it is left out"
    )
    explain: bool | None = Field(
        default=None,
        description="name the first jobs that wait, and why; left out: only if few jobs are unfinished",
    )


class StartOut(Sent):
    """Start this job now: as its pool's own, or as a guest on lent GPUs."""

    job_id: str
    is_guest: bool
    gpus: list[tuple[str, int]] | None = None


class RiderOut(Sent):
    """This job shares the GPU of that one."""

    job_id: str
    host_job_id: str


class HoldOut(Sent):
    """GPUs kept idle for a pool; until its waiting job has been served where no instant is given."""

    pool: str
    num_gpus: int
    until: datetime | None


class ProposedOut(Sent):
    """What lending wants done where somebody reviews it; it is given out once accepted (`actions`)."""

    kind: Literal["start", "send_back", "hold"]
    job_id: str | None
    pool: str
    num_gpus: int
    is_given_out: bool


class ShareOut(Sent):
    """A running job whose share of its GPU changes."""

    job_id: str
    primitive: Literal["squeeze", "swell"]
    share_pct: float


class DroppedOut(Sent):
    """A part of the plan that reality did not allow any more, and why."""

    job_id: str
    why: str


class LendingOut(Sent):
    """The lending plan behind an answer: how good it is known to be, and what it risks."""

    status: Literal["optimal", "feasible", "greedy", "empty"]
    starts: int = Field(description="early starts that it chose")
    objective: float
    bound: float | None = Field(description="no choice is worth more; null: nothing is proven")
    gap: float | None
    risk_jobs: float = Field(description="jobs that it is expected to slow")
    drawn_jobs: float | None = Field(description="the same, as the mean over fresh draws")
    drawn_error: float | None = Field(description="standard error of that mean")
    send_backs: float
    work: float = Field(description="the solver's own measure, the same on every machine")
    rounds: int
    fallback: str = Field(description="what stood in for the solver's choice; `none`: nothing")
    reason: str
    is_cut: bool = Field(description="the wall clock ended the search: made again, it may differ")


class AnswerOut(Sent):
    """What to do: send back, then start. Whoever is not named waits."""

    starts: list[StartOut]
    send_backs: list[str]
    conversions: list[str]
    holds: list[HoldOut]
    riders: list[RiderOut] = Field(default_factory=list)
    shares: list[ShareOut] = Field(default_factory=list)
    dropped: list[DroppedOut] = Field(default_factory=list)
    refused: list[str] = Field(
        default_factory=list, description="rules the plan broke; only its own starts that break none are left"
    )
    proposed: list[ProposedOut] = Field(
        default_factory=list, description="all that lending wants done, where somebody reviews it"
    )
    lending: LendingOut | None = Field(
        default=None, description="the lending plan behind it; null where it was answered without one"
    )


class WaitOut(Sent):
    """A job that waits. Its explanation says more: `.../jobs/{job_id}/explanation`."""

    job_id: str
    why: str = Field(description="a word of docs/explain-waiting.md", examples=["wider-than-idle"])
    until: datetime | None = Field(
        description="its own lane reaches it by then if the jobs before it keep their limits; "
        "null: one of them has none"
    )


class WaitsOut(Sent):
    """Who waits once the answer is carried out: how many, and the first in order, where that was asked."""

    total: int
    jobs: list[WaitOut]


class DecisionOut(AnswerOut):
    """A decision. `seq` is its entry in the cluster's log, by which it can be derived again."""

    seq: int
    epoch: int
    at: datetime
    idle_gpus: int
    took_ms: float
    ask_again_at: datetime | None = Field(description="jobs wait: ask again then, or when something happens")
    waits: WaitsOut | None = Field(default=None, description="null where it is not known any more")
    events: EventsOut


class JobOut(Sent):
    """A live job."""

    job_id: str
    pool: str
    num_gpus: int
    user: str | None
    name: str | None
    state: Literal["waiting", "running", "ended", "cancelled"]
    end_state: str | None
    submit: datetime
    first_start: datetime | None
    start: datetime | None
    end: datetime | None
    is_guest: bool
    was_guest: bool
    attempts: int
    lost_s: float
    gpus: list[tuple[str, int]]
    share_pct: float
    host_job_id: str | None


class JobsOut(Sent):
    """Live jobs by id. `next_after` goes into `after` for the next page."""

    items: list[JobOut]
    next_after: str | None


class PauseIn(Received):
    """A running job that is to stand still, or to go on."""

    job_id: JobId
    is_paused: Annotated[bool, Field(strict=True)]


class EpochIn(Received):
    """Begin a new epoch: forecasts learn anew, from what had ended by `as_of`."""

    as_of: Instant | None = None
    reason: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] = "asked for"


class EpochOut(Sent):
    """An epoch of a cluster."""

    number: int
    from_seq: int
    as_of: datetime
    reason: str
    quotas: dict[str, int]
    capacity_gpus: int
    policy: str
    settings: dict[str, str]


class ShareReport(Sent):
    """Changes of shares of one kind, as the executors read them back."""

    primitive: str
    enforcement: str
    effective_at: str
    state: str
    times: int


class PoolReport(Sent):
    """One pool, so far."""

    pool: str
    jobs: int
    ended: int
    started_early: int
    slowed: int
    mean_wait_s: float | None


class ReportOut(Sent):
    """What sharing has done so far, measured against the world without it."""

    jobs: int
    ended: int
    waiting: int
    running: int
    started_early: int = Field(description="jobs that began before they would have without sharing")
    hours_earlier: float = Field(description="sum over those jobs")
    guests: int = Field(description="jobs that ran on lent GPUs at some time")
    lent_gpu_hours: float
    holds: int = Field(description="decisions that kept GPUs idle for a pool")
    held_gpus_most: int
    sent_back: int
    repeated_gpu_hours: float
    squeezed: int = Field(description="jobs whose share of a GPU was cut at some time")
    shares_in_force: list[ShareReport]
    slowed: int = Field(description="jobs that ended more than 60 s later than without sharing")
    slowed_most_s: float
    unresolved: int = Field(description="ended jobs whose end without sharing is not known yet")
    consenting_slowed: int = Field(description="of those, jobs that consented to share their GPU")
    pools: list[PoolReport]
