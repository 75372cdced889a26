"""What a policy decides at one instant: starts, guests sent back, conversions, holds, placements."""

from dataclasses import dataclass
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions of one instant, carried out in the order of the fields.

    Attributes:
        send_backs: guests to stop now; they keep their place in line and start again from zero.
        conversions: running guests that have become their pool's own, without moving.
        starts: jobs to start now.
        holds: GPUs that stay idle on purpose.
        placements: where the started gangs go; empty where only counts are planned.
        late: own jobs that are left waiting although others start, because they are slowed already: the GPUs
            go to those that can still be on time.
    """

    send_backs: tuple[Job, ...] = ()
    conversions: tuple[Job, ...] = ()
    starts: tuple[Start, ...] = ()
    holds: tuple[Hold, ...] = ()
    placements: tuple[Placement, ...] = ()
    late: tuple[Job, ...] = ()


NOTHING = Plan()
"""The plan that leaves everything as it is."""
