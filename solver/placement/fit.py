"""Whether a gang fits on what is idle, what the widest is that does, and which nodes are nearest to one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from domain.cluster import Node
from solver.placement.cells import pieces_of
from solver.placement.greedy import may_use, types_for


class Missing(NamedTuple):
    """A node that a gang needs GPUs of, and how many of those it needs are not idle."""

    node: str
    gpus: int


@dataclass(frozen=True, slots=True)
class TypeRoom:
    """Idle GPUs of one type.

    Attributes:
        gpu_type: the type.
        node_gpus: GPUs of its largest node.
        sizes: GPUs of each of its nodes, in the order of the nodes.
        free: idle GPUs of each of its nodes.
    """

    gpu_type: str
    node_gpus: int
    sizes: Mapping[str, int]
    free: Mapping[str, int]

    @property
    def idle_gpus(self) -> int:
        """Idle GPUs of all nodes."""
        return sum(self.free.values())

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(self.sizes.values())

    def holds(self, num_gpus: int) -> bool:
        """Whether a gang finds GPUs: whole nodes, then the rest on one more (`solver.placement.greedy`)."""
        whole, rest = divmod(num_gpus, self.node_gpus)
        if sum(free >= self.node_gpus for free in self.free.values()) < whole:
            return False
        return not rest or sum(free >= rest for free in self.free.values()) > whole

    def widest_gpus(self) -> int:
        """GPUs of the widest gang that finds some."""
        rests = [free for free in self.free.values() if free < self.node_gpus]
        return (len(self.free) - len(rests)) * self.node_gpus + max(rests, default=0)

    def nearest(self, num_gpus: int, barred: Iterable[str] = ()) -> list[Missing]:
        """Nodes that lack the fewest GPUs of a gang, one for each of its pieces; empty if it is too wide.

        Args:
            num_gpus: its width.
            barred: nodes that are spoken for.
        """
        used = set(barred)
        chosen: list[Missing] = []
        for piece in pieces_of(num_gpus, self.node_gpus):
            ways = [
                (max(piece - self.free[node], 0), self.free[node], rank, node)
                for rank, (node, size) in enumerate(self.sizes.items())
                if size >= piece and node not in used
            ]
            if not ways:
                return []
            missing, _, _, node = min(ways)
            used.add(node)
            chosen.append(Missing(node, missing))
        return chosen


def rooms_of(idle_gpus: Mapping[str, int], nodes: Iterable[Node]) -> list[TypeRoom]:
    """Idle GPUs by type; types in alphabetical order, nodes of each in the order they are given.

    Args:
        idle_gpus: idle GPUs of each node that has some.
        nodes: all nodes.
    """
    by_type: dict[str, dict[str, int]] = {}
    for node in nodes:
        by_type.setdefault(node.gpu_type, {})[node.name] = node.num_gpus
    return [
        TypeRoom(name, max(sizes.values()), sizes, {node: idle_gpus.get(node, 0) for node in sizes})
        for name, sizes in sorted(by_type.items())
    ]


def rooms_for(rooms: Sequence[TypeRoom], num_gpus: int, gpu_type: str | None) -> list[TypeRoom]:
    """Rooms that serve a gang: those of its type, on which it needs the fewest nodes."""
    types = types_for(num_gpus, gpu_type, {room.gpu_type: room.node_gpus for room in rooms})
    return [room for room in rooms if room.gpu_type in types]


def usable(rooms: Sequence[TypeRoom], gpu_type: str | None) -> list[TypeRoom]:
    """Rooms whose GPUs a gang may run on."""
    return [room for room in rooms if may_use(gpu_type, room.gpu_type)]
