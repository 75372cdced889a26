"""Fairness on the wire."""

from pydantic import Field

from app.schemas.base import Sent


class PoolFairnessOut(Sent):
    """One pool at this instant, GPUs."""

    pool: str = Field(examples=["vision"])
    quota_gpus: int
    own_gpus: int = Field(description="that its own jobs have")
    guest_gpus: int = Field(description="that its jobs have on loan")
    unused_quota_gpus: int = Field(description="quota that its own jobs do not have")
    lent_gpus: float = Field(description="of these, with guests: laid on all pools in proportion to it")
    held_idle_gpus: int = Field(description="kept idle for it")
    returnable_gpus: int = Field(
        description="unused quota it can have at once: idle GPUs, and guests that may be sent back"
    )
    due_jobs: int = Field(description="own jobs that wait although they fit its quota")
    due_gpus: int
    not_due_jobs: int
    not_due_gpus: int
    longest_wait_of_due_s: float | None = Field(description="since it was submitted")
    is_over_quota: bool = Field(description="its own jobs have more than its quota, which was cut: it drains")
    is_borrowing: bool
    is_starved: bool = Field(description="a job of its own is due and does not run")


class FairnessOut(Sent):
    """Who uses whose quota right now."""

    seq: int
    epoch: int
    is_lending: bool
    idle_gpus: int
    pools: list[PoolFairnessOut]
