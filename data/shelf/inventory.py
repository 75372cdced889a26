"""Nodes and pools of a cluster as they are kept, and the GPUs of pools over time."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from data.inventory_records import NodeRecord, PoolRecord
from data.rules import Rule
from domain.errors import Fault, InputError

ALWAYS: Final = float("-inf")
"""When a record without an instant holds from."""


@dataclass(frozen=True)
class Inventory:
    """What a cluster consists of.

    Attributes:
        nodes: each node each time it was seen, by name and time.
        pools: GPUs of each pool from an instant on, by name and time.
    """

    nodes: tuple[NodeRecord, ...] = ()
    pools: tuple[PoolRecord, ...] = ()

    def latest_nodes(self) -> tuple[NodeRecord, ...]:
        """Each node as it was seen last, by name."""
        return tuple({one.node: one for one in self.nodes}.values())

    def nodes_at(self, at_s: float | None) -> tuple[NodeRecord, ...]:
        """Each node as it was seen last by an instant, by name; None: last of all."""
        seen = (one for one in self.nodes if at_s is None or _instant(one.seen_s) <= at_s)
        return tuple({one.node: one for one in seen}.values())

    def pool_names(self) -> tuple[str, ...]:
        """Pools that something is known of, by name."""
        return tuple(self._steps)

    def pool_at(self, pool: str, at_s: float | None) -> PoolRecord | None:
        """What holds of a pool at an instant (None: last of all); None where nothing does yet."""
        steps = self._steps.get(pool)
        if steps is None:
            return None
        starts, records = steps
        place = len(starts) if at_s is None else bisect_right(starts, at_s)
        return records[place - 1] if place else None

    def capacity_gpus(self, pool: str, at_s: float) -> int | None:
        """GPUs of a pool at an instant; None where nothing is known of it, or not yet."""
        found = self.pool_at(pool, at_s)
        return None if found is None else found.gpus

    def changes(self, pool: str) -> list[tuple[float | None, int | None]]:
        """When the GPUs of a pool changed, and to what, in time."""
        found: list[tuple[float | None, int | None]] = []
        _, records = self._steps.get(pool, ([], []))
        for one in records:
            if not found or found[-1][1] != one.gpus:
                found.append((one.from_s, one.gpus))
        return found

    @cached_property
    def _steps(self) -> dict[str, tuple[list[float], list[PoolRecord]]]:
        """Of each pool since when its records hold, ascending, and the records."""
        ordered = sorted(self.pools, key=lambda one: (one.pool, _instant(one.from_s)))
        found = {}
        for pool, group in groupby(ordered, key=lambda one: one.pool):
            records = list(group)
            found[pool] = ([_instant(one.from_s) for one in records], records)
        return found


def merged_inventory(
    known: Inventory, nodes: Sequence[NodeRecord], pools: Sequence[PoolRecord]
) -> tuple[Inventory, tuple[int, int, int]]:
    """Bring what was found to what is known; of the same node or pool at the same time the later row counts.

    Several rows of one node or pool in a file (`sinfo` has one per partition) count once.

    Returns:
        The inventory, and how many nodes and pools are new, updated and unchanged.
    """
    of_nodes = {(one.node, one.seen_s): one for one in known.nodes}
    of_pools = {(one.pool, one.from_s): one for one in known.pools}
    found_nodes = {(one.node, one.seen_s): one for one in nodes}
    found_pools = {(one.pool, one.from_s): one for one in pools}
    counts = [0, 0, 0]
    for node_key, node in found_nodes.items():
        counts[_place(of_nodes.get(node_key), node)] += 1
    for pool_key, pool in found_pools.items():
        counts[_place(of_pools.get(pool_key), pool)] += 1
    of_nodes.update(found_nodes)
    of_pools.update(found_pools)
    inventory = Inventory(
        tuple(one for _, one in sorted(of_nodes.items(), key=lambda item: _by_time(*item[0]))),
        tuple(one for _, one in sorted(of_pools.items(), key=lambda item: _by_time(*item[0]))),
    )
    return inventory, (counts[0], counts[1], counts[2])


def read_inventory(path: Path) -> Inventory:
    """An inventory as it is kept.

    Raises:
        InputError: if the file is broken.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        nodes = tuple(
            NodeRecord(
                **{**one, "pools": tuple(one["pools"]), "mig_slices": tuple(map(tuple, one["mig_slices"]))}
            )
            for one in found["nodes"]
        )
        return Inventory(nodes, tuple(PoolRecord(**one) for one in found["pools"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = f"the inventory cannot be read: {error}"
        raise InputError([Fault(str(path), None, Rule.UNREADABLE_FILE, message)]) from error


def _place(before: NodeRecord | PoolRecord | None, now: NodeRecord | PoolRecord) -> int:
    """Of new, updated and unchanged the one that a row is."""
    if before is None:
        return 0
    return 2 if before == now else 1


def _instant(from_s: float | None) -> float:
    return ALWAYS if from_s is None else from_s


def _by_time(name: str, instant_s: float | None) -> tuple[str, float]:
    return name, _instant(instant_s)
