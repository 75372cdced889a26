"""What it costs to send guests back: who repeats least goes first.

GPUs that are missing are taken from guests, first from those that repeat the least of their work. Let the
chosen guests fall into levels s_1 < ... < s_m = 1 by the share that they repeat, those that must run to their
end being of the last one, and let M_j be the GPUs missing if only guests of level j and above held theirs:
that many are missing once all below have gone. So M_j - M_j+1 are taken from level j, and

    cost = sum_j s_j (M_j - M_j+1) = sum_j (s_j - s_j-1) M_j,    s_0 = 0, M_m+1 = 0

Each M_j is convex in the GPUs held, and every factor is above 0: the cost is convex, and the lines that lie
above M lie above the cost. Where everybody repeats all, it is M itself.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.lending.curves import FloatArray, RiskLines

BoolArray = NDArray[np.bool_]

LEVELS: Final = (0.0625, 0.125, 0.25, 0.5, 1.0)
"""Shares repeated that are told apart: by halves, as lives are by doublings."""


@dataclass(frozen=True, eq=False)
class SendBacks:
    """Cost of sending back, by the GPUs that chosen guests hold ahead at each level.

    Attributes:
        levels: (levels,) shares repeated, increasing, above 0, the last one 1.
        lines: of each level, GPUs expected to be missing, cell by cell.

    Raises:
        ValueError: if levels are no such shares, or there are not as many lines, of one grid.
    """

    levels: FloatArray
    lines: tuple[RiskLines, ...]

    def __post_init__(self) -> None:
        if self.levels.ndim != 1 or self.levels.size != len(self.lines) or not self.lines:
            raise ValueError(f"{len(self.lines)} lines for levels {self.levels}")
        if not (self.factors > 0.0).all() or self.levels[-1] != 1.0:
            raise ValueError(f"levels are {self.levels}, must rise from above 0 to 1")
        if any(lines.num_cells != self.num_cells for lines in self.lines):
            raise ValueError("lines of different grids")

    @cached_property
    def factors(self) -> FloatArray:
        """(levels,) what a GPU missing at a level costs: its share less that of the level below."""
        return np.diff(self.levels, prepend=0.0)

    @property
    def num_cells(self) -> int:
        """Cells of the grid."""
        return self.lines[0].num_cells

    def holds(self, repeats: FloatArray | float) -> BoolArray:
        """(levels, ...) whether a guest who repeats such a share holds GPUs at each level.

        One between two levels counts as of the upper one: it costs no less than it does.
        """
        own = np.searchsorted(self.levels, repeats)
        numbers = np.arange(self.levels.size).reshape(-1, *(1,) * np.ndim(repeats))
        return np.asarray(numbers <= np.minimum(own, self.levels.size - 1), dtype=np.bool_)

    def at(self, held_gpus: FloatArray) -> FloatArray:
        """Expected cost, GPUs of cells times the share of their work repeated.

        Args:
            held_gpus: (..., levels, cells).

        Returns:
            (...,), at least 0.
        """
        parts = [
            factor * lines.at(held_gpus[..., level, :]).sum(axis=-1)
            for level, (factor, lines) in enumerate(zip(self.factors.tolist(), self.lines, strict=True))
        ]
        return np.asarray(sum(parts))

    def shifted(self, held_gpus: FloatArray) -> "SendBacks":
        """The same cost, counted on from a state in which (levels, cells) GPUs are held already."""
        pairs = zip(self.lines, held_gpus, strict=True)
        return SendBacks(self.levels, tuple(lines.shifted(held) for lines, held in pairs))


def one_level(lines: RiskLines) -> SendBacks:
    """Where everybody repeats all."""
    return SendBacks(np.ones(1), (lines,))


def by_levels(lines: RiskLines, repeats: FloatArray, is_requeueable: NDArray[Any]) -> SendBacks:
    """The cost where guests repeat different shares.

    Guests that run already count at every level, as if they repeated all: where they do not, some of them
    go before a new one, so it costs no more than this.

    Args:
        lines: GPUs expected to be missing, by the GPUs that more guests hold.
        repeats: (classes,) share of its run that being sent back costs one.
        is_requeueable: (classes,) whether it can be.
    """
    if not bool((repeats[is_requeueable] <= LEVELS[-2]).any()):
        return one_level(lines)
    return SendBacks(np.array(LEVELS), (lines,) * len(LEVELS))


def level_of(repeats: FloatArray) -> FloatArray:
    """The next of `LEVELS` that is no smaller, of shares in [0, 1]."""
    return np.array(LEVELS)[np.searchsorted(LEVELS, repeats)]
