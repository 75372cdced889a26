"""Schedules as CSV: one row per stretch, in the order in which they ended."""

import csv
from collections.abc import Iterable
from pathlib import Path

from data.gpu_lists import gpus_text
from domain.errors import Fault, InputError
from domain.schedules import Stretch

HEADER = ("job_id", "start_s", "end_s", "rate", "lost", "guest", "own_from_s")
GPUS = "gpus"
"""Column that is there where jobs ran on known GPUs."""
STOPPED = "stopped"
"""Column that is there where guests that were sent back went on from a checkpoint."""


def write_schedule(path: Path, stretches: Iterable[Stretch]) -> None:
    """Write stretches; numbers are written so that they read back as the same floats.

    Columns: job_id; start_s, end_s (half-open, seconds); rate (work per second relative to running alone);
    lost (1: the attempt was thrown away); guest (1: it began on lent GPUs); own_from_s (instant from which
    it counted as its pool's own, empty if never); and, where jobs ran on known GPUs, gpus
    ("node/index;node/index"); and, where some attempt is so, stopped (1: the guest was sent back, rate is the
    share of its time that was kept, and its job goes on from there).
    """
    rows = list(stretches)
    is_placed = any(stretch.gpus for stretch in rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        has_stopped = any(stretch.is_stopped for stretch in rows)
        writer.writerow((*HEADER, *((GPUS,) if is_placed else ()), *((STOPPED,) if has_stopped else ())))
        for stretch in rows:
            gpus = (gpus_text(stretch.gpus),) if is_placed else ()
            writer.writerow(
                (
                    stretch.job_id,
                    number(stretch.start_s),
                    number(stretch.end_s),
                    number(stretch.rate),
                    int(stretch.is_lost),
                    int(stretch.is_guest),
                    "" if stretch.own_from_s is None else number(stretch.own_from_s),
                    *gpus,
                    *((int(stretch.is_stopped),) if has_stopped else ()),
                )
            )


def read_schedule(path: Path) -> tuple[Stretch, ...]:
    """Read what `write_schedule` has written, in the same order; on which GPUs a job ran is left out.

    Raises:
        InputError: if columns are missing, or naming the first row that holds no stretch.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in HEADER if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError([Fault(str(path), 1, "missing-column", ", ".join(missing))])
        stretches = []
        for row in reader:
            try:
                stretches.append(_stretch(row))
            except (TypeError, ValueError) as error:
                raise InputError([Fault(str(path), reader.line_num, "no-stretch", str(error))]) from error
    return tuple(stretches)


def _stretch(row: dict[str, str]) -> Stretch:
    return Stretch(
        row["job_id"],
        float(row["start_s"]),
        float(row["end_s"]),
        is_guest=bool(int(row["guest"])),
        is_lost=bool(int(row["lost"])),
        rate=float(row["rate"]),
        own_from_s=float(row["own_from_s"]) if row["own_from_s"] else None,
        is_stopped=bool(int(row.get(STOPPED) or 0)),
    )


def number(value: float) -> str:
    """Shortest text that reads back as the same float; whole numbers without a point."""
    return str(int(value)) if value.is_integer() else repr(value)
