"""Life tables that forget: for each key and bin, how many of the last few that got so far ended there.

A hazard is the share of those at risk that end within a bin (the life table, Cutler and Ederer, 1958), so a
job that still runs counts in every bin it has passed and in no other: no bias towards short lives, as in
averages of what has ended lately. Forgetting goes by the bin's own exposures, not by the clock: the
hazard of a minute follows today's jobs, that of a week the last few that got so far.
"""

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from domain.forecasts import LIFE_EDGES_S

Array = npt.NDArray[np.float32]

EDGES_S: Final = np.array(LIFE_EDGES_S)
NUM_BINS: Final = len(LIFE_EDGES_S)
"""Bin k holds the lives in (edge k-1, edge k], bin 0 those up to the first edge."""

MEMORIES: Final = (10.0, 50.0, 5000.0)
"""Exposures after which a table has forgotten all but 1/e: quick, middle, and nearly everything."""
MIDDLE: Final = 1

PRIOR_EXPOSURES: Final = 3.0
"""A key's hazard is mixed with the next more general one's as if that had been seen on so many jobs."""

LEAST_HAZARD: Final = 1e-4
MOST_HAZARD: Final = 0.97
"""No bin ends nobody, and none ends all: a curve never reaches 0 within the grid."""

_DECAY: Final = (1.0 - 1.0 / np.array(MEMORIES, np.float32))[:, None]
_EMPTY: Final = np.zeros((2, len(MEMORIES), NUM_BINS), np.float32)

_SURVIVAL: Final = np.zeros((2, 1, NUM_BINS), np.float32)
_SURVIVAL[0] = 1.0
_DEATH: Final = _SURVIVAL.copy()
_DEATH[1, :, -1] = 1.0
"""What a credit adds to exposures (first) and deaths: of it the last bins, as many as are credited."""

_MEDIAN_UNKNOWN_S: Final = 3600.0
_SHAPE_UNKNOWN: Final = 0.7


def _default_hazards() -> Array:
    """Hazards of a log-logistic life with a median of an hour and a heavy tail: said of the unknown."""
    alive = 1.0 / (1.0 + (EDGES_S / _MEDIAN_UNKNOWN_S) ** _SHAPE_UNKNOWN)
    before = np.concatenate(([1.0], alive[:-1]))
    return (1.0 - alive / before).astype(np.float32)


DEFAULT_HAZARDS: Final = _default_hazards()


def logit(hazards: Array) -> Array:
    """ln(h / (1 - h)) of hazards kept within [`LEAST_HAZARD`, `MOST_HAZARD`]; any shape."""
    kept = np.minimum(np.maximum(hazards, LEAST_HAZARD), MOST_HAZARD)
    return np.log(kept / (1.0 - kept))


def survival_of(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """S at each edge, the product of 1 - h up to it: non-increasing in (0, 1]; shape (..., bins)."""
    hazards = 1.0 / (1.0 + np.exp(-np.asarray(logits, np.float64)))
    passed = 1.0 - np.minimum(np.maximum(hazards, LEAST_HAZARD), MOST_HAZARD)
    return np.asarray(np.cumprod(passed, axis=-1), np.float64)


class DecayingTables:
    """One life table per key, in each of the `MEMORIES`."""

    def __init__(self) -> None:
        self._tables: dict[Hashable, Array] = {}
        self._said: dict[tuple[Hashable, ...], tuple[Array, Array]] = {}

    def credit(self, keys: Iterable[Hashable], first: int, stop: int, *, has_died: bool) -> None:
        """Count one job as at risk in bins [first, stop), dead in the last of them or in none."""
        self._said.clear()
        added = _DEATH[:, :, first - stop :] if has_died else _SURVIVAL[:, :, first - stop :]
        for key in keys:
            table = self._tables.get(key)
            if table is None:
                table = self._tables[key] = np.zeros((2, len(MEMORIES), NUM_BINS), np.float32)
            part = table[:, :, first:stop]
            part *= _DECAY
            part += added

    def logits(self, keys: tuple[Hashable, ...]) -> tuple[Array, Array]:
        """Hazards of a job with these keys, from the most general to the most specific.

        Each key's hazard is mixed with that of the more general one before it, the first with a default.

        Returns:
            Logits, shape (memories, bins), and ln(1 + exposures) of the last key in the middle memory,
            shape (bins,). Arrays are shared between jobs: read only.
        """
        said = self._said.get(keys)
        if said is None:
            hazards = np.broadcast_to(DEFAULT_HAZARDS, (len(MEMORIES), NUM_BINS))
            exposed = np.zeros_like(hazards)
            for key in keys:
                exposed, died = self._tables.get(key, _EMPTY)
                hazards = (died + PRIOR_EXPOSURES * hazards) / (exposed + PRIOR_EXPOSURES)
            said = self._said[keys] = (logit(hazards), np.log1p(exposed[MIDDLE]))
        return said
