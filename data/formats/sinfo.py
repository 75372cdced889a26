"""`sinfo`, as text: any columns with node names among them, in columns or between delimiters.

Node by node (`-N`) or with lists of nodes. A node is on a line for each of its partitions, and perhaps for
each state; its record gathers the partitions of all its lines, and a partition's record its nodes.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from data.formats.scontrol_partition import limit_s
from data.intake.counts import whole
from data.intake.delimited import readable
from data.intake.format import Format, Head, Kind, Match, Reading, plain
from data.intake.rows import Notes, Record, RejectedError, Row, Unreadable, rows_from
from data.intake.rules import ImportRule
from data.intake.source import Line, lines_of, opened, refuse
from data.rules import Rule
from data.slurm.nodes import Gathered, NodeFields, hosts, pools_of

_NODE: Final = ("nodelist", "hostnames", "nodenames", "nodehost", "node")
_KNOWN: Final = frozenset(
    {"partition", "state", "gres", "gresused", "cpus", "memory", "nodes", "timelimit", "avail", "statelong"}
)
_DELIMITERS: Final = ("|", "\t", ";", ",")
_HEADER_WITHIN: Final = 5
"""Lines among which the header is: `-l` prints the date above it."""


def sniff(head: Head) -> Match | None:
    """A header with a column of nodes and others that sinfo has."""
    for line in head.lines[:_HEADER_WITHIN]:
        names = _names(line)
        if names is not None:
            known = [name.upper() for name in names if name in _KNOWN]
            node = next(name for name in names if name in _NODE)
            return Match(0.95, f"a header of sinfo: {', '.join([node.upper(), *known[:3]])}")
    return None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: a line each."""
    with opened(reading.path) as file:
        lines = readable(lines_of(file))
        above = list(islice(lines, _HEADER_WITHIN))
        place = next((k for k, (_, line) in enumerate(above) if _names(_text(line)) is not None), None)
        if place is None:
            raise refuse(
                reading.path, Rule.MISSING_COLUMN, "no header with a column of nodes (NODELIST, HOSTNAMES)"
            )
        sheet = _Sheet(reading.options.cluster, _text(above[place][1]))
        yield from rows_from(chain(above[place + 1 :], lines), sheet.parse)


class _Sheet:
    def __init__(self, cluster: str, header: str) -> None:
        self._gathered = Gathered(cluster)
        self._delimiter = _delimiter(header)
        self._names = list(_names(header) or ())
        self._node = next(name for name in _NODE if name in self._names)

    def parse(self, line: Line, notes: Notes) -> Sequence[Record]:
        """The nodes of a line, and the partition they are in."""
        if line.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        fields = self._fields(line.text)
        pools = pools_of(fields.get("partition"))
        names = hosts(fields[self._node], self._node.upper())
        said = whole(fields["nodes"], "NODES", notes) if "/" not in fields.get("nodes", "/") else None
        if said is not None and said != len(names):
            notes.add(
                ImportRule.NODE_LIST_MISMATCH, f"NODES is {said}, the list beside it names {len(names)}"
            )
        of_nodes = [self._of_node(name, fields) for name in names]
        max_time_s = limit_s(fields["timelimit"], notes) if "timelimit" in fields else None
        nodes = [self._gathered.node(one, pools, notes) for one in of_nodes]
        return [*nodes, *(self._gathered.pool(pool, max_time_s) for pool in pools)]

    def _of_node(self, name: str, fields: dict[str, str]) -> NodeFields:
        return NodeFields(
            name=name,
            gres=fields.get("gres"),
            gres_used=fields.get("gresused"),
            state=fields.get("state", fields.get("statelong")),
            cpus=fields.get("cpus"),
            memory=fields.get("memory"),
        )

    def _fields(self, text: str) -> dict[str, str]:
        width = len(self._names)
        if self._delimiter is None:
            values = text.split(None, width - 1)
        else:
            values = [value.strip() for value in text.split(self._delimiter)]
            values = values[:-1] if len(values) == width + 1 and not values[-1] else values
        if len(values) == width - 1 and self._names[-1] == self._node:
            values.append("")  # a partition without nodes has an empty list
        if len(values) != width:
            found = f"the row has {len(values)} fields, the header has {width}"
            raise RejectedError(ImportRule.FIELD_COUNT, found)
        return dict(zip(reversed(self._names), reversed(values), strict=True))


def _names(header: str) -> tuple[str, ...] | None:
    """Plain names of a header's columns; None if it is none of sinfo's."""
    delimiter = _delimiter(header)
    words = header.split() if delimiter is None else header.rstrip(f" {delimiter}").split(delimiter)
    names = tuple(plain(word) for word in words)
    is_sinfo = any(name in _NODE for name in names) and any(name in _KNOWN for name in names)
    return names if is_sinfo and not any("job" in name or name == "user" for name in names) else None


def _delimiter(header: str) -> str | None:
    return next((sign for sign in _DELIMITERS if sign in header), None)


def _text(line: Line | Unreadable) -> str:
    return "" if isinstance(line, Unreadable) else line.text


FORMAT: Final = Format("sinfo", "Nodes and partitions of Slurm: sinfo, as text", Kind.INVENTORY, sniff, rows)
