"""Schedules as CSV: one row per stretch, in the order in which they ended."""

import csv
from collections.abc import Iterable
from pathlib import Path

from domain.schedules import Stretch

HEADER = ("job_id", "start_s", "end_s", "rate", "lost", "guest", "own_from_s")


def write_schedule(path: Path, stretches: Iterable[Stretch]) -> None:
    """Write stretches; numbers are written so that they read back as the same floats.

    Columns: job_id; start_s, end_s (half-open, seconds); rate (work per second relative to running alone);
    lost (1: the attempt was thrown away); guest (1: it began on lent GPUs); own_from_s (instant from which
    it counted as its pool's own, empty if never).
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for stretch in stretches:
            writer.writerow(
                (
                    stretch.job_id,
                    number(stretch.start_s),
                    number(stretch.end_s),
                    number(stretch.rate),
                    int(stretch.is_lost),
                    int(stretch.is_guest),
                    "" if stretch.own_from_s is None else number(stretch.own_from_s),
                )
            )


def number(value: float) -> str:
    """Shortest text that reads back as the same float; whole numbers without a point."""
    return str(int(value)) if value.is_integer() else repr(value)
