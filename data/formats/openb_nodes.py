"""Nodes of Alibaba's GPU cluster of 2023 (openb): `sn,cpu_milli,memory_mib,gpu,model`, as CSV or Parquet.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from data.intake.counts import whole
from data.intake.delimited import csv_lines
from data.intake.format import Format, Head, Kind, Match, Reading, plain
from data.intake.headed import Header
from data.intake.parquet import parquet_rows
from data.intake.rows import Notes, RejectedError, Row, rows_from
from data.intake.rules import ImportRule
from data.intake.source import PARQUET_MAGIC, opened
from data.intake.text import clean
from data.inventory_records import NodeRecord
from data.records import MILLI

_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def sniff(head: Head) -> Match | None:
    """The five columns."""
    names = {plain(name) for name in (head.columns if head.is_parquet else head.header(","))}
    if {plain(name) for name in _COLUMNS} <= names:
        return Match(0.98, "the columns of openb's node list (sn, cpu_milli, memory_mib, gpu, model)")
    return None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: a node each."""
    nodes = _Nodes(reading.options.cluster)
    with opened(reading.path) as file:
        is_parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if is_parquet:
        yield from rows_from(parquet_rows(reading.path), nodes.of_values)
        return
    with opened(reading.path) as file:
        lines = csv_lines(file)
        header = Header(reading.path, lines)
        header.need(*_COLUMNS)
        yield from header.rows(lines, nodes.of_fields)


class _Nodes:
    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def of_values(self, row: dict[str, Any], notes: Notes) -> Sequence[NodeRecord]:
        """The node of a row of Parquet."""
        fields = {plain(name): "" if value is None else str(value) for name, value in row.items()}
        return self.of_fields(fields, notes)

    def of_fields(self, fields: dict[str, str], notes: Notes) -> Sequence[NodeRecord]:
        """The node of a line."""
        name = clean(fields.get("sn"), notes, "the node")
        if not name:
            raise RejectedError(ImportRule.MISSING_VALUE, "the node has no name")
        model = clean(fields.get("model"), notes, "the model")
        cpu_milli = whole(fields.get("cpumilli", ""), "cpu_milli", notes)
        memory = whole(fields.get("memorymib", ""), "memory_mib", notes)
        return [
            NodeRecord(
                self._cluster,
                name,
                whole(fields.get("gpu", ""), "gpu", notes),
                gpu_type=model.lower() if model else None,
                cpus=None if cpu_milli is None else cpu_milli / MILLI,
                memory_mib=memory,
            )
        ]


FORMAT: Final = Format(
    "openb-nodes", "Nodes of Alibaba's GPU cluster of 2023 (openb)", Kind.INVENTORY, sniff, rows
)
