"""Nodes and pools of a cluster as they are kept, and the GPUs of pools over time."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.inventory_records import NodeRecord, PoolRecord
from data.rules import Rule
from domain.errors import Fault, InputError


@dataclass(frozen=True, slots=True)
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

    def capacity_gpus(self, pool: str, at_s: float) -> int | None:
        """GPUs of a pool at an instant; None where nothing is known of it, or not yet."""
        known = [one for one in self.pools if one.pool == pool and (one.from_s is None or one.from_s <= at_s)]
        return known[-1].gpus if known else None

    def changes(self, pool: str) -> list[tuple[float | None, int | None]]:
        """When the GPUs of a pool changed, and to what, in time."""
        found: list[tuple[float | None, int | None]] = []
        for one in self.pools:
            if one.pool == pool and (not found or found[-1][1] != one.gpus):
                found.append((one.from_s, one.gpus))
        return found


def merged_inventory(
    known: Inventory, nodes: Sequence[NodeRecord], pools: Sequence[PoolRecord]
) -> tuple[Inventory, tuple[int, int, int]]:
    """Bring what was found to what is known; of the same node or pool at the same time the later row counts.

    Returns:
        The inventory, and how many rows are new, updated and unchanged.
    """
    of_nodes = {(one.node, one.seen_s): one for one in known.nodes}
    of_pools = {(one.pool, one.from_s): one for one in known.pools}
    new = updated = 0
    for node in nodes:
        before = of_nodes.get((node.node, node.seen_s))
        new, updated = new + (before is None), updated + (before is not None and before != node)
        of_nodes[node.node, node.seen_s] = node
    for pool in pools:
        was = of_pools.get((pool.pool, pool.from_s))
        new, updated = new + (was is None), updated + (was is not None and was != pool)
        of_pools[pool.pool, pool.from_s] = pool
    inventory = Inventory(
        tuple(one for _, one in sorted(of_nodes.items(), key=lambda item: _by_time(*item[0]))),
        tuple(one for _, one in sorted(of_pools.items(), key=lambda item: _by_time(*item[0]))),
    )
    return inventory, (new, updated, len(nodes) + len(pools) - new - updated)


def is_timed(inventory: Inventory) -> bool:
    """Whether anything in it is said of an instant."""
    return any(one.seen_s is not None for one in inventory.nodes) or any(
        one.from_s is not None for one in inventory.pools
    )


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


def _by_time(name: str, instant_s: float | None) -> tuple[str, float]:
    return name, float("-inf") if instant_s is None else instant_s
