"""Explanations on the wire. Evidence is by name: numbers, or names of jobs and pools."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from app.schemas.base import Sent

Evidence = dict[str, int | float | str | None]


class ChangeOut(Sent):
    """What would let the job start; `value` is how much of it, in the unit of `text`."""

    lever: str
    value: float | None
    text: str


class AheadJobOut(Sent):
    """A job that stands before another in its line."""

    job_id: str
    num_gpus: int
    standing: Literal["waiting", "guest"]


class AheadOut(Sent):
    """Who stands before a job in its pool's line (the first are named), and what the pool's own jobs use."""

    total: int
    gpus: int
    own_gpus: int
    quota_gpus: int
    jobs: list[AheadJobOut]


class SentBackOut(Sent):
    """When the job was sent back last, and by which decision: its explanation says for whom."""

    at: datetime
    decision_seq: int | None
    reason: str | None
    lost_s: float = Field(description="running time lost so far, all times together")


class JobExplanationOut(Sent):
    """Why a job waits, or runs as it does, as of a decision."""

    job_id: str
    pool: str
    num_gpus: int
    kind: Literal["waits", "starts", "guest", "own", "not-decided-yet"]
    why: str | None = Field(description="with `waits`: a word of docs/explain-waiting.md")
    text: str
    evidence: Evidence
    ahead: AheadOut | None
    changes: list[ChangeOut]
    earliest: datetime | None = Field(description="it may start then, if lives are short")
    latest: datetime | None = Field(
        description="its start in the world without sharing, lives at their .95 quantile: "
        "the promise is that it starts no later"
    )
    dropped: str | None = Field(description="why what the decision says of it was not carried out")
    sent_back: SentBackOut | None
    seq: int = Field(description="the decision")
    epoch: int
    at: datetime


class WaitingOut(Sent):
    """Why one of many jobs waits."""

    job_id: str
    pool: str
    num_gpus: int
    submit: datetime
    why: str
    text: str
    evidence: Evidence
    changes: list[ChangeOut]
    earliest: datetime | None
    latest: datetime | None


class ExplanationsOut(Sent):
    """Why jobs wait, by (submit, id), as of the latest decision. `next_after` is for the next page."""

    seq: int
    epoch: int
    at: datetime
    policy: str
    settings: Evidence = Field(description="in force, defaults included")
    idle_gpus: int
    running: int
    waiting: int
    by_reason: dict[str, int]
    items: list[WaitingOut]
    next_after: str | None


class HoldExplanationOut(Sent):
    """For whom GPUs are kept idle."""

    pool: str
    num_gpus: int
    until: datetime | None
    jobs: list[str]
    text: str
    evidence: Evidence


class SendBackExplanationOut(Sent):
    """Why a guest is sent back, and for whom."""

    job_id: str
    jobs: list[str]
    text: str
    evidence: Evidence


class DecisionExplanationOut(Sent):
    """Why a decision holds GPUs and sends guests back."""

    seq: int
    epoch: int
    at: datetime
    idle_gpus: int
    idle_after_gpus: int
    holds: list[HoldExplanationOut]
    send_backs: list[SendBackExplanationOut]
