"""How far a job is that may run slower than alone: work, in seconds of running alone on its own GPUs."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class WorkDone:
    """How far a job is: `work_s` (solo-equivalent) done at `since_s`, growing at `rate` from there.

    At rate 1, with no work done at its start, its age is exactly the time since: so nothing changes, bit by
    bit, where nobody shares.
    """

    work_s: float = 0.0
    rate: float = 0.0
    since_s: float = 0.0

    def work_at(self, now_s: float) -> float:
        """Work done by `now_s`, seconds of running alone."""
        return self.work_s + self.rate * (now_s - self.since_s)

    def reaches_s(self, work_s: float) -> float:
        """Instant at which so much work is done, at a rate above 0."""
        return self.since_s + (work_s - self.work_s) / self.rate

    def alone_since_s(self, now_s: float) -> float:
        """When a job that has run alone all the time started, if it is as far: `now_s` less the work done.

        The work that is lost to rates below 1 makes it later. Written so that at rate 1 `now_s` cancels.
        """
        return (self.since_s - self.work_s) + (1.0 - self.rate) * (now_s - self.since_s)

    def at_rate(self, rate: float, now_s: float) -> Self:
        """The same job, that goes on at another rate from `now_s` on."""
        return self if rate == self.rate else type(self)(self.work_at(now_s), rate, now_s)


def started_at(now_s: float) -> WorkDone:
    """A job that starts from zero, alone."""
    return WorkDone(0.0, 1.0, now_s)
