"""From counts to GPUs: which pieces go on which node, whose they are, and in which order gangs move."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from domain.cluster import Gpu
from solver.placement.cells import pieces_of
from solver.placement.counts import Counts, counts_as, held_as
from solver.placement.layout import Layout
from solver.placement.task import Move


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who gets which GPUs.

    Attributes:
        starts: GPUs of each gang that starts, by job id.
        held: GPUs of each piece that is held, by (hold, part of it).
        moves: running gangs whose GPUs change.
    """

    starts: dict[str, tuple[Gpu, ...]]
    held: dict[tuple[int, int], tuple[Gpu, ...]]
    moves: tuple[Move, ...]


def assign(layout: Layout, counts: Counts) -> Assignment:
    """Give every piece of a solution its GPUs, in canonical order."""
    spread = _spread_all(layout, counts)
    giver = _Giver(layout, counts, spread)
    starts = dict(layout.fixed)
    moves: list[Move] = []
    for kind, started in zip(layout.kinds, counts.started, strict=True):
        here = [layout.residents[name] for name in kind.names if name in spread.stay]
        stocks = [stock for stock in kind.stocks for _ in range(started[stock])]
        going = [name for name in kind.names if name not in spread.stay]
        gangs = {name: giver.gang(stock, kind.num_gpus) for name, stock in zip(going, stocks, strict=False)}
        if kind.is_running:
            moves += [Move(name, layout.residents[name].gpus, gpus) for name, gpus in gangs.items()]
        else:
            starts |= gangs | {one.name: one.gpus for one in here}
    return Assignment(starts, giver.held(), tuple(moves))


@dataclass(frozen=True, slots=True)
class _Spread:
    """Which residents stay, and on which nodes pieces go, by type and number of GPUs."""

    stay: set[str]
    slots: dict[tuple[int, int], deque[str]]


class _Giver:
    """Hands out the GPUs of a solution's pieces."""

    def __init__(self, layout: Layout, counts: Counts, spread: _Spread) -> None:
        self._layout = layout
        self._left = [Counter(one) for one in counts.held]
        self._slots = spread.slots
        self._free = {node: deque(gpus) for node, gpus in layout.idle.items()}
        for resident in layout.residents.values():
            if resident.name not in spread.stay:
                gpus = (*self._free.get(resident.node, ()), *resident.gpus)
                self._free[resident.node] = deque(sorted(gpus, key=lambda gpu: gpu.index))

    def gang(self, stock: int, num_gpus: int) -> tuple[Gpu, ...]:
        """GPUs of a gang, piece by piece."""
        pieces = pieces_of(num_gpus, self._layout.stocks[stock].node_gpus)
        return tuple(gpu for piece in pieces for gpu in self._piece(stock, piece))

    def held(self) -> dict[tuple[int, int], tuple[Gpu, ...]]:
        """GPUs of the pieces that are held, as far as the solution holds them."""
        given: dict[tuple[int, int], tuple[Gpu, ...]] = {}
        for piece in self._layout.pieces:
            one = held_as(piece)
            stock = next((k for k, left in enumerate(self._left) if left[one]), None)
            if stock is not None:
                self._left[stock][one] -= 1
                given[piece.hold, piece.part] = self._piece(stock, piece.num_gpus)
        return given

    def _piece(self, stock: int, num_gpus: int) -> tuple[Gpu, ...]:
        gpus = self._free[self._slots[stock, num_gpus].popleft()]
        return tuple(gpus.popleft() for _ in range(num_gpus))


def _spread_all(layout: Layout, counts: Counts) -> _Spread:
    spread = _Spread(set(), defaultdict(deque))
    for group, taken, pieces in zip(layout.groups, counts.taken, counts.pieces, strict=True):
        room: list[int] = []
        left = Counter(pieces)
        for one, nodes in sorted(taken.items()):
            here = slice(len(room), len(room) + nodes)
            for at_home in group.at_home[here]:
                spread.stay.update(at_home[at] for at in one.stay)
            for size in one.odd:
                spread.slots[group.stock, size].extend(group.nodes[here])
                left[size] -= nodes
            room += [one.cells] * nodes
        for size in sorted(left, reverse=True):
            for at in _fill(room, counts_as(layout, group, size), left[size]):
                spread.slots[group.stock, size].append(group.nodes[at])
    return spread


def _fill(room: list[int], size: int, number: int) -> Iterator[int]:
    """Nodes of so many pieces: the first ones that have room. Largest pieces have to come first."""
    at = 0
    for _ in range(number):
        while room[at] < size:
            at += 1
        room[at] -= size
        yield at


def steps_of(moves: Sequence[Move]) -> tuple[tuple[Move, ...], ...]:
    """Moves in an order in which each finds its GPUs free; gangs that wait for one another move at once.

    Where that leaves a choice, ids decide: the order in which moves are named does not matter.
    """
    if not moves:
        return ()
    moves = sorted(moves)
    leaves: Mapping[Gpu, int] = {gpu: k for k, move in enumerate(moves) for gpu in move.old}
    waits = sorted(
        {(k, leaves[gpu]) for k, move in enumerate(moves) for gpu in move.new if leaves.get(gpu, k) != k}
    )
    rows, columns = [a for a, _ in waits], [b for _, b in waits]
    graph = coo_array((np.ones(len(waits)), (rows, columns)), shape=(len(moves), len(moves)))
    count, label = connected_components(graph, directed=True, connection="strong")
    awaited: list[set[int]] = [set() for _ in range(count)]
    for k, other in waits:
        if label[k] != label[other]:
            awaited[label[k]].add(int(label[other]))
    done: list[int] = []
    while len(done) < count:
        ready = [c for c in range(count) if c not in done and awaited[c] <= set(done)]
        done += sorted(ready, key=lambda c: int(np.flatnonzero(label == c)[0]))
    return tuple(tuple(moves[k] for k in np.flatnonzero(label == c).tolist()) for c in done)
