"""Gangs onto real GPUs at once: largest pieces first, each into the smallest cell that holds it.

The fallback and the hint of `solver.placement.model`, and the rule where a decision has no time for one.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from domain.cluster import ANY_TYPE, Gpu, Node
from domain.jobs import Job
from domain.plans import Placement
from solver.placement.cells import CellCount, cell_of, cell_sizes, pieces_of


def place(
    jobs: Iterable[Job], idle: Mapping[str, Sequence[Gpu]], nodes: Iterable[Node] = ()
) -> tuple[Placement, ...]:
    """Give jobs whole GPUs on the fewest nodes; who finds none is left out.

    Earlier jobs come first: one is left out only if it does not fit beside those before it. Who fits is
    decided by counts of cells (`solver.placement.cells`), exactly where widths are powers of two or whole
    nodes; others are tried once more on what is left. A piece goes where it breaks up the smallest cells,
    then to the node with the fewest idle GPUs, then to the one listed first. A gang gets GPUs of one type.
    O(nodes + jobs log jobs).

    Args:
        jobs: who is to start.
        idle: idle GPUs of each node.
        nodes: all nodes, which say how large they are; where none are given, as large as what is idle.
    """
    wanted = list(jobs)
    asks = [Ask(job.job_id, job.num_gpus, job.gpu_type) for job in wanted]
    found = place_asks(asks, stocks_of(idle, nodes))
    return tuple(Placement(job.job_id, found[job.job_id]) for job in wanted if job.job_id in found)


class Ask(NamedTuple):
    """GPUs that somebody asks for: a gang by its job's id, or a piece of a hold by two numbers.

    Attributes:
        name: who asks.
        num_gpus: how many.
        gpu_type: of which type, if that matters.
        types: types that serve it; None: those of `allowed`.
        tie: all that ask with the same number get GPUs of one type; None: alone.
    """

    name: str | tuple[int, int]
    num_gpus: int
    gpu_type: str | None = None
    types: tuple[str, ...] | None = None
    tie: int | None = None


def place_asks(
    asks: Sequence[Ask], stocks: Sequence["Stock"]
) -> dict[str | tuple[int, int], tuple[Gpu, ...]]:
    """GPUs for each that gets some, taken from the stocks; earlier ones come first (`place`)."""
    admitted: list[tuple[Ask, Stock]] = []
    doubtful: list[Ask] = []
    chosen: dict[int, list[Stock]] = {}

    def serving(ask: Ask) -> list[Stock]:
        if ask.tie is None:
            return allowed(stocks, ask)
        if ask.tie not in chosen:
            chosen[ask.tie] = _most_of([one for one in asks if one.tie == ask.tie], stocks)
        return chosen[ask.tie]

    for ask in asks:
        stock = next((one for one in serving(ask) if one.admit(ask.num_gpus)), None)
        if stock is None:
            doubtful.append(ask)
        else:
            admitted.append((ask, stock))
    found = _largest_first(admitted)
    for ask in doubtful:
        gpus = next(filter(None, (one.take_gang(ask.num_gpus) for one in serving(ask))), ())
        if gpus:
            found[ask.name] = gpus
    return found


def _most_of(tied: Sequence[Ask], stocks: Sequence["Stock"]) -> list["Stock"]:
    """The one type that can place most GPUs of some asks, the first of equals; none if none serves them."""
    serve = allowed(stocks, tied[0])
    return sorted(serve, key=lambda one: -one.could_admit([ask.num_gpus for ask in tied]))[:1]


class Stock:
    """Idle GPUs of one type, by how many each node has.

    Args:
        gpu_type: their type.
        nodes: idle GPUs of each node, in the order in which nodes are preferred.
        node_gpus: GPUs of the largest node.
    """

    def __init__(self, gpu_type: str, nodes: Mapping[str, Sequence[Gpu]], node_gpus: int) -> None:
        self.gpu_type = gpu_type
        self.node_gpus = node_gpus
        self._rank = {node: rank for rank, node in enumerate(nodes)}
        self._free = [list(gpus) for gpus in nodes.values()]
        self._by_free: list[list[int]] = [[] for _ in range(node_gpus + 1)]
        for rank, gpus in enumerate(self._free):
            self._by_free[len(gpus)].append(rank)
        self._cells = CellCount([len(gpus) for gpus in self._free], node_gpus)

    @property
    def slack_gpus(self) -> int:
        """Idle GPUs for which nobody was counted in."""
        return self._cells.left_gpus

    def admit(self, num_gpus: int) -> bool:
        """Count a gang in, if it can be placed beside all those counted in already."""
        return self._cells.admit(num_gpus)

    def could_admit(self, widths: Iterable[int]) -> int:
        """GPUs of gangs that could be counted in one after another; nobody is."""
        cells = self._cells.copy()
        return sum(width for width in widths if cells.admit(width))

    def take(self, num_gpus: int) -> tuple[Gpu, ...]:
        """Take GPUs of one node, as tightly as possible; empty if no node has so many."""
        for free in tightest_first(num_gpus, self.node_gpus):
            heap = self._by_free[free]
            while heap and len(self._free[heap[0]]) != free:
                heapq.heappop(heap)
            if heap:
                gpus = self._free[heapq.heappop(heap)]
                taken = tuple(gpus[:num_gpus])
                del gpus[:num_gpus]
                self._note(taken[0].node)
                return taken
        return ()

    def take_gang(self, num_gpus: int) -> tuple[Gpu, ...]:
        """Take GPUs on the fewest nodes; empty, and nothing taken, if that is not possible."""
        taken: list[Gpu] = []
        for piece in pieces_of(num_gpus, self.node_gpus):
            gpus = self.take(piece)
            if not gpus:
                self.give_back(taken)
                return ()
            taken += gpus
        return tuple(taken)

    def give_back(self, gpus: Iterable[Gpu]) -> None:
        """Put GPUs back."""
        for node in dict.fromkeys(gpu.node for gpu in gpus):
            free = self._free[self._rank[node]]
            free += [gpu for gpu in gpus if gpu.node == node]
            free.sort(key=lambda gpu: gpu.index)
            self._note(node)

    def _note(self, node: str) -> None:
        """Enter a node under what it has free now; older entries are stale."""
        rank = self._rank[node]
        heapq.heappush(self._by_free[len(self._free[rank])], rank)


@lru_cache(maxsize=4096)
def tightest_first(num_gpus: int, node_gpus: int) -> dict[int, int]:
    """Numbers of free GPUs that hold a piece, ranked: the one where it breaks up the smallest cells first.

    Cells are compared from the largest size on; where none differ, fewer free GPUs come first.
    """
    free = np.arange(num_gpus, node_gpus + 1)
    sizes = np.array(cell_sizes(node_gpus))[::-1]
    broken = free[:, None] // sizes - (free - num_gpus)[:, None] // sizes
    ordered = sorted(free.tolist(), key=lambda f: (broken[f - num_gpus].tolist(), f))
    return {number: rank for rank, number in enumerate(ordered)}


def stocks_of(idle: Mapping[str, Sequence[Gpu]], nodes: Iterable[Node] = ()) -> list[Stock]:
    """Idle GPUs by type; types in alphabetical order, nodes of each in the order of `idle`.

    Args:
        idle: idle GPUs of each node.
        nodes: all nodes; they say how large they are.
    """
    by_type: dict[str, dict[str, Sequence[Gpu]]] = {}
    largest: dict[str, int] = {}
    for node in nodes:
        largest[node.gpu_type] = max(node.num_gpus, largest.get(node.gpu_type, 1))
    for name, gpus in idle.items():
        if gpus:
            gpu_type = gpus[0].gpu_type
            by_type.setdefault(gpu_type, {})[name] = gpus
            largest[gpu_type] = max(len(gpus), largest.get(gpu_type, 1))
    return [Stock(name, by_type.get(name, {}), largest[name]) for name in sorted(largest)]


def may_use(asked: str | None, gpu_type: str) -> bool:
    """Whether who asks for a type may run on another. GPUs of which nobody said a type are any type's."""
    return asked in (None, gpu_type) or gpu_type == ANY_TYPE


def allowed(stocks: Sequence[Stock], ask: Ask) -> list[Stock]:
    """Stocks that serve an ask."""
    if ask.types is not None:
        return [one for one in stocks if one.gpu_type in ask.types]
    types = types_for(ask.num_gpus, ask.gpu_type, {one.gpu_type: one.node_gpus for one in stocks})
    return [one for one in stocks if one.gpu_type in types]


def types_for(num_gpus: int, asked: str | None, node_gpus: Mapping[str, int]) -> list[str]:
    """Types of GPU that a gang may get: those it asks for, on which it needs the fewest nodes; in order.

    Args:
        num_gpus: of the gang.
        asked: type that it asks for, if it does.
        node_gpus: GPUs of the largest node of each type.
    """
    fit = [one for one in sorted(node_gpus) if may_use(asked, one)]
    fewest = min((-(-num_gpus // node_gpus[one]) for one in fit), default=0)
    return [one for one in fit if -(-num_gpus // node_gpus[one]) == fewest]


def _largest_first(admitted: Iterable[tuple[Ask, Stock]]) -> dict[str | tuple[int, int], tuple[Gpu, ...]]:
    """Place pieces in the order of their cells: admitted ones all find a place."""
    pieces = [
        (piece, ask, stock) for ask, stock in admitted for piece in pieces_of(ask.num_gpus, stock.node_gpus)
    ]
    pieces.sort(key=lambda entry: -cell_of(entry[0], entry[2].node_gpus))
    found: dict[str | tuple[int, int], list[Gpu]] = {}
    for piece, ask, stock in pieces:
        found.setdefault(ask.name, []).extend(stock.take(piece))
    return {name: tuple(gpus) for name, gpus in found.items()}
