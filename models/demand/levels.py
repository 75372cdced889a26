"""Demand of pools that are known by their level alone: GPUs wanted (running and pending) by the minute."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from models.demand.bins import Rows
from models.demand.calibrated import LEVELS, CalibratedBins, Samples
from models.demand.facts import LEARN_SPAN_S
from models.demand.features import DAY_S, HOUR_S, WINDOWS_S, Floats, check_windows

_ROW_EVERY_S: Final = 31 * 60.0
_LAGS_S: Final = (60.0, 300.0, 900.0, 3600.0, 3 * HOUR_S, 12 * HOUR_S, DAY_S)
_SPANS_S: Final = (900.0, HOUR_S, 6 * HOUR_S, DAY_S)
_DAYS_BACK: Final = (1, 2, 3, 7)
_ROOM: Final = 2.0
_FIRST_ROWS: Final = 4096


@dataclass(frozen=True)
class LevelQuantiles:
    """GPUs that pools will want at an instant ahead, running and pending together.

    Attributes:
        pools: those that exist now.
        levels: in (0, 1), ascending.
        gpus: non-decreasing in level, shape (pools, levels).
    """

    pools: tuple[str, ...]
    levels: tuple[float, ...]
    gpus: Floats


class _LevelRow(NamedTuple):
    instant_s: float
    rows: Rows


class LevelDemand:
    """Forecasts of pools' levels, learned from what was observed and nothing else.

    Pools appear with the first observation that names them and are gone while observations do not; quotas may
    change with any. One model serves all pools, so a new one is forecast from its first minute on.

    Args:
        windows_s: how far ahead will be asked, seconds.
        every_s: distance of observations, seconds; their instants are multiples of it.
        retrain_every_s: learned anew when asked so long after the last time; None: never.
        seed: of the boosters.
    """

    def __init__(
        self,
        *,
        windows_s: Sequence[float] = WINDOWS_S,
        every_s: float = 60.0,
        retrain_every_s: float | None = None,
        seed: int = 0,
    ) -> None:
        self.windows_s = check_windows(windows_s)
        self._every_s = every_s
        self._retrain_every_s = retrain_every_s
        self._raster_s = max(1, round(_ROW_EVERY_S / every_s)) * every_s
        self._place: dict[str, int] = {}
        self._first_tick: int | None = None
        self._number = 0
        self._table = np.full((_FIRST_ROWS, 0), np.nan)
        self._quotas = np.empty(0)
        self._largest = np.empty(0)
        self._learned_s = -math.inf
        self._rows: dict[float, deque[_LevelRow]] = {window_s: deque() for window_s in self.windows_s}
        self._bins = {
            window_s: CalibratedBins(0, window_s, self._raster_s, seed + place)
            for place, window_s in enumerate(self.windows_s)
        }

    def observe(self, now_s: float, levels: Mapping[str, tuple[float, float]]) -> None:
        """Take in what pools want now.

        Args:
            now_s: instant, seconds; later than the last one. Instants left out are unknown.
            levels: (GPUs wanted, quota) of each pool that exists.

        Raises:
            ValueError: if the instant is not a later multiple of `every_s`.
        """
        tick = round(now_s / self._every_s)
        if tick * self._every_s != now_s or (self._first_tick is not None and tick <= self._last_tick):
            raise ValueError(f"{now_s} must be a multiple of {self._every_s} after what was observed before")
        if self._first_tick is None:
            self._first_tick = tick
        self._admit(levels)
        self._number = tick - self._first_tick + 1
        while self._number > len(self._table):
            self._table = np.concatenate([self._table, np.full_like(self._table, np.nan)])
        row = self._table[self._number - 1]
        for pool, (gpus, quota) in levels.items():
            place = self._place[pool]
            row[place], self._quotas[place] = gpus, quota
        self._largest = np.fmax(self._largest, row)
        if now_s % self._raster_s == 0.0:
            for window_s, kept in self._rows.items():
                kept.append(_LevelRow(now_s, self._asked(window_s)))
                while kept[0].instant_s < now_s - LEARN_SPAN_S - window_s:
                    kept.popleft()

    def learn(self) -> None:
        """Learn from what was observed so far; `quantiles` does so by itself where it is due."""
        now_s = self._last_tick * self._every_s
        for window_s, one in self._bins.items():
            one.learn(self._samples(window_s, -math.inf), now_s)
        self._learned_s = now_s

    def quantiles(self, window_s: float) -> LevelQuantiles:
        """Distribution of the level of each pool that exists, `window_s` after the last observation.

        Raises:
            ValueError: if nothing was observed, or `window_s` is not one of `windows_s`.
        """
        if window_s not in self.windows_s or self._first_tick is None:
            raise ValueError(f"window_s is {window_s}, must be one of {self.windows_s}, after an observation")
        now_s = self._last_tick * self._every_s
        if self._retrain_every_s is not None and now_s >= self._learned_s + self._retrain_every_s:
            self.learn()
        one = self._bins[window_s]
        one.catch_up(self._samples(window_s, one.settled_s), now_s)
        is_there = ~np.isnan(self._table[self._number - 1])
        gpus = one.quantiles(self._asked(window_s))[is_there]
        names = tuple(pool for pool, place in self._place.items() if is_there[place])
        return LevelQuantiles(names, LEVELS, gpus)

    def state(self) -> dict[str, Any]:
        """Everything that was learned, as numbers, lists and texts; what was observed is told again."""
        bins = {f"{window_s:g}": one.state() for window_s, one in self._bins.items()}
        return {"learned_s": self._learned_s, "bins": bins}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`, after the same observations."""
        self._learned_s = state["learned_s"]
        for window_s, one in self._bins.items():
            one.restore(state["bins"][f"{window_s:g}"])

    @property
    def _last_tick(self) -> int:
        return (self._first_tick or 0) + self._number - 1

    def _admit(self, levels: Mapping[str, tuple[float, float]]) -> None:
        new = [pool for pool in levels if pool not in self._place]
        if not new:
            return
        for pool in new:
            self._place[pool] = len(self._place)
        unknown = np.full(len(new), np.nan)
        self._table = np.concatenate([self._table, np.full((len(self._table), len(new)), np.nan)], axis=1)
        self._quotas = np.concatenate([self._quotas, unknown])
        self._largest = np.concatenate([self._largest, unknown])
        for one in self._bins.values():
            one.grow(len(self._place))

    def _at(self, ago_s: float) -> Floats:
        """Levels so long before the last observation, NaN where unknown."""
        place = self._number - 1 - round(ago_s / self._every_s)
        return self._table[place] if 0 <= place < self._number else np.full(len(self._place), np.nan)

    def _asked(self, window_s: float) -> Rows:
        """What is known at the last observation, of all pools; NaN of those that do not exist."""
        level = self._at(0.0)
        quota = np.maximum(self._quotas, 1.0)
        columns = [level / quota, np.log1p(level), np.log(quota)]
        columns += [(level - self._at(lag_s)) / quota for lag_s in _LAGS_S]
        spans = [_span(self._last(span_s)) for span_s in _SPANS_S]
        columns += [(one - level) / quota for mean_least_most in spans for one in mean_least_most]
        columns += self._changes(_SPANS_S[1])
        days = [self._at(day * DAY_S - window_s) for day in _DAYS_BACK]
        columns += [(one - level) / quota for one in days]
        now_s = self._last_tick * self._every_s
        hour = now_s / HOUR_S * (math.pi / 12.0)
        columns += [np.full(len(level), one) for one in (math.sin(hour), math.cos(hour))]
        anchors = np.stack([level, spans[-1][0], quota], axis=1)
        return Rows(np.stack(columns, axis=1), self._edges(level, quota), anchors, np.zeros(len(level)))

    def _edges(self, level: Floats, quota: Floats) -> Floats:
        """Bins around the present level, finer near it, from 0 to twice the largest level or quota."""
        top = np.ceil(_ROOM * np.fmax(np.fmax(self._largest, quota), 1.0))
        edges = np.where(np.isnan(level), 0.0, level)[:, None] + _steps()
        return np.minimum(np.maximum(edges, 0.0), top[:, None])

    def _last(self, span_s: float) -> Floats:
        ticks = round(span_s / self._every_s)
        return self._table[max(0, self._number - ticks) : self._number]

    def _changes(self, span_s: float) -> list[Floats]:
        """How often the level changed, and for how long it has not."""
        is_change = np.diff(self._last(span_s), axis=0) != 0.0
        if not len(is_change):
            return [np.zeros(len(self._place))] * 2
        quiet = np.where(is_change.any(axis=0), np.argmax(is_change[::-1], axis=0), len(is_change))
        return [is_change.sum(axis=0).astype(np.float64), quiet.astype(np.float64)]

    def _samples(self, window_s: float, after_s: float) -> Samples:
        """Raster instants after one whose windows are over, filled up to the pools of today."""
        now_s, number = self._last_tick * self._every_s, len(self._place)
        kept = [
            r for r in self._rows[window_s] if after_s < r.instant_s and self._is_known(r, window_s, now_s)
        ]
        if not kept:
            empty = Rows(np.empty((0, 0)), np.empty((0, len(_steps()))), np.empty((0, 0)), np.empty(0))
            return Samples(np.empty(0), empty, np.empty((0, number)))
        observed = np.stack([self._at(now_s - one.instant_s - window_s) for one in kept])
        rows = Rows(
            *(np.concatenate(part) for part in zip(*(_filled(r.rows, number) for r in kept), strict=True))
        )
        top = rows.edges[:, -1].reshape(observed.shape)
        return Samples(np.array([one.instant_s for one in kept]), rows, np.minimum(observed, top))

    def _is_known(self, row: _LevelRow, window_s: float, now_s: float) -> bool:
        """Whether the outcome is taken in by now: at the raster's first instant after the window."""
        return math.ceil((row.instant_s + window_s) / self._raster_s) * self._raster_s <= now_s


def _steps() -> Floats:
    """Changes of a level that bound the bins: 0, 1, 2, 3, 4 and then two to a doubling, both ways."""
    up = [1.0, 2.0, 3.0, 4.0]
    while up[-1] < 2048.0:
        up.append(up[-2] * 2.0)
    return np.array([*(-step for step in reversed(up)), 0.0, *up])


def _span(levels: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, least and most of the levels of a span, NaN where there were none."""
    is_known = ~np.isnan(levels)
    number = is_known.sum(axis=0)
    mean = np.where(number > 0, np.where(is_known, levels, 0.0).sum(axis=0) / np.maximum(number, 1), np.nan)
    return mean, np.fmin.reduce(levels, axis=0), np.fmax.reduce(levels, axis=0)


def _filled(rows: Rows, number: int) -> Rows:
    """Rows of more pools, NaN for those that had not appeared."""
    missing = number - len(rows.least)
    if not missing:
        return rows
    parts = [np.concatenate([part, np.full((missing, *part.shape[1:]), np.nan)]) for part in rows]
    return Rows(*parts)
