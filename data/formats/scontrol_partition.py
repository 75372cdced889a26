"""`scontrol show partition`: GPUs, nodes and longest time of each partition."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from data.intake.counts import whole
from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.rows import Notes, RejectedError, Row, rows_from
from data.intake.rules import ImportRule
from data.intake.source import opened
from data.intake.text import clean
from data.inventory_records import PoolRecord
from data.rules import shown
from data.slurm.durations import parse_limit
from data.slurm.gpus import parse_tres
from data.slurm.scontrol_text import Record, scontrol_records

_FIRST: Final = re.compile(r"\s*PartitionName=\S+(?:\s|$)")
_OTHERS: Final = ("MaxTime=", "TotalNodes=", "Nodes=", "AllowGroups=", "State=")


def sniff(head: Head) -> Match | None:
    """A line that begins with `PartitionName=`, and other keys of a partition."""
    if not any(map(_FIRST.match, head.lines)):
        return None
    found = [key for key in _OTHERS if any(key in line for line in head.lines)]
    if any(line.lstrip().startswith("NodeName=") for line in head.lines):
        return Match(0.4, "nodes and partitions in one file")
    return Match(0.97 if len(found) > 1 else 0.4, f"records of PartitionName= with {', '.join(found[:3])}")


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: a partition each."""
    cluster = reading.options.cluster

    def parse(record: Record, notes: Notes) -> Sequence[PoolRecord]:
        name = clean(record["PartitionName"], notes, "the partition")
        if name is None:
            raise RejectedError(ImportRule.MISSING_VALUE, "the partition has no name")
        nodes = whole(record.get("TotalNodes", ""), "TotalNodes", notes)
        max_time_s = limit_s(record.get("MaxTime", ""), notes)
        return [PoolRecord(cluster, name, _gpus(record, notes), num_nodes=nodes, max_time_s=max_time_s)]

    with opened(reading.path) as file:
        yield from rows_from(scontrol_records(file, "PartitionName"), parse)


def limit_s(text: str, notes: Notes) -> float | None:
    """Seconds of a partition's limit; None where it has none, or (with a note) it cannot be read."""
    try:
        return parse_limit(text).limit_s
    except ValueError as error:
        notes.add(ImportRule.BAD_LIMIT, shown(error))
        return None


def _gpus(record: Record, notes: Notes) -> int | None:
    """GPUs of its TRES. One that names none is silent: the site may not track `gres/gpu` at all."""
    try:
        found = parse_tres(record.get("TRES", ""))
    except ValueError as error:
        notes.add(ImportRule.BAD_GPUS, shown(error))
        return None
    return None if found is None or not found.total else found.total


FORMAT: Final = Format(
    "scontrol-partition", "Partitions of Slurm: scontrol show partition", Kind.INVENTORY, sniff, rows
)
