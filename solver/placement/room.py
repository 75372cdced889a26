"""What the nodes have left for guests: told by who keeps the nodes, asked for by a policy that lends.

A policy that knows it chooses gangs that can all be placed, before anybody knows where: by rows of a program
(`Cells.rows`) or one by one (`Cells.admit`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from domain.cluster import Gpu
from domain.plans import Plan
from solver.placement.cells import CellCount, PlaceRows, pieces_of, place_rows
from solver.placement.greedy import types_for


class Gang(NamedTuple):
    """GPUs that somebody needs at once, and their type; None: any."""

    num_gpus: int
    gpu_type: str | None = None


class FreeNodes(NamedTuple):
    """Nodes of one type.

    Attributes:
        gpu_type: of their GPUs.
        node_gpus: GPUs of the largest one, whether there is room on it or not.
        free_gpus: free GPUs of each.
    """

    gpu_type: str
    node_gpus: int
    free_gpus: tuple[int, ...]


class GuestRoom(NamedTuple):
    """What guests may get at one instant.

    Attributes:
        nodes: by type, in the order of the types.
        kept: gangs for which there has to be room after the guests.
    """

    nodes: tuple[FreeNodes, ...]
    kept: tuple[Gang, ...] = ()


class NodeKeeper(Protocol):
    """Who knows which GPUs of which node are free."""

    def room(self, own: Plan, now_s: float) -> GuestRoom:
        """What is left for guests once a plan's own part is carried out; nothing is changed by asking.

        Args:
            own: the plan without its guests.
            now_s: instant of the plan.
        """
        ...

    def gpus_of(self, job_id: str) -> tuple[Gpu, ...]:
        """GPUs of a running job, alone or shared; none of one that does not run."""
        ...


class Cells:
    """Cells of all types as gangs are counted in, one after another.

    A gang that may get GPUs of several types is counted with the first that has room, as
    `solver.placement.greedy` places it, so all that were counted in can be placed at once.

    Args:
        room: what guests may get.
        kept: further gangs that need room after the guests; those for which there is none are left out, as
            there is nothing that could be broken up.
    """

    def __init__(self, room: GuestRoom, kept: Iterable[Gang] = ()) -> None:
        self._nodes = room.nodes
        self._size = {one.gpu_type: one.node_gpus for one in room.nodes}
        self._counts = {one.gpu_type: CellCount(one.free_gpus, one.node_gpus) for one in room.nodes}
        self._kept: dict[str, list[int]] = {one.gpu_type: [] for one in room.nodes}
        for gang in sorted((*room.kept, *kept), key=lambda gang: -gang.num_gpus):
            gpu_type = self._type_for(gang)
            if gpu_type is not None:
                self._counts[gpu_type].admit(gang.num_gpus)
                self._kept[gpu_type] += pieces_of(gang.num_gpus, self._size[gpu_type])

    def fits(self, gang: Gang) -> bool:
        """Whether a gang can be placed beside all those counted in already."""
        return self._type_for(gang) is not None

    def admit(self, gang: Gang) -> bool:
        """Count a gang in, if it fits."""
        gpu_type = self._type_for(gang)
        return gpu_type is not None and self._counts[gpu_type].admit(gang.num_gpus)

    def rows(self, gangs: Sequence[Gang]) -> PlaceRows:
        """Rows that say which numbers of gangs fit beside what is kept (`place_rows`).

        One set of rows for each set of types that a gang may get, over all gangs that may get no others. For
        GPUs of one type that is exact, as far as `place_rows` is. For several it is necessary only, as far
        as their nodes are equally large: what is chosen still has to be admitted one by one.
        """
        types = [frozenset(types_for(*gang, self._size)) for gang in gangs]
        parts = [self._rows_of(group, gangs, types) for group in sorted(set(types), key=sorted)]
        none = np.zeros((0, len(gangs)), dtype=np.int64)
        return PlaceRows(
            taken=np.concatenate([none, *(part.taken for part in parts)]),
            free=np.concatenate([none.sum(axis=1), *(part.free for part in parts)]),
        )

    def _rows_of(
        self, group: frozenset[str], gangs: Sequence[Gang], types: Sequence[frozenset[str]]
    ) -> PlaceRows:
        if not group:  # nobody has such GPUs
            taken = np.array([[int(not own) for own in types]], dtype=np.int64)
            return PlaceRows(taken, np.zeros(1, dtype=np.int64))
        here = [one for one in self._nodes if one.gpu_type in group]
        rows = place_rows(
            [gang.num_gpus for gang in gangs],
            [gpus for one in here for gpus in one.free_gpus],
            max(one.node_gpus for one in here),
            [piece for one in here for piece in self._kept[one.gpu_type]],
        )
        return PlaceRows(rows.taken * np.array([own <= group for own in types]), rows.free)

    def _type_for(self, gang: Gang) -> str | None:
        types = types_for(*gang, self._size)
        return next((one for one in types if self._counts[one].fits(gang.num_gpus)), None)
