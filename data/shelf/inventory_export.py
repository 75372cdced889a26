"""An inventory at an instant as the tables that simulations read: pools.csv and nodes.csv.

Columns are those of `data.schema`. A pool whose own count is not known has the GPUs of its nodes. What cannot
be in a table, because those tables have no word for it, is told and left out.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from data.inventory_records import NodeRecord
from data.schema import NODE_COLUMNS, POOL_COLUMNS
from data.shelf.inventory import Inventory
from domain.cluster import MAX_GPUS_OF_A_NODE


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A row of the table of pools."""

    pool: str
    quota_gpus: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of the table of nodes; `pool` is the one that owns it, None where several or none do."""

    node: str
    num_gpus: int
    gpu_type: str | None
    pool: str | None


@dataclass(frozen=True, slots=True)
class Exported:
    """An inventory as tables.

    Attributes:
        pools, nodes: rows by name.
        left_out: what is not in them, by name, and why.
    """

    pools: tuple[PoolRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)

    def pools_csv(self) -> str:
        """The table of pools; empty quotas are in it: a pool that is not there has none."""
        rows = [[one.pool, one.quota_gpus] for one in self.pools]
        return _csv([column.name for column in POOL_COLUMNS], rows)

    def nodes_csv(self) -> str:
        """The table of nodes."""
        rows = [[one.node, one.num_gpus, one.gpu_type or "", one.pool or ""] for one in self.nodes]
        return _csv([column.name for column in NODE_COLUMNS], rows)


def exported(inventory: Inventory, at_s: float | None = None) -> Exported:
    """The tables at an instant.

    Args:
        inventory: nodes and pools over time.
        at_s: epoch seconds; None: as last known.
    """
    seen = inventory.nodes_at(at_s)
    left_out: dict[str, str] = {}
    pools = _pools(inventory, seen, at_s, left_out)
    names = {one.pool for one in pools}
    nodes = []
    for one in seen:
        why = _why_not(one)
        if why is not None:
            left_out[f"node {one.node}"] = why
            continue
        owner = one.pools[0] if len(one.pools) == 1 and one.pools[0] in names else None
        nodes.append(NodeRow(one.node, one.num_gpus or 0, one.gpu_type, owner))
    return Exported(pools, tuple(nodes), left_out)


def _pools(
    inventory: Inventory, nodes: Sequence[NodeRecord], at_s: float | None, left_out: dict[str, str]
) -> tuple[PoolRow, ...]:
    of_nodes: dict[str, int] = {}
    unknown: set[str] = set()
    for node in nodes:
        for pool in node.pools:
            of_nodes[pool] = of_nodes.get(pool, 0) + (node.num_gpus or 0)
            if node.num_gpus is None:
                unknown.add(pool)
    rows = []
    for pool in sorted({*inventory.pool_names(), *of_nodes}):
        held = inventory.pool_at(pool, at_s)
        if held is not None and held.gpus is not None:
            rows.append(PoolRow(pool, held.gpus))
        elif pool in of_nodes and pool not in unknown:
            rows.append(PoolRow(pool, of_nodes[pool]))
        else:
            left_out[f"pool {pool}"] = "its GPUs are not known then"
    return tuple(rows)


def _why_not(node: NodeRecord) -> str | None:
    if node.num_gpus is None:
        return "its number of GPUs is not known"
    if node.mig_slices and not node.num_gpus:
        return "all of its GPUs are cut into slices"
    if not node.num_gpus:
        return "it has no GPU"
    return f"it has more than {MAX_GPUS_OF_A_NODE} GPUs" if node.num_gpus > MAX_GPUS_OF_A_NODE else None


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in which no cell is taken for a formula by a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_plain(value) for value in row] for row in rows)
    return text.getvalue()


def _plain(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value
