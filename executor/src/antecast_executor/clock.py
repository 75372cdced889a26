"""The clocks, passed in so that tests can drive them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall clock for people, monotonic clock for deadlines.

    The monotonic one counts from the boot, so its instants hold across a restart of the executor.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


def to_text(instant_s: float) -> str:
    """An instant as RFC 3339, UTC, with microseconds."""
    return datetime.fromtimestamp(instant_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_boot_id() -> str:
    """Which boot of the kernel this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
