"""Life tables that forget: for each key and bin, how many of the last few that got so far ended there.

A hazard is the share of those at risk that end within a bin (the life table, Cutler and Ederer, 1958), so a
job that still runs counts in every bin it has passed and in no other: no bias towards short lives, as in
averages of what has ended lately. Forgetting goes by the bin's own exposures, not by the clock: the
hazard of a minute follows today's jobs, that of a week the last few that got so far.
"""

from collections.abc import Hashable, Sequence
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

MOST_TABLES: Final = 100_000
"""Keys with a table, the ones used last: 1.4 kB each."""

LEAST_HAZARD: Final = 1e-4
MOST_HAZARD: Final = 0.97
"""No bin ends nobody, and none ends all: a curve never reaches 0 within the grid."""

_DECAY: Final = (1.0 - 1.0 / np.array(MEMORIES, np.float32))[:, None]
_FIRST_TABLES: Final = 64

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
_DEFAULT_IN_EACH: Final = np.repeat(DEFAULT_HAZARDS[None], len(MEMORIES), axis=0)


def logit(hazards: Array) -> Array:
    """ln(h / (1 - h)) of hazards kept within [`LEAST_HAZARD`, `MOST_HAZARD`]; any shape."""
    kept = np.minimum(np.maximum(hazards, LEAST_HAZARD), MOST_HAZARD)
    return np.asarray(np.log(kept / (1.0 - kept)), np.float32)


def survival_of(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """S at each edge, the product of 1 - h up to it: non-increasing in (0, 1]; shape (..., bins)."""
    hazards = 1.0 / (1.0 + np.exp(-np.clip(np.asarray(logits, np.float64), -30.0, 30.0)))
    passed = 1.0 - np.minimum(np.maximum(hazards, LEAST_HAZARD), MOST_HAZARD)
    return np.asarray(np.cumprod(passed, axis=-1), np.float64)


class DecayingTables:
    """One life table per key, in each of the `MEMORIES`; of more than `most` keys, those used last.

    Args:
        most: number of keys that are kept, at least 1.
    """

    def __init__(self, most: int = MOST_TABLES) -> None:
        self._most = most
        self._places: dict[Hashable, int] = {}
        self._tables = np.zeros((_FIRST_TABLES, 2, len(MEMORIES), NUM_BINS), np.float32)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._places

    def credit(self, keys: Sequence[Hashable], first: int, stop: int, *, has_died: bool) -> None:
        """Count one job as at risk in bins [first, stop), dead in the last of them or in none."""
        places = [self._used(key) for key in keys]
        part = self._tables[places, :, :, first:stop]
        part *= _DECAY
        part += _DEATH[:, :, first - stop :] if has_died else _SURVIVAL[:, :, first - stop :]
        self._tables[places, :, :, first:stop] = part

    def hazards(self, chains: Sequence[Sequence[Hashable]]) -> tuple[Array, Array]:
        """Hazards of a job by chains of keys, each from the most general to the most specific.

        Each key's hazard is mixed with that of the more general one before it, the first with a default.

        Returns:
            Hazards, shape (chains, memories, bins), and exposures of the last key of the first chain in
            the middle memory, shape (bins,).
        """
        known = [[self._places[key] for key in chain if key in self._places] for chain in chains]
        tables = self._tables[[place for chain in known for place in chain]]
        weight = 1.0 / (tables[:, 0] + PRIOR_EXPOSURES)
        own = tables[:, 1] * weight
        weight *= PRIOR_EXPOSURES
        found = np.empty((len(chains), len(MEMORIES), NUM_BINS), np.float32)
        at = 0
        for k, chain in enumerate(known):
            said = _DEFAULT_IN_EACH
            for _ in chain:
                said = own[at] + weight[at] * said
                at += 1
            found[k] = said
        is_known = chains[0][-1] in self._places
        exposed = tables[len(known[0]) - 1, 0, MIDDLE] if is_known else np.zeros(NUM_BINS, np.float32)
        return found, exposed

    def _used(self, key: Hashable) -> int:
        """Place of a key that is used now, made where there is none."""
        place = self._places.pop(key, None)
        if place is None:
            place = self._made()
        self._places[key] = place
        return place

    def _made(self) -> int:
        place = len(self._places)
        if place >= self._most:
            place = self._places.pop(next(iter(self._places)))
            self._tables[place] = 0.0
        elif place == len(self._tables):
            self._tables = np.concatenate((self._tables, np.zeros_like(self._tables)))
        return place
