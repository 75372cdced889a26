"""The service's clock. Nothing else reads the wall clock, so that tests and demonstrations can move it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """This instant, in UTC."""
        ...


class SystemClock:
    """The wall clock."""

    def now(self) -> datetime:
        """This instant, in UTC."""
        return datetime.now(UTC)


@dataclass(frozen=True)
class ScaledClock:
    """A clock that runs `speed` times as fast as the wall clock since `origin`, for demonstrations.

    Processes that share origin and speed agree on the time.
    """

    origin: datetime
    speed: float

    def now(self) -> datetime:
        """This instant, in UTC."""
        return self.origin + (datetime.now(UTC) - self.origin) * self.speed


def make_clock(speed: float = 1.0, origin: datetime | None = None) -> Clock:
    """The wall clock, or a faster one that counts from `origin` on (from now where None)."""
    if speed == 1.0:
        return SystemClock()
    return ScaledClock(origin or datetime.now(UTC), speed)
