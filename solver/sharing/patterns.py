"""What is the free part of a GPU good for, given what is asked for: prices from the cutting stock problem.

Cutting GPUs into the shares that are asked for, in the proportions in which they are asked for, with as few
GPUs as possible, is a cutting stock problem. The dual solution prices each share in GPUs (a share of 810
milli whose rest nobody can use is worth a whole GPU; one of 470 half a GPU), and the best sum of prices that
fits into r free milli is what r is good for. A placement loses what the GPU was good for before, less what it
is good for afterwards, less the price of the share; filling a GPU by an optimal pattern loses nothing.

Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", Operations Research 9, 1961.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from scipy.optimize import linprog

from solver.sharing.nodes import FloatArray, IntArray
from solver.sharing.requests import WHOLE_MILLI

_MOST_PATTERNS: Final = 1000
_TOLERANCE: Final = 1e-9


def usable_gpus(counts: Mapping[int, float]) -> FloatArray:
    """What r free milli of a GPU are good for, in GPUs, for r from 0 to 1000; shape (1001,).

    Never falls with r; 1 for a whole GPU.

    Args:
        counts: how often each share (milli, 1..999) is asked for.
    """
    wanted = {milli: count for milli, count in sorted(counts.items()) if count > 0}
    if not wanted:
        return np.array([0.0] * WHOLE_MILLI + [1.0])
    unit = math.gcd(WHOLE_MILLI, *wanted)
    sizes = np.array(list(wanted), dtype=np.int64) // unit
    worth = _priced(sizes, np.array(list(wanted.values())), WHOLE_MILLI // unit)
    usable: FloatArray = np.minimum(worth[np.arange(WHOLE_MILLI + 1) // unit], 1.0)
    return usable


def _priced(sizes: IntArray, asked: FloatArray, room: int) -> FloatArray:
    """Worth of each amount of room, by column generation: price, find the best pattern, add it."""
    patterns = [np.eye(len(sizes), dtype=np.int64)[i] * (room // size) for i, size in enumerate(sizes)]
    worth = np.zeros(room + 1)
    for _ in range(_MOST_PATTERNS):
        table = np.array(patterns).T
        solved = linprog(np.ones(table.shape[1]), A_ub=-table, b_ub=-asked / asked.sum(), method="highs")
        worth, last = _knapsack(sizes, -solved.ineqlin.marginals, room)
        if worth[room] <= 1.0 + _TOLERANCE:
            break
        patterns.append(_pattern(sizes, last, room))
    worth[room] = 1.0
    return worth


def _knapsack(sizes: IntArray, prices: FloatArray, room: int) -> tuple[FloatArray, IntArray]:
    """Best sum of prices for each amount of room, any number of each size; and the size taken last, or -1."""
    worth = np.zeros(room + 1)
    last = np.full(room + 1, -1, dtype=np.int64)
    for r in range(1, room + 1):
        worth[r] = worth[r - 1]
        fits = np.flatnonzero(sizes <= r)
        sums = worth[r - sizes[fits]] + prices[fits]
        if len(fits) and sums.max() > worth[r] + 1e-12:
            last[r] = fits[sums.argmax()]
            worth[r] = sums.max()
    return worth, last


def _pattern(sizes: IntArray, last: IntArray, room: int) -> IntArray:
    """How many of each size make up the best sum for all the room."""
    pattern = np.zeros(len(sizes), dtype=np.int64)
    while room > 0:
        if last[room] < 0:
            room -= 1
        else:
            pattern[last[room]] += 1
            room -= int(sizes[last[room]])
    return pattern
