"""Fewer nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule, OnWorld, World
from domain.changes.reading import Entry
from domain.cluster import Node, shrink_quotas


@dataclass(frozen=True, slots=True)
class RemoveNodes(OnWorld):
    """`nodes`: names. GPUs that nobody was promised go first, then the owner's quota, then all others'.

    The rest is `domain.cluster.shrink_quotas`: in proportion to the quotas, by largest remainder.
    """

    nodes: tuple[str, ...]

    kind: ClassVar[str] = "remove_nodes"
    example: ClassVar[Mapping[str, object]] = {"kind": "remove_nodes", "nodes": ["n1"]}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`nodes`."""
        return cls(entry.texts("nodes"))

    def on_world(self, world: World) -> World:
        """Without the nodes; quotas shrink as far as they promise more than is left."""
        if not world.nodes:
            raise BrokenRuleError(ChangeRule.NO_NODES_KNOWN, "no nodes are known here: lower quotas instead")
        by_name = {node.name: node for node in world.nodes}
        unknown = sorted(set(self.nodes) - set(by_name))
        if unknown:
            raise BrokenRuleError(ChangeRule.UNKNOWN_NODE, f"there is no node {unknown[0]!r}")
        if set(self.nodes) == set(by_name):
            raise BrokenRuleError(ChangeRule.TOO_FEW_GPUS, "no node would be left")
        quotas, left = dict(world.quotas), list(world.nodes)
        for name in dict.fromkeys(self.nodes):
            left.remove(by_name[name])
            quotas = _shrunk(quotas, by_name[name], sum(node.num_gpus for node in left))
        return replace(world, quotas=quotas, nodes=tuple(left), is_placed=True)


def _shrunk(quotas: Mapping[str, int], node: Node, left_gpus: int) -> dict[str, int]:
    lost_gpus = max(0, sum(quotas.values()) - left_gpus)
    return shrink_quotas(quotas, lost_gpus, node.pool if node.pool in quotas else None)
