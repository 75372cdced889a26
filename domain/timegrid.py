"""The grid of time cells on which forecasts and plans look ahead."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MINUTE_S = 60.0
_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S

LOOK_S: Final = 1800.0
"""How far into a cell its peak is looked for. The peaks that pools reach somewhere in many hours do not
coincide; their sum would be a need that never comes. The first half hour stands for the others."""


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """Cells [edge_k, edge_k+1) ahead of an instant; edges in seconds, the first one 0.

    Cells and not instants: a burst of short jobs hides between two grid points, but not inside a cell
    whose peak is asked for.

    Raises:
        ValueError: if there are fewer than two edges, they do not start at 0 or do not increase.
    """

    edges_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges_s) < 2 or self.edges_s[0] != 0.0:
            raise ValueError("a time grid needs at least two edges, the first one 0")
        if any(b <= a for a, b in zip(self.edges_s, self.edges_s[1:], strict=False)):
            raise ValueError("the edges of a time grid must increase")

    @property
    def horizon_s(self) -> float:
        """How far the grid looks ahead, seconds."""
        return self.edges_s[-1]

    def __len__(self) -> int:
        return len(self.edges_s) - 1

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return iter(zip(self.edges_s[:-1], self.edges_s[1:], strict=True))

    def cell_of(self, offset_s: float) -> int | None:
        """Index of the cell that holds `offset_s` seconds ahead; None beyond the horizon.

        Raises:
            ValueError: if the offset lies in the past.
        """
        if offset_s < 0:
            raise ValueError(f"offset_s is {offset_s}, the grid looks ahead only")
        if offset_s >= self.horizon_s:
            return None
        return bisect_right(self.edges_s, offset_s) - 1


def default_grid() -> TimeGrid:
    """1 min, then doubling to 16 h and, more coarsely, to 8 days."""
    edges = [0.0] + [_MINUTE_S * 2**k for k in range(10)]
    edges += [16 * _HOUR_S, _DAY_S, 2 * _DAY_S, 4 * _DAY_S, 8 * _DAY_S]
    return TimeGrid(tuple(edges))
