"""`scontrol show node`: one record per node, on several lines or on one (`-o`), with `-d` GresUsed too."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.rows import Notes, Row, rows_from
from data.intake.source import opened
from data.inventory_records import NodeRecord
from data.slurm.nodes import NodeFields, hosts, node_record, pools_of
from data.slurm.scontrol_text import Record, scontrol_records

_FIRST: Final = re.compile(r"\s*NodeName=\S+(?:\s|$)")
_OTHERS: Final = ("CPUTot=", "RealMemory=", "CfgTRES=", "Gres=", "State=", "Arch=")


def sniff(head: Head) -> Match | None:
    """A line that begins with `NodeName=`, and other keys of a node."""
    first = next((line for line in head.lines if line.strip()), "")
    if not any(map(_FIRST.match, head.lines)):
        return None
    found = [key for key in _OTHERS if any(key in line for line in head.lines)]
    if not found:
        return Match(0.4, "a line that begins with NodeName=")
    score = 0.97 if _FIRST.match(first) else 0.8
    return Match(score, f"records of NodeName= with {', '.join(found[:3])}")


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: a node each."""
    cluster = reading.options.cluster

    def parse(record: Record, notes: Notes) -> Sequence[NodeRecord]:
        pools = pools_of(record.get("Partitions"))
        return [
            node_record(cluster, _fields(name, record), pools, notes)
            for name in hosts(record["NodeName"], "NodeName")
        ]

    with opened(reading.path) as file:
        yield from rows_from(scontrol_records(file, "NodeName"), parse)


def _fields(name: str, record: Record) -> NodeFields:
    return NodeFields(
        name=name,
        gres=record.get("Gres"),
        cfg_tres=record.get("CfgTRES"),
        gres_used=record.get("GresUsed"),
        alloc_tres=record.get("AllocTRES"),
        state=record.get("State"),
        cpus=record.get("CPUTot", record.get("CPUs")),
        memory=record.get("RealMemory"),
    )


FORMAT: Final = Format("scontrol-node", "Nodes of Slurm: scontrol show node", Kind.INVENTORY, sniff, rows)
