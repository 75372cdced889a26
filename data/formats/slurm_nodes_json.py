"""Nodes of Slurm as JSON: `scontrol show nodes --json`, slurmrestd's nodes, `sinfo --json`.

Shapes differ between versions of the data parser: a state is a word or a list, flags stand beside it or in
it, numbers are bare or `{"set": ..., "number": ...}`, and `sinfo` has lists of groups instead of nodes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.objects import json_items
from data.intake.rows import Notes, Record, RejectedError, Row, rows_from
from data.intake.rules import ImportRule
from data.intake.source import opened
from data.slurm.nodes import Gathered, NodeFields, hosts, pools_of

_NODES: Final = re.compile(r'"nodes"\s*:\s*\[\s*\{')
_GROUPS: Final = re.compile(r'"sinfo"\s*:\s*\[')
_OF_NODES: Final = ("gres_used", "real_memory", "slurmd_start_time", "boot_time", "cpu_load", "tres_used")


def sniff(head: Head) -> Match | None:
    """A list `nodes` of objects with a node's names, or a list `sinfo`."""
    text = head.start.decode("utf-8", "replace")
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return None
    if _GROUPS.search(text):
        return Match(0.97, "a JSON document with a list `sinfo`")
    found = [name for name in _OF_NODES if f'"{name}"' in text]
    if _NODES.search(text) and len(found) > 1 and '"jobs"' not in text:
        return Match(0.97, f"a JSON document with a list `nodes` of {', '.join(found[:3])}")
    return None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: an element of the list each."""
    sheet = _Sheet(reading.options.cluster)
    with opened(reading.path) as file:
        yield from rows_from(json_items(file, ("nodes.item", "sinfo.item")), sheet.parse)


class _Sheet:
    def __init__(self, cluster: str) -> None:
        self._gathered = Gathered(cluster)

    def parse(self, found: dict[str, Any], notes: Notes) -> Sequence[Record]:
        """The node of an element, or the nodes of a group."""
        return self._group(found, notes) if isinstance(found.get("nodes"), dict) else self._node(found, notes)

    def _node(self, found: dict[str, Any], notes: Notes) -> Sequence[Record]:
        fields = NodeFields(
            name=_text(found.get("name")) or "",
            gres=_text(found.get("gres")),
            cfg_tres=_tres(found.get("tres")),
            gres_used=_text(found.get("gres_used")),
            alloc_tres=_tres(found.get("tres_used")),
            state=_state(found.get("state"), found.get("state_flags")),
            cpus=_number(found.get("cpus")),
            memory=_number(found.get("real_memory")),
        )
        return [self._gathered.node(fields, pools_of(_text(found.get("partitions"))), notes)]

    def _group(self, found: dict[str, Any], notes: Notes) -> Sequence[Record]:
        names = [name for text in _list(found["nodes"].get("nodes")) for name in hosts(text, "nodes")]
        if not names and _count(found["nodes"].get("total")):
            raise RejectedError(ImportRule.MISSING_VALUE, "the group counts nodes and names none")
        partition = _mapping(found.get("partition"))
        pools = pools_of(_text(partition.get("name")))
        gres = _mapping(found.get("gres"))
        cpus, memory = _mapping(found.get("cpus")), _mapping(found.get("memory"))
        state = _state(_mapping(found.get("node")).get("state"), None)
        nodes = [
            NodeFields(
                name=name,
                gres=_text(gres.get("total")),
                gres_used=_text(gres.get("used")),
                state=state,
                cpus=_number(cpus.get("maximum")),
                memory=_number(memory.get("maximum")),
            )
            for name in names
        ]
        minutes = _count(_mapping(partition.get("maximums")).get("time"))
        max_time_s = None if minutes is None else 60.0 * minutes
        records = [self._gathered.node(one, pools, notes) for one in nodes]
        return [*records, *(self._gathered.pool(pool, max_time_s) for pool in pools)]


def _state(state: Any, flags: Any) -> str | None:
    words = [*_list(state), *_list(flags)]
    return "+".join(words) if words else None


def _tres(value: Any) -> str | None:
    """A TRES string, or a list of `{type, name, count}` as one."""
    if not isinstance(value, list):
        return _text(value)
    entries = [one for one in value if isinstance(one, dict)]
    return ",".join(
        f"{one.get('type')}{'/' if one.get('name') else ''}{one.get('name') or ''}={one.get('count', 0)}"
        for one in entries
    )


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return ",".join(_list(value))
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    """A number, bare or with whether it is set; None where it is not, or has no end."""
    if isinstance(value, dict):
        is_set = bool(value.get("set")) and not value.get("infinite")
        return _count(value.get("number")) if is_set else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _number(value: Any) -> str | None:
    found = _count(value)
    return None if found is None else str(found)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


FORMAT: Final = Format(
    "slurm-nodes-json",
    "Nodes of Slurm as JSON: scontrol show nodes, sinfo, slurmrestd",
    Kind.INVENTORY,
    sniff,
    rows,
)
