"""Executors on the wire. See docs/executor-protocol.md for how the messages follow each other."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, StrictBool, model_validator

from app.schemas.base import Instant, Name, Received, Sent, with_example
from app.schemas.told import MAX_TEXT, Anything, Part, Told

MAX_DEVICES: Final = 1_024
MAX_CAPABILITIES: Final = 64
MAX_PLACEMENTS: Final = 1_024
MAX_EVENTS: Final = 1_000
MAX_REFUSALS: Final = 4_096
_MAX_COUNTER: Final = 2**31 - 1
_DAY_S: Final = 86_400

Counter = Annotated[int, Field(strict=True, ge=0, le=_MAX_COUNTER)]
Version = Annotated[str, Field(pattern=r"^[A-Za-z0-9.+!_-]{1,63}$", examples=["0.3.0"])]
BootId = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
PlacementId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
SignalNumber = Annotated[int | None, Field(strict=True, ge=1, le=128)]
ExitCode = Annotated[int | None, Field(strict=True, ge=-(2**31), lt=2**31)]
Span = Annotated[float | None, Field(ge=0.0, le=1e9)]


class JoinTokenIn(Received):
    """A join token to be made."""

    node: Annotated[Name, Field(examples=["node-1"])]
    ttl_s: Annotated[int, Field(strict=True, ge=1, le=7 * _DAY_S, description="how long it is good for")] = (
        3600
    )


class JoinTokenMade(Sent):
    """A join token; it is shown this once."""

    token: str


class EnrolIn(Told):
    """What an executor shows to be trusted."""

    token: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$", repr=False)]
    node: Name
    version: Version


class Enrolled(Sent):
    """Who the executor is from now on; the secret is shown this once."""

    executor_id: str
    secret: str


class Device(Part):
    """A GPU: what identifies it, and whatever the executor reads of it."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, frozen=True)

    uuid: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$")]
    index: Annotated[int, Field(strict=True, ge=0, lt=MAX_DEVICES)]
    is_lost: StrictBool = False


class Capability(Part):
    """Something that a node can do or cannot do."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    supported: StrictBool


Devices = Annotated[list[Device], Field(max_length=MAX_DEVICES)]
Capabilities = Annotated[list[Capability], Field(max_length=MAX_CAPABILITIES)]


class SessionIn(Told):
    """What an executor says when it begins."""

    model_config = with_example(
        boot_id="5b1f0c4e-7a86-4a0e-9f0e-2f6d1c1b9a11",
        version="0.1.0",
        devices=[{"uuid": "GPU-5f1c", "index": 0}],
        capabilities=[{"name": "pause", "supported": True}],
    )

    boot_id: BootId
    version: Version
    devices: Devices
    capabilities: Capabilities
    placements: Annotated[
        list[PlacementId],
        Field(default_factory=list, max_length=MAX_PLACEMENTS, description="those it found running"),
    ]


class SessionOut(Sent):
    """The session, and how often the executor has to be heard of."""

    session: int
    lease_s: float
    poll_wait_s: float
    status_every_s: float


class RefusalIn(Part):
    """Why a document, or one placement of it, cannot be accepted."""

    placement_id: Annotated[str | None, Field(max_length=256)]
    reason: Annotated[str, Field(max_length=64)]
    message: Text


class PlacementIn(Part):
    """How a placement stands."""

    placement_id: PlacementId
    job_id: Name
    state: Literal["launching", "running", "paused", "stopping", "ended", "lost"]
    pid: Annotated[int | None, Field(strict=True, ge=0, le=_MAX_COUNTER)]
    started_at: Instant | None
    ended_at: Instant | None
    exit_code: ExitCode
    signal: SignalNumber
    adopted: StrictBool
    conditions: Annotated[list[Anything], Field(max_length=16)]


class StatusIn(Told):
    """How a node stands."""

    model_config = with_example(
        session=1,
        epoch=0,
        generation=0,
        accepted=True,
        refusals=[],
        placements=[],
        devices=[{"uuid": "GPU-5f1c", "index": 0}],
        capabilities=[],
        sent_at="2026-01-05T12:00:00Z",
    )

    session: Counter
    epoch: Counter
    generation: Counter
    accepted: StrictBool
    refusals: Annotated[list[RefusalIn], Field(max_length=MAX_REFUSALS)]
    placements: Annotated[list[PlacementIn], Field(max_length=MAX_PLACEMENTS)]
    devices: Devices
    capabilities: Capabilities
    calibrations: Annotated[list[Anything], Field(default_factory=list, max_length=MAX_PLACEMENTS)]
    sent_at: Instant


class EndData(Part):
    """What is said of a placement's end."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    exit_code: ExitCode = None
    signal: SignalNumber = None
    reason: Annotated[str, Field(max_length=64)] = "exited"
    duration_s: Span = None


class EventIn(Part):
    """Something that happened on a node. Kinds that are not known are kept and change nothing."""

    event_id: UUID
    kind: Word
    at: Instant
    placement_id: PlacementId | None = None
    job_id: Name | None = None
    data: Annotated[Anything, Field(default_factory=dict)]

    @model_validator(mode="after")
    def _says_how_it_ended(self) -> Self:
        if self.kind == "placement_ended":
            EndData.model_validate(self.data)
        return self


class EventsIn(Told):
    """Events, the oldest first."""

    model_config = with_example(session=1, events=[])

    session: Counter
    events: Annotated[list[EventIn], Field(max_length=MAX_EVENTS)]


class EventsTaken(Sent):
    """How many events were new, and how many had been told before."""

    accepted: int
    duplicates: int


class WantedCalibration(Sent):
    """That the share of a placement is to be found by measuring, how far it may go, and what for."""

    objective: Literal["jct", "deadline", "makespan", "promise"]
    least_pct: float = Field(ge=10.0, le=100.0, multiple_of=10.0)
    most_pct: float = Field(ge=10.0, le=100.0, multiple_of=10.0)
    steps: float = Field(ge=0.0, description="training steps that the job still has before it")
    utilisation: float | None = Field(default=None, ge=0.0, le=1.0, description="of its GPUs, alone")
    lowest_rate: float | None = Field(default=None, ge=0.0, description="steps per second")
    deadline: datetime | None = None
    promised_by: datetime | None = None


class WantedPlacement(Sent):
    """One command that is to run on GPUs of a node."""

    placement_id: str
    job_id: str
    rank: int
    num_ranks: int
    argv: list[str]
    env: dict[str, str]
    gpus: list[str] = Field(description="UUIDs")
    share_pct: float = Field(
        ge=10.0,
        le=100.0,
        description="a cap and no partition: two placements share a GPU at most; those of a host and its "
        "rider may add up to 200",
    )
    memory_mib: int | None
    priority: int
    state: Literal["running", "paused"]
    grace_s: float
    on_disconnect: Literal["hold", "pause", "stop"]
    role: Literal["own", "guest", "rider", "host"]
    calibrate: WantedCalibration | None = Field(default=None, description="left out where nothing is wanted")


class DesiredOut(Sent):
    """All that is to run on a node. What is not in it is to be stopped."""

    epoch: int
    generation: int
    hash: str = Field(
        description="SHA-256 of the JSON text of the other fields: keys sorted, no blanks, UTF-8 unescaped"
    )
    valid_for_s: float
    plan_id: str | None
    placements: list[WantedPlacement]
    actions: list[dict[str, Any]]


class ExecutorOut(Sent):
    """An executor as it was heard of last."""

    executor_id: str
    node: str
    version: str
    session: int
    boot_id: str
    is_lost: bool
    is_revoked: bool
    lease_until: datetime | None
    observed_epoch: int
    observed_generation: int
    devices: list[dict[str, Any]]
    capabilities: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    status_at: datetime | None
    enrolled_at: datetime


class ExecutorsOut(Sent):
    """A page of executors."""

    items: list[ExecutorOut]
    next: str | None = Field(description="give it as `after` for the next page; null on the last")
