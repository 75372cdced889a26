"""Philly's two lists: machines with their GPUs, and virtual clusters with their numbers of machines.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019.
The lists have blanks inside of their fields and units glued to numbers; `NA` is a value that is missing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from data.intake.counts import memory_mib, whole
from data.intake.delimited import csv_lines
from data.intake.format import Format, Head, Kind, Match, Reading, plain
from data.intake.headed import Header, trimmed
from data.intake.rows import Notes, RejectedError, Row
from data.intake.rules import ImportRule
from data.intake.source import opened, refuse
from data.intake.text import clean
from data.inventory_records import NodeRecord, PoolRecord
from data.rules import Rule

_MACHINE: Final = "machineid"
_GPUS: Final = ("numberofgpus", "gpus", "gpunum")
_MEMORY: Final = ("singlegpumem", "gpumem", "singlegpumemory")
_POOL: Final = ("vc", "virtualcluster")
_NODES: Final = ("nodenum", "numberofnodes", "nodes")


def sniff(head: Head) -> Match | None:
    """The header of one of the two lists."""
    names = {plain(name) for name in head.header(",")}
    if _MACHINE in names and names & {*_GPUS}:
        return Match(0.97, "a header of Philly's machine list (machineId, number of GPUs)")
    if names & {*_POOL} and names & {*_NODES} and len(names) == 2:
        return Match(0.9, "a header of Philly's list of virtual clusters (vc, node num)")
    return None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: a machine each, or a virtual cluster each."""
    with opened(reading.path) as file:
        lines = csv_lines(file)
        header = Header(reading.path, lines)
        lists = _Lists(reading.options.cluster)
        names = {plain(name) for name in header.names}
        if _MACHINE in names:
            yield from header.rows(lines, lists.machine)
        elif names & {*_POOL}:
            yield from header.rows(lines, lists.pool)
        else:
            raise refuse(
                reading.path, Rule.MISSING_COLUMN, "the header has neither machineId nor vc", header.line
            )


class _Lists:
    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def machine(self, fields: dict[str, str], notes: Notes) -> Sequence[NodeRecord]:
        """The machine of a line."""
        name = clean(trimmed(fields[_MACHINE], "the machine", notes), notes, "the machine")
        if not name:
            raise RejectedError(ImportRule.MISSING_VALUE, "the machine has no name")
        memory = trimmed(_first(fields, _MEMORY), "the memory", notes)
        gpus = whole(trimmed(_first(fields, _GPUS), "the number of GPUs", notes), "the number of GPUs", notes)
        return [NodeRecord(self._cluster, name, gpus, gpu_memory_mib=memory_mib(memory, "the memory", notes))]

    def pool(self, fields: dict[str, str], notes: Notes) -> Sequence[PoolRecord]:
        """The virtual cluster of a line."""
        name = clean(trimmed(_first(fields, _POOL), "the virtual cluster", notes), notes, "the pool")
        if not name:
            raise RejectedError(ImportRule.MISSING_VALUE, "the virtual cluster has no name")
        nodes = whole(_first(fields, _NODES), "the number of nodes", notes)
        return [PoolRecord(self._cluster, name, None, num_nodes=nodes)]


def _first(fields: dict[str, str], names: Sequence[str]) -> str:
    return next((fields[name] for name in names if name in fields), "")


FORMAT: Final = Format(
    "philly-machines", "Philly's machine list, or its list of virtual clusters", Kind.INVENTORY, sniff, rows
)
