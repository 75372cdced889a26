"""Where within a bin of the grid a life lies: by where the last lives of the most alike jobs did.

The grid's bins are 26 % wide; the lives of recurring jobs often repeat to the second. Of those who end
within a bin the share that has ended by t is a mixture of the even course (ln S linear in ln t, in the first
bin in t) and of narrow steps at the recent lives that lie in the bin, each counting as one against
`EVEN_LIVES`.
"""

import math
from collections.abc import Sequence
from typing import Final

from domain.forecasts import LIFE_EDGES_S

EVEN_LIVES: Final = 4.0
"""Weight of the even course, in lives."""

HALF_WIDTH: Final = 0.01
"""Half the width of the step at a recent life, as a share of it."""

_LN_EDGES: Final = tuple(map(math.log, LIFE_EDGES_S))
_LN_STEP: Final = math.log(2.0) / 3.0
_FLAT: Final = -1e-9


def time_within_s(place: int, share: float, ln_ratio: float, atoms: Sequence[float]) -> float:
    """Time by which a share of those who end within a bin has ended, seconds.

    Args:
        place: the bin.
        share: in [0, 1].
        ln_ratio: ln of S at the bin's end over S at its beginning, not above 0.
        atoms: ln of recent lives, in any order; those outside the bin are passed over.
    """
    steps = _steps(place, atoms)
    ln_ratio = min(ln_ratio, _FLAT)
    whole = math.expm1(ln_ratio)
    if steps:
        ended = [(math.expm1(a * ln_ratio) / whole, math.expm1(b * ln_ratio) / whole) for a, b in steps]
        share = _inverse(share, ended)
    at = math.log1p(share * whole) / ln_ratio
    if place == 0:
        return float(LIFE_EDGES_S[0] * at)
    return math.exp(_LN_EDGES[place - 1] + at * _LN_STEP)


def _steps(place: int, atoms: Sequence[float]) -> list[tuple[float, float]]:
    """Begin and end of each step as places within the bin, in [0, 1]."""
    if place == 0:
        middles = [math.exp(atom) / LIFE_EDGES_S[0] for atom in atoms if atom <= _LN_EDGES[0]]
        halves = [HALF_WIDTH * middle for middle in middles]
    else:
        low, high = _LN_EDGES[place - 1], _LN_EDGES[place]
        middles = [(atom - low) / _LN_STEP for atom in atoms if low < atom <= high]
        halves = [HALF_WIDTH / _LN_STEP] * len(middles)
    return [
        (max(0.0, middle - half), min(1.0, middle + half))
        for middle, half in zip(middles, halves, strict=True)
    ]


def _inverse(share: float, steps: list[tuple[float, float]]) -> float:
    """Where on [0, 1] the mixture of an even course and of steps reaches `share`."""
    wanted = share * (EVEN_LIVES + len(steps))
    slope = EVEN_LIVES
    turns = []
    for begin, end in steps:
        steepness = 1.0 / max(end - begin, 1e-9)
        turns.append((begin, steepness))
        turns.append((end, -steepness))
    turns.sort()
    used = at = 0.0
    for turn, change in turns:
        there = used + slope * (turn - at)
        if there >= wanted:
            break
        used, at = there, turn
        slope += change
    return min(1.0, at + max(0.0, wanted - used) / max(slope, EVEN_LIVES))
