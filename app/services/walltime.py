"""Executors live on the wall clock; a demonstration's clock runs faster. From theirs to ours."""

from datetime import datetime, timedelta

from app.clock import Clock, ScaledClock


def on_clock(clock: Clock, wall: datetime) -> datetime:
    """What our clock said, or is going to say, at an instant of the wall clock."""
    if isinstance(clock, ScaledClock):
        return clock.origin + (wall - clock.origin) * clock.speed
    return wall


def seconds_on_clock(clock: Clock, wall_s: float) -> float:
    """How long a span of the wall clock is on ours."""
    return wall_s * clock.speed if isinstance(clock, ScaledClock) else wall_s


def later(clock: Clock, wall_s: float) -> datetime:
    """What our clock is going to say in so many seconds of the wall clock."""
    return clock.now() + timedelta(seconds=seconds_on_clock(clock, wall_s))
