"""What happened: who ran when, at which rate, and what was thrown away."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from domain.cluster import Gpu

NOTHING_KEPT_RATE: Final = 1e-9
"""Rate of an attempt that counted for nothing after something had been kept before: rates are positive."""


class Stretch(NamedTuple):
    """A stretch of time in which a job ran at one rate beside the same jobs.

    An attempt is one stretch where its job has its GPUs alone. Where it shares them it is as many as its rate
    or its neighbours changed, each beginning where the one before ended (`as_attempts` joins them).

    An attempt that was sent back is lost, all its stretches, where nothing of its job's work has been kept,
    neither of this attempt nor of one before. Otherwise it is not lost but stopped, which its last stretch
    says, and all its stretches have as their rate the share of its time that counted: k / d if it kept k of d
    seconds, and `NOTHING_KEPT_RATE`, the smallest rate, if it kept nothing of its own after something had
    been kept before. One that was suspended keeps all its work, so its stretches are like any other; its job
    has more of them later. So rate times length, summed over the stretches that are not lost, is always the
    length of the job.

    Attributes:
        job_id: whose stretch it is.
        start_s, end_s: half-open [start, end), seconds.
        is_guest: whether it began on lent GPUs.
        is_lost: whether its work was thrown away because the guest was sent back, and its job started from
            zero again.
        rate: work done per second relative to running alone, in (0, 1].
        own_from_s: instant from which the GPUs counted as its pool's own; None if never.
        gpus: where it ran; empty where GPUs are only counted.
        is_stopped: whether the guest was sent back at its end and its job goes on from a checkpoint; never of
            one that is lost.
    """

    job_id: str
    start_s: float
    end_s: float
    is_guest: bool = False
    is_lost: bool = False
    rate: float = 1.0
    own_from_s: float | None = None
    gpus: tuple[Gpu, ...] = ()
    is_stopped: bool = False

    @property
    def was_sent_back(self) -> bool:
        """Whether it ended because the guest was sent back, whatever was kept of it."""
        return self.is_lost or self.is_stopped

    @property
    def lost_share(self) -> float:
        """Share of its time that was thrown away, in [0, 1]: all if lost, 1 - rate if stopped, else none."""
        if self.is_stopped:
            return 1.0 - self.rate
        return 1.0 if self.is_lost else 0.0


def as_attempts(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Each attempt as one stretch, at its mean rate, where its last one stood.

    An attempt has several where its rate changed: each begins where the one before it ended, on the same
    GPUs, and all of them are lost or none. Stretches that name no GPUs are attempts already.

    Args:
        stretches: in the order in which they ended.
    """
    found: dict[int, Stretch] = {}
    last: dict[str, int] = {}
    for place, stretch in enumerate(stretches):
        before = found.get(last.get(stretch.job_id, -1))
        if before is not None and _goes_on(before, stretch):
            del found[last[stretch.job_id]]
            stretch = _joined(before, stretch)  # noqa: PLW2901 - what stands for it from here on
        found[place] = stretch
        last[stretch.job_id] = place
    return tuple(found.values())


def _goes_on(before: Stretch, after: Stretch) -> bool:
    is_there = bool(after.gpus) and before.gpus == after.gpus and before.end_s == after.start_s
    return is_there and before.is_lost == after.is_lost and not before.is_stopped


def _joined(before: Stretch, after: Stretch) -> Stretch:
    spent_s = after.end_s - before.start_s
    work_s = before.rate * (before.end_s - before.start_s) + after.rate * (after.end_s - after.start_s)
    rate = work_s / spent_s if spent_s > 0.0 else after.rate
    return after._replace(start_s=before.start_s, is_guest=before.is_guest, rate=rate)


@dataclass(frozen=True, slots=True)
class Schedule:
    """All stretches of a replay, in the order in which they ended (ties in the order they began)."""

    stretches: tuple[Stretch, ...]
    events: int = 0
    """Arrivals and endings (also of attempts sent back) the engine went through."""
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def first_starts(self) -> dict[str, float]:
        """First start of each job's attempt that counted; with checkpoints, of the first that kept work."""
        starts: dict[str, float] = {}
        for stretch in self.stretches:
            if not stretch.is_lost:
                known = starts.get(stretch.job_id)
                if known is None or stretch.start_s < known:
                    starts[stretch.job_id] = stretch.start_s
        return starts

    def last_ends(self) -> dict[str, float]:
        """End of each job that has ended; one that was sent back last has not."""
        ends: dict[str, float] = {}
        for stretch in self.stretches:
            if not stretch.was_sent_back:
                ends[stretch.job_id] = max(stretch.end_s, ends.get(stretch.job_id, stretch.end_s))
        return ends

    def resumed_starts(self) -> dict[str, float]:
        """Start of the last attempt of each job that went on from a checkpoint; the others are left out."""
        stopped = {stretch.job_id for stretch in self.stretches if stretch.is_stopped}
        starts: dict[str, float] = {}
        for stretch in self.stretches if stopped else ():
            if stretch.job_id in stopped:
                known = starts.get(stretch.job_id, stretch.start_s)
                starts[stretch.job_id] = max(known, stretch.start_s)
        return starts
