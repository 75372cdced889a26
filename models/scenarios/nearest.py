"""Joint scenarios given what happens now: stretches that began alike, tied together by past ranks.

Two steps, per pool and cell. The *marginal* is a kernel-weighted empirical distribution over the stretches of
the library: what followed the instants at which this pool was in nearly the state it is in now. The *copula*
is empirical: the block bootstrap's stretches are ranked pool by pool and cell by cell, and a scenario takes
each marginal at the rank that one stretch had there (Schaake shuffle: Clark et al., J. Hydrometeorology 5,
2004; Schefzik, Thorarinsdottir and Gneiting, Statistical Science 28, 2013). So each pool is forecast from its
own state, and what has peaked together still peaks together.
"""

import bisect
import math
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

import numpy as np

from models.scenarios.stretches import DAY_S, HOUR_S, Floats, Ints, PastStretches, PoolLog

FEATURES: Final = (
    ("jobs", 300.0),
    ("gpus", 300.0),
    ("gpus", 1800.0),
    ("gpus", 4 * HOUR_S),
    ("gpus", 8 * HOUR_S),
)
"""State of a pool: ln(1 + jobs that arrived, or GPUs they asked for, within so many seconds before)."""

_SOON_CELLS: Final = 7  # up to 64 min ahead what counts is the burst that goes on


class _Kernel(NamedTuple):
    """What a difference costs: a stretch weighs exp(-cost / 2), halved for every `half_life_s` of its age."""

    precisions: tuple[float, ...]
    clock_s: float
    half_life_s: float


_SOON: Final = _Kernel((1.0, 1.0, 0.5, 0.5, 0.0), 3 * HOUR_S, 7 * DAY_S)
_LATER: Final = _Kernel((0.0, 0.3, 0.3, 0.3, 0.3), 6 * HOUR_S, 14 * DAY_S)
_KERNELS: Final = (_SOON, _LATER)
_PRECISIONS: Final = np.array([kernel.precisions for kernel in _KERNELS]).T
_FARTHEST: Final = 50.0  # exp(-50): a stretch far from all that is known still weighs something
_YOUNG_S: Final = DAY_S
_STANDS_S: Final = 300.0
_LARGEST_COUNT: Final = 2.0**24
_TIES: Final = 0.999  # of a GPU: ties are broken, the order of whole GPUs is kept


class _Cell(NamedTuple):
    """One cell of the library, pool by pool in the order of the peaks (of arrivals where they are equal).

    Attributes:
        order: places in a flattened (pools, rows of the library), shape (pools, rows known).
        peaks, arrivals: their values, the same shape.
    """

    order: Ints
    peaks: Floats
    arrivals: Floats


def pool_states(log: PoolLog, instants_s: Floats) -> Floats:
    """`FEATURES` of one pool, of what had arrived strictly before each instant.

    Args:
        log: its arrivals.
        instants_s: ascending, shape (instants,).

    Returns:
        shape (instants, features).
    """
    states = np.zeros((len(instants_s), len(FEATURES)))
    if len(instants_s):
        submit_s, gpus = log.arrivals_since(float(instants_s[0]) - max(span_s for _, span_s in FEATURES))
        totals = {"jobs": np.arange(len(gpus) + 1), "gpus": np.concatenate([[0], np.cumsum(gpus)])}
        until = np.searchsorted(submit_s, instants_s, "left")
        for place, (what, span_s) in enumerate(FEATURES):
            since = np.searchsorted(submit_s, instants_s - span_s, "left")
            states[:, place] = totals[what][until] - totals[what][since]
    return np.log1p(states)


def states_at(logs: Iterable[PoolLog], at_s: float) -> Floats:
    """`pool_states` of all pools at one instant, shape (pools, features): a few look-ups a pool."""
    counts = [_counts_at(log, at_s) for log in logs]
    states: Floats = np.log1p(np.array(counts, dtype=float).reshape(-1, len(FEATURES)))
    return states


def _counts_at(log: PoolLog, at_s: float) -> list[int]:
    until = bisect.bisect_left(log.submit_s, at_s)
    counts: list[int] = []
    for what, span_s in FEATURES:
        since = bisect.bisect_left(log.submit_s, at_s - span_s, 0, until)
        counts.append(until - since if what == "jobs" else sum(log.gpus[since:until]))
    return counts


class NearestStretches(PastStretches):
    """Scenarios from the past stretches whose pools were in the state they are in now.

    A pool whose first job came less than a day ago wants its whole quota; one without any wants nothing.
    The ranks stand for an hour, so that consecutive draws differ by what has happened and not by chance. What
    has happened are arrivals, so a draw stands until there are any, at most five minutes.

    Args:
        quotas: GPUs of each pool.
        seed: of the lives given and of the draws.
        num_scenarios: how many to draw.
        since_s: instant at which the record begins.
        begin_s: instant as of which the library is first made; facts up to it are told before any draw.
    """

    slot_s: ClassVar[float] = 60.0

    def __init__(
        self, quotas: Mapping[str, int], seed: int, num_scenarios: int, *, since_s: float, begin_s: float
    ) -> None:
        super().__init__(quotas, seed, num_scenarios, since_s=since_s, begin_s=begin_s)
        self._states = np.empty((0, len(quotas), len(FEATURES)))
        self._cells: list[_Cell] = []
        self._ranked: dict[int, tuple[tuple[int, float], Ints]] = {}

    def _slot_begin_s(self, now_s: float) -> float:
        """The slot after the last one in which a job arrived, or that of the last five minutes."""
        here_s = super()._slot_begin_s(now_s)
        begin_s = math.floor(here_s / _STANDS_S) * _STANDS_S
        for log in self._logs.values():
            before = bisect.bisect_left(log.submit_s, here_s)
            if before and log.submit_s[before - 1] >= begin_s:
                begin_s = super()._slot_begin_s(log.submit_s[before - 1]) + self.slot_s
        return begin_s

    def _refresh(self, as_of_s: float) -> None:
        super()._refresh(as_of_s)
        new = self._instants[len(self._states) :]
        added = np.stack([pool_states(log, new) for log in self._logs.values()], axis=1)
        self._states = np.concatenate([self._states, added])
        self._cells = [self._sorted_cell(cell) for cell in range(int(self._known.max(initial=0)))]

    def _sorted_cell(self, cell: int) -> _Cell:
        rows = np.flatnonzero(self._known > cell)
        peaks, arrivals = self._tables[..., cell][:, rows].transpose(0, 2, 1)
        order = np.argsort(peaks * _LARGEST_COUNT + arrivals, axis=1, kind="stable")
        return _Cell(
            rows[order] + len(self._known) * np.arange(len(order))[:, None],
            np.take_along_axis(peaks, order, 1),
            np.take_along_axis(arrivals, order, 1),
        )

    def _draw(self, at_s: float, salt: int = 0) -> Floats:
        drawn = self._condition(at_s, states_at(self._logs.values(), at_s), self._ranks(at_s, salt))
        for pool, log in enumerate(self._logs.values()):
            first_s = log.submit_s[0] if log.submit_s else math.inf
            if at_s - _YOUNG_S < first_s < at_s:
                drawn[:, :, pool] = self._unknown[pool]
        return drawn

    def _ranks(self, at_s: float, salt: int = 0) -> Ints:
        """Rank that each scenario has in each marginal: that of its stretch among the bootstrap's.

        Ties are broken by chance, the same for all cells of a pool: a pool that stays empty in the stretch
        stays at one level of its marginals.

        Returns:
            each of 0 to scenarios - 1 once per cell and pool, shape (cells, pools, scenarios), for the hour.
        """
        hour = math.floor(at_s / HOUR_S)
        key = (hour, self._next_s)
        if salt not in self._ranked or self._ranked[salt][0] != key:
            peaks = super()._draw(at_s, salt)[0]
            rng = self._rng(hour, salt, 1)
            order = np.argsort(peaks + _TIES * rng.random(peaks.shape[:2])[:, :, None], axis=0, kind="stable")
            ranks = np.empty(peaks.shape, dtype=np.int64)
            places = np.broadcast_to(np.arange(len(peaks))[:, None, None], peaks.shape)
            np.put_along_axis(ranks, order, places, axis=0)
            self._ranked[salt] = (key, ranks.transpose(2, 1, 0).copy())
        return self._ranked[salt][1]

    def _levels(self) -> Floats:
        """Levels of the marginals at each rank, increasing, in (0, 1), shape (cells, scenarios)."""
        levels = (np.arange(self._num_scenarios) + 0.5) / self._num_scenarios
        return np.broadcast_to(levels, (len(self._edges) - 1, len(levels)))

    def _condition(self, at_s: float, state: Floats, ranks: Ints) -> Floats:
        """The marginals given the state, of the stretches over by now, taken at the ranks.

        Args:
            at_s: the instant.
            state: `FEATURES` at it, shape (pools, features).
            ranks: shape (cells, pools, scenarios).

        Returns:
            Peaks and arrivals, shape (2, scenarios, pools, cells). The arrivals are those of the stretch
            whose peak it is; where no stretch is over, as `draw` says.
        """
        weights = self._weights(at_s, state)
        levels, lengths = self._levels(), np.diff(self._edges)
        drawn = np.empty((2, *ranks.shape))
        for cell in range(len(levels)):
            source = min(cell, len(self._cells) - 1)
            one = self._cells[source]
            chances = weights[int(cell >= _SOON_CELLS)].take(one.order)
            places = np.take_along_axis(_places(chances, levels[cell]), ranks[cell], axis=1)
            drawn[0, cell] = np.take_along_axis(one.peaks, places, axis=1)
            drawn[1, cell] = np.take_along_axis(one.arrivals, places, axis=1)
            drawn[1, cell] *= lengths[cell] / lengths[source]
        return drawn.transpose(0, 3, 2, 1).copy()

    def _weights(self, at_s: float, state: Floats) -> Floats:
        """Weight of each stretch for each pool, soon and later, shape (2, pools, rows)."""
        ago_s = at_s - self._instants
        apart_s = np.abs((ago_s + DAY_S / 2) % DAY_S - DAY_S / 2)
        costs = ((self._states - state) ** 2 @ _PRECISIONS).transpose(2, 1, 0)
        for place, kernel in enumerate(_KERNELS):
            aged = 2 * math.log(2) * ago_s / kernel.half_life_s
            costs[place] += (apart_s / kernel.clock_s) ** 2 + aged
        costs -= costs.min(axis=2, keepdims=True)
        weights: Floats = np.exp(-np.minimum(costs / 2, _FARTHEST))
        return weights


def _places(chances: Floats, levels: Floats) -> Ints:
    """Where the running sum of each row of chances, scaled to 1, reaches each level, shape (rows, levels).

    Rows are laid end to end, each one higher than the one before, so that one search serves them all.
    """
    rows, columns = chances.shape
    reached = np.cumsum(chances, axis=1)
    reached /= reached[:, -1:]
    offsets = np.arange(rows)[:, None]
    places = np.searchsorted((reached + offsets).ravel(), levels + offsets) - columns * offsets
    return np.asarray(np.clip(places, 0, columns - 1))
