"""What a policy decides at one instant: starts, guests sent back, conversions, holds, placements, shares."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.cluster import Gpu
from domain.jobs import Job

SHARE_STEP_PCT: Final = 10
"""Shares of a GPU come in steps of so many per cent (Gimbal, LGRR)."""


class Start(NamedTuple):
    """Start a pending job now: as its pool's own, or as a guest on lent GPUs."""

    job: Job
    is_guest: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs kept idle for a pool until an instant (None: until its waiting start has been served)."""

    pool: str
    num_gpus: int
    until_s: float | None = None

    def __post_init__(self) -> None:
        if self.num_gpus < 1:
            raise ValueError(f"a hold for pool {self.pool} keeps {self.num_gpus} GPUs, must be at least 1")


@dataclass(frozen=True, slots=True)
class Placement:
    """The GPUs a gang gets.

    Raises:
        ValueError: if a GPU is named twice.
    """

    job_id: str
    gpus: tuple[Gpu, ...]

    def __post_init__(self) -> None:
        if len(set(self.gpus)) != len(self.gpus):
            raise ValueError(f"job {self.job_id}: a GPU is named twice")


@dataclass(frozen=True, slots=True)
class WorkerShares:
    """How much of its GPU each worker of a job may use from now on; those on one GPU may sum to over 100.

    Attributes:
        job_id: whose workers.
        shares_pct: one for each GPU of its placement, in that order: 10 to 100, in steps of 10.

    Raises:
        ValueError: if there is none, or one is out of range or no step.
    """

    job_id: str
    shares_pct: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.shares_pct:
            raise ValueError(f"job {self.job_id}: no shares are given")
        for share in self.shares_pct:
            if share not in range(SHARE_STEP_PCT, 101, SHARE_STEP_PCT):
                found = f"job {self.job_id}: a share is {share} %, must be 10 to 100 in steps of 10"
                raise ValueError(found)


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions of one instant, carried out in the order of the fields; suspends come with those sent back.

    Attributes:
        send_backs: guests to stop now; they keep their place in line and start again from zero.
        conversions: running guests that have become their pool's own, without moving.
        starts: jobs to start now.
        holds: GPUs that stay idle on purpose.
        placements: where the started gangs go; empty where only counts are planned.
        late: own jobs that are left waiting although others start, because they are slowed already: the GPUs
            go to those that can still be on time.
        suspends: jobs to stop now whose work is all kept; they wait again, at their place in line, and go on
            from there.
        shares: jobs that run or start and what their workers may use of their GPUs; the shares of the others
            stay as they are.
    """

    send_backs: tuple[Job, ...] = ()
    conversions: tuple[Job, ...] = ()
    starts: tuple[Start, ...] = ()
    holds: tuple[Hold, ...] = ()
    placements: tuple[Placement, ...] = ()
    late: tuple[Job, ...] = ()
    suspends: tuple[Job, ...] = ()
    shares: tuple[WorkerShares, ...] = ()


NOTHING = Plan()
"""The plan that leaves everything as it is."""
