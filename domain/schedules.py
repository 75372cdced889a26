"""What happened: who ran when, at which rate, and what was thrown away."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from domain.cluster import Gpu


class Stretch(NamedTuple):
    """A stretch of time in which a job ran at one rate beside the same jobs.

    Attributes:
        job_id: whose stretch it is.
        start_s, end_s: half-open [start, end), seconds.
        is_guest: whether it began on lent GPUs.
        is_lost: whether its work was thrown away because the guest was sent back.
        rate: work done per second relative to running alone, in (0, 1].
        own_from_s: instant from which the GPUs counted as its pool's own; None if never.
        gpus: where it ran; empty where GPUs are only counted.
    """

    job_id: str
    start_s: float
    end_s: float
    is_guest: bool = False
    is_lost: bool = False
    rate: float = 1.0
    own_from_s: float | None = None
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """All stretches of a replay, in the order in which they ended (ties in the order they began)."""

    stretches: tuple[Stretch, ...]
    events: int = 0
    """Arrivals and endings (also of attempts sent back) the engine went through."""
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def first_starts(self) -> dict[str, float]:
        """First start of each job's attempt that counted."""
        starts: dict[str, float] = {}
        for stretch in self.stretches:
            if not stretch.is_lost:
                known = starts.get(stretch.job_id)
                if known is None or stretch.start_s < known:
                    starts[stretch.job_id] = stretch.start_s
        return starts

    def last_ends(self) -> dict[str, float]:
        """End of each job."""
        ends: dict[str, float] = {}
        for stretch in self.stretches:
            if not stretch.is_lost:
                ends[stretch.job_id] = max(stretch.end_s, ends.get(stretch.job_id, stretch.end_s))
        return ends
