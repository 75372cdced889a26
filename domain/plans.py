"""What a policy decides at one instant: starts, guests sent back, conversions, holds, placements."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.cluster import Gpu
from domain.jobs import Job


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


SHARE_STEP_PCT: Final = 10
"""MPS shares are set in steps of so many per cent (Gimbal, LGRR)."""


@dataclass(frozen=True, slots=True)
class WorkerShares:
    """MPS shares of a job's workers: caps, so those of two workers on a GPU may add up to more than 100.

    Attributes:
        job_id: whose workers.
        shares_pct: one for each GPU of its placement, in the same order; 100 is no cap.

    Raises:
        ValueError: if a share is no multiple of `SHARE_STEP_PCT` in [10, 100].
    """

    job_id: str
    shares_pct: tuple[int, ...]

    def __post_init__(self) -> None:
        for share in self.shares_pct:
            if share % SHARE_STEP_PCT or not SHARE_STEP_PCT <= share <= 100:
                raise ValueError(
                    f"job {self.job_id}: a share is {share} %, must be a multiple of {SHARE_STEP_PCT} in "
                    f"[{SHARE_STEP_PCT}, 100]"
                )


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions of one instant, carried out in the order of the fields.

    Attributes:
        send_backs: guests to stop now; they keep their place in line and start again from zero.
        conversions: running guests that have become their pool's own, without moving.
        starts: jobs to start now.
        holds: GPUs that stay idle on purpose.
        placements: where the started gangs go; empty where only counts are planned. GPUs of a job that runs
            are shared with it from then on.
        late: own jobs that are left waiting although others start, because they are slowed already: the GPUs
            go to those that can still be on time.
        suspends: jobs to stop now with all of their work kept; they wait again. Carried out before the starts.
        shares: MPS shares of jobs that share a GPU; whoever is not named keeps what it has, 100 at first.
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
