"""Buddy cells: what of the free GPUs can be placed on, as counts of cells of 1, 2, 4, ... GPUs of one node.

A gang on the fewest nodes is whole nodes plus a rest; a rest is a piece of one node and counts as the
smallest cell that holds it (HiveD's cells). Cell sizes divide each other, so that placing the largest pieces
first finds a place for all of them exactly if, for every cell size, the cells that the pieces take at that
size are no more than the nodes have:

    sum over pieces with a cell of at least c of cell // c  <=  sum over nodes of free // c

(take any piece of 2^k from any node: it costs exactly 2^(k-l) cells of every size 2^l up to its own,
wherever it goes, so what is left for smaller pieces does not depend on where the larger ones went). The same
counts are linear rows for a model that chooses gangs before anybody knows their nodes (`place_rows`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@lru_cache
def cell_sizes(node_gpus: int) -> tuple[int, ...]:
    """Sizes of cells on nodes of `node_gpus` GPUs: 1, 2, 4, ..., and the whole node, ascending.

    Raises:
        ValueError: if a node has no GPU.
    """
    if node_gpus < 1:
        raise ValueError(f"a node has {node_gpus} GPUs, must be at least 1")
    powers = [1 << level for level in range(node_gpus.bit_length())]
    return tuple(powers) if powers[-1] == node_gpus else (*powers, node_gpus)


def cell_of(num_gpus: int, node_gpus: int) -> int:
    """The smallest cell that holds a piece of at most a node."""
    return next(size for size in cell_sizes(node_gpus) if size >= num_gpus)


def pieces_of(num_gpus: int, node_gpus: int) -> tuple[int, ...]:
    """GPUs on each of the fewest nodes of a gang: whole nodes, then the rest."""
    whole, rest = divmod(num_gpus, node_gpus)
    return (node_gpus,) * whole + ((rest,) if rest else ())


def free_cells(free_gpus: Sequence[int] | IntArray, node_gpus: int) -> IntArray:
    """Cells of each size that the nodes have free; (sizes,).

    Args:
        free_gpus: free GPUs of each node, at most `node_gpus`; (nodes,).
        node_gpus: GPUs of the largest node.
    """
    sizes = np.array(cell_sizes(node_gpus), dtype=np.int64)
    cells: IntArray = (np.asarray(free_gpus, dtype=np.int64)[:, None] // sizes).sum(axis=0)
    return cells


@lru_cache(maxsize=4096)
def _taken(num_gpus: int, node_gpus: int) -> tuple[int, ...]:
    cells = [cell_of(piece, node_gpus) for piece in pieces_of(num_gpus, node_gpus)]
    return tuple(sum(cell // size for cell in cells) for size in cell_sizes(node_gpus))


def cells_taken(widths: Iterable[int], node_gpus: int) -> IntArray:
    """Cells of each size that one gang of each width takes; (sizes, widths)."""
    columns = [_taken(width, node_gpus) for width in widths]
    return np.array(columns, dtype=np.int64).reshape(-1, len(cell_sizes(node_gpus))).T


class CellCount:
    """Cells of nodes of one type as gangs are counted in: all that were counted in can be placed at once.

    Args:
        free_gpus: free GPUs of each node; (nodes,).
        node_gpus: GPUs of the largest node.
    """

    __slots__ = ("_left", "node_gpus")

    def __init__(self, free_gpus: Sequence[int] | IntArray, node_gpus: int) -> None:
        self.node_gpus = node_gpus
        self._left = free_cells(free_gpus, node_gpus)

    def copy(self) -> "CellCount":
        """The same count, to go on with apart."""
        twin = CellCount((), self.node_gpus)
        twin._left = self._left  # replaced, never changed
        return twin

    @property
    def left_gpus(self) -> int:
        """Free GPUs for which nobody was counted in."""
        return int(self._left[0])

    def fits(self, num_gpus: int) -> bool:
        """Whether a gang can be placed beside all those counted in already."""
        return bool(np.all(self._left >= _taken(num_gpus, self.node_gpus)))

    def admit(self, num_gpus: int) -> bool:
        """Count a gang in, if it fits."""
        if not self.fits(num_gpus):
            return False
        self._left = self._left - np.array(_taken(num_gpus, self.node_gpus), dtype=np.int64)
        return True


@dataclass(frozen=True, slots=True)
class PlaceRows:
    """Placeability as linear rows: `taken @ counts <= free`, with the number of gangs of each width.

    Exact for widths whose rest is a power of two (or a whole node); others count as their cell, so that what
    the rows allow can always be placed.

    Attributes:
        taken: cells of each size that one gang of each width takes; (sizes, widths).
        free: cells of each size that there are; (sizes,).
    """

    taken: IntArray
    free: IntArray

    def allow(self, counts: Sequence[int] | IntArray) -> bool:
        """Whether so many gangs of each width can be placed at once."""
        return bool(np.all(self.taken @ np.asarray(counts, dtype=np.int64) <= self.free))


def place_rows(
    widths: Sequence[int], free_gpus: Sequence[int] | IntArray, node_gpus: int, held: Iterable[int] = ()
) -> PlaceRows:
    """Rows that say which numbers of gangs can be placed, for one type of GPU.

    Args:
        widths: GPUs of one gang of each class.
        free_gpus: free GPUs of each node; (nodes,).
        node_gpus: GPUs of the largest node.
        held: pieces, each on one node, that stay free (`hold_pieces`).
    """
    taken_by_held = cells_taken(held, node_gpus).sum(axis=1)
    return PlaceRows(cells_taken(widths, node_gpus), free_cells(free_gpus, node_gpus) - taken_by_held)


def hold_pieces(num_gpus: int, widest_gpus: int, node_gpus: int) -> tuple[int, ...]:
    """Pieces, each on one node, as which GPUs are held for gangs of up to `widest_gpus`; largest first.

    Any gang of at most min(num_gpus, widest_gpus) GPUs fits into them on the fewest nodes, and so does any
    number of gangs whose cells (of at most `widest_gpus`) add up to no more than the whole pieces.
    """
    piece = node_gpus if widest_gpus > node_gpus else cell_of(widest_gpus, node_gpus)
    return pieces_of(num_gpus, min(piece, num_gpus))


def expected_waste(node_gpus: int, widths: Sequence[int], shares: Sequence[float]) -> FloatArray:
    """FGD's fragmentation of a node of whole GPUs, by its free GPUs; (node_gpus + 1,).

    The expected number of free GPUs that a gang drawn from the workload cannot use: all of them where it does
    not fit, none where it does (Weng et al., Beware of Fragmentation, ATC 2023, section 3.1, for tasks
    of whole GPUs). A gang wider than a node needs whole ones.

    Args:
        node_gpus: GPUs of the node.
        widths: widths of the workload's gangs.
        shares: share of each; they add up to one.
    """
    free = np.arange(node_gpus + 1)
    capped = np.minimum(np.asarray(widths), node_gpus)
    refused: FloatArray = np.asarray(shares, dtype=float) @ (capped[:, None] > free[None, :])
    return free * refused
