"""More nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule, OnWorld, World
from domain.changes.reading import Entry
from domain.cluster import ANY_TYPE, MAX_GPUS_OF_A_NODE, Node

_MAX_NODES: Final = 5_000
_FIRST_NAME: Final = "added"


@dataclass(frozen=True, slots=True)
class AddNodes(OnWorld):
    """`count` nodes (1) of `num_gpus` GPUs and `gpu_type`, named `name`-1, `name`-2, ... (`added`).

    With `pool` its quota grows by them; without, nobody is promised them, and they can be lent to anyone.
    Where no nodes are known the pool has to be named.
    """

    num_gpus: int
    count: int = 1
    gpu_type: str = ANY_TYPE
    pool: str | None = None
    name: str = _FIRST_NAME

    kind: ClassVar[str] = "add_nodes"
    example: ClassVar[Mapping[str, object]] = {"kind": "add_nodes", "num_gpus": 8, "count": 2, "pool": "a"}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`num_gpus`, perhaps `count`, `gpu_type`, `pool` and `name`."""
        return cls(
            entry.whole("num_gpus", 1, MAX_GPUS_OF_A_NODE),
            entry.whole("count", 1, _MAX_NODES) if entry.has("count") else 1,
            entry.text("gpu_type") if entry.has("gpu_type") else ANY_TYPE,
            entry.text("pool") if entry.has("pool") else None,
            entry.text("name") if entry.has("name") else _FIRST_NAME,
        )

    def on_world(self, world: World) -> World:
        """Nodes, and the quota of the pool that they are for."""
        quotas = dict(world.quotas)
        if self.pool is not None:
            world.require_pool(self.pool)
            quotas[self.pool] += self.count * self.num_gpus
        if not world.nodes:
            if self.pool is None:
                raise BrokenRuleError(
                    ChangeRule.NO_NODES_KNOWN,
                    "GPUs are only counted here, by the quotas: say whose nodes they are (pool)",
                )
            return replace(world, quotas=quotas)
        names = [f"{self.name}-{number}" for number in range(1, self.count + 1)]
        taken = {node.name for node in world.nodes}.intersection(names)
        if taken:
            raise BrokenRuleError(ChangeRule.NODE_EXISTS, f"there is a node {min(taken)} already: say a name")
        added = tuple(Node(name, self.num_gpus, self.gpu_type, self.pool) for name in names)
        return replace(world, quotas=quotas, nodes=world.nodes + added, is_placed=True)
