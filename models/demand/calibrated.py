"""A bin model whose levels are corrected as outcomes come in: the part that all demand forecasts share."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import numpy as np

from models.calibration.adaptive import AdaptiveLevels, conformal_start
from models.demand.bins import BinModel, Floats, Rows

LEVELS: Final = (0.05, *(k / 10 for k in range(1, 10)), 0.95, 0.96, 0.97, 0.98, 0.99)
"""Levels that quantiles are said at."""

_STEP: Final = 0.1
"""Of the corrections of the levels from 0.9 on, log-odds; 0 up to 0.5, in between in proportion. Corrections
of the inner levels cost more by their noise than they mend."""

_FARTHEST_START: Final = 1.0
"""The held-out part may move the levels to begin with by so much, log-odds: it holds few bursts."""

_HELD_OUT_FROM: Final = 0.7


class Samples(NamedTuple):
    """Instants whose window is over, in the order of time.

    Attributes:
        instants_s: shape (instants,).
        rows: of all units at the first instant, then at the second, and so on.
        observed: what came, whole GPUs, NaN where a unit did not exist, shape (instants, units).
    """

    instants_s: Floats
    rows: Rows
    observed: Floats

    def part(self, is_kept: Any) -> Self:
        """Some of the instants."""
        of_rows = np.repeat(is_kept, self.observed.shape[1])
        return type(self)(self.instants_s[is_kept], self.rows.only(of_rows), self.observed[is_kept])


class CalibratedBins:
    """The distribution of one quantity per unit (pool), for one window.

    Every instant of a raster counts as one forecast: its outcome is taken in at the first instant of the
    raster by which the window is over. What was asked meanwhile makes no difference.

    Args:
        num_units: how many pools.
        window_s: the window.
        every_s: distance of the raster's instants.
        seed: of the booster.
    """

    def __init__(self, num_units: int, window_s: float, every_s: float, seed: int) -> None:
        self._num_units = num_units
        self._window_s = window_s
        self._every_s = every_s
        self._seed = seed
        self._model: BinModel | None = None
        self._adaptive: AdaptiveLevels | None = None
        self.settled_s = -np.inf
        """Instant of the last forecast whose outcome was taken in."""
        self._issued_s = -np.inf

    @property
    def is_learned(self) -> bool:
        """Whether there was enough to learn from."""
        return self._model is not None

    def grow(self, num_units: int) -> None:
        """More units have appeared, behind the others."""
        self._num_units = num_units
        if self._adaptive is not None:
            self._adaptive.grow(num_units)

    def learn(self, samples: Samples, now_s: float) -> None:
        """Learn from instants whose windows are over.

        The first time, the last 30 % of them are held out from a model of those before. They give the levels
        to begin with (split conformal) and are then gone through as if they came in one by one.
        """
        if not len(samples.instants_s):
            return
        if self._adaptive is None:
            self._set_out(samples)
        self.catch_up(samples, now_s)
        self._fit(samples)

    def catch_up(self, samples: Samples, now_s: float) -> None:
        """Take in the outcomes that have become known since the last time, in their order."""
        if self._adaptive is None:
            return
        new = samples.part(samples.instants_s > self.settled_s)
        low, high = self._places(new)
        for number, instant_s in enumerate(new.instants_s.tolist()):
            known_s = self._known_s(instant_s)
            self._issue_until(known_s)
            while self._adaptive.next_due_s() < known_s:  # its row was forgotten before anybody asked
                self._adaptive.settle(np.full(self._num_units, np.nan), np.full(self._num_units, np.nan))
            self._adaptive.settle(low[number], high[number])
            self.settled_s = instant_s
        self._issue_until(now_s)

    def quantiles(self, rows: Rows) -> Floats:
        """Quantiles at `LEVELS`, shape (units, levels); the most possible where nothing is learned."""
        if self._model is None or self._adaptive is None:
            return np.tile(rows.edges[:, -1:], (1, len(LEVELS)))
        return self._model.distribution(rows).quantiles(self._adaptive.read_levels())

    def state(self) -> dict[str, Any]:
        """Everything that was learned, as numbers, lists and a text."""
        return {
            "model": None if self._model is None else self._model.text(),
            "adaptive": None if self._adaptive is None else self._adaptive.state(),
            "settled_s": self.settled_s,
            "issued_s": self._issued_s,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        text, adaptive = state["model"], state["adaptive"]
        self._model = None if text is None else BinModel.from_text(text)
        self._adaptive = None if adaptive is None else AdaptiveLevels.from_state(adaptive)
        self.settled_s, self._issued_s = state["settled_s"], state["issued_s"]

    def _set_out(self, samples: Samples) -> None:
        cut = int(len(samples.instants_s) * _HELD_OUT_FROM)
        begins_s = float(samples.instants_s[cut])
        self._fit(samples.part(samples.instants_s + self._window_s <= begins_s))
        low, high = self._places(samples.part(samples.instants_s >= begins_s))
        is_known = ~np.isnan(low)
        start = conformal_start(low[is_known], high[is_known], LEVELS, farthest=_FARTHEST_START)
        share = np.clip((np.array(LEVELS) - 0.5) / 0.4, 0.0, 1.0)
        start = share * start + (1.0 - share) * np.array(LEVELS)
        steps = (_STEP * share).tolist()
        self._adaptive = AdaptiveLevels(LEVELS, self._num_units, steps, start)
        self.settled_s = self._issued_s = begins_s - 1.0

    def _fit(self, samples: Samples) -> None:
        observed = samples.observed.ravel()
        is_known = ~np.isnan(observed)
        fitted = BinModel.fit(samples.rows.only(is_known), observed[is_known], seed=self._seed)
        self._model = fitted or self._model

    def _places(self, samples: Samples) -> tuple[Floats, Floats]:
        """Where the outcomes lie in their distributions, NaN where unknown, each (instants, units)."""
        shape = samples.observed.shape
        if self._model is None or not shape[0]:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        observed = samples.observed.ravel()
        is_known = ~np.isnan(observed)
        said = self._model.distribution(samples.rows.only(is_known)).places(observed[is_known])
        places = np.full((2, len(observed)), np.nan)
        places[:, is_known] = said
        return places[0].reshape(shape), places[1].reshape(shape)

    def _known_s(self, instant_s: float) -> float:
        return float(np.ceil((instant_s + self._window_s) / self._every_s) * self._every_s)

    def _issue_until(self, until_s: float) -> None:
        """Note the forecasts of the raster's instants before `until_s`."""
        if self._adaptive is None:
            return
        first = int(np.floor(self._issued_s / self._every_s)) + 1
        for tick in range(first, int(np.ceil(until_s / self._every_s))):
            self._adaptive.issue(self._known_s(tick * self._every_s))
            self._issued_s = tick * self._every_s
