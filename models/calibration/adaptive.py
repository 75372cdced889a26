"""Levels that are corrected as outcomes come in: adaptive conformal inference with delayed feedback.

Gibbs and Candes (Adaptive Conformal Inference Under Distribution Shift, NeurIPS 2021) move the level at
which quantiles are read by step x (miss - wanted share of misses) after each outcome, which gives the
wanted long-run share of misses whatever the sequence. Angelopoulos, Candes and Tibshirani (Conformal PID
Control, NeurIPS 2023, section 2.1) do the same to the quantile of a score ("quantile tracking"). Here the
score is the place of the outcome in the forecast distribution, F(outcome), on the scale of log-odds: a level
of 0.95 that misses moves towards 0.97 rather than past 1, and one step suits all levels.

Counts have atoms: an outcome then has a stretch of places, from F(outcome - 1) to F(outcome), and is covered
at a level inside it by the part of the stretch below the level. This is what a randomised tie would give on
average (Smith, J. Forecasting 4:3, 1985; Czado, Gneiting and Held, Biometrics 65:4, 2009), without a draw.
A forecast that knows the true distribution covers exactly its level in this sense, however large its atoms.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_LOG_ODDS: Final = math.log(0.9995 / 0.0005)
"""Levels read beyond it cover everything, below minus it nothing; places are kept within it."""


def log_odds(levels: Floats) -> Floats:
    """ln(p / (1 - p)), any shape; infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(levels) - np.log1p(-levels))


def tie_coverage(low: Floats, high: Floats, level: Floats) -> Floats:
    """Which part of each stretch of places [low, high] lies below the level, in [0, 1]; broadcasts.

    A stretch of no length is covered where it lies at or below the level.
    """
    length = high - low
    with np.errstate(over="ignore"):  # a stretch too short to divide by: infinitely far to one side of it
        part = (level - low) / np.where(length > 0.0, length, 1.0)
    part = np.where(length > 0.0, part, np.where(low <= level, 1.0, 0.0))
    return np.minimum(np.maximum(part, 0.0), 1.0)


class _Issued(NamedTuple):
    """A forecast whose outcome is awaited: when it is known, and the levels that were read, log-odds."""

    due_s: float
    read: Floats


class AdaptiveLevels:
    """Which level to read of each unit's forecasts so that the wanted share of outcomes lies at or below.

    A forecast is issued with the instant at which its outcome will be known; outcomes are settled in that
    order, however many forecasts were issued meanwhile (windows overlap). The read level of a unit moves
    after each outcome by `step x (miss - (1 - level))` on the scale of log-odds.

    The guarantee, for any sequence of outcomes and delays of at most d outcomes: over T outcomes of a unit
    |mean miss - (1 - level)| <= 2 (`MOST_LOG_ODDS` + step (d + 1)) / (step T). A level beyond the bounds
    covers everything or nothing, so it cannot stray farther than d + 1 steps (Gibbs and Candes, lemma 4.1).

    Args:
        levels: wanted shares, ascending, each in (0, 1).
        num_units: how many are followed: pools.
        step: of the moves, log-odds: one for all levels or one for each; a level whose step is 0 stays.
        start: levels to begin with, shape (levels,); the wanted ones if None.

    Raises:
        ValueError: if levels do not ascend within (0, 1) or a step is negative.
    """

    def __init__(
        self,
        levels: Sequence[float],
        num_units: int,
        step: float | Sequence[float],
        start: Floats | None = None,
    ) -> None:
        self.levels = np.asarray(levels, np.float64)
        inside = (self.levels > 0.0).all() and (self.levels < 1.0).all()
        self.steps = np.broadcast_to(np.asarray(step, np.float64), self.levels.shape)
        if not inside or (np.diff(self.levels) <= 0.0).any() or (self.steps < 0.0).any():
            raise ValueError("levels must ascend within (0, 1), and no step be negative")
        self._start = np.clip(
            log_odds(self.levels if start is None else np.asarray(start)), -MOST_LOG_ODDS, MOST_LOG_ODDS
        )
        self._read = np.tile(self._start, (num_units, 1))
        self._issued: deque[_Issued] = deque()

    def __len__(self) -> int:
        return len(self._read)

    def grow(self, num_units: int) -> None:
        """Follow more units, which begin where all began."""
        added = np.tile(self._start, (max(0, num_units - len(self)), 1))
        self._read = np.concatenate([self._read, added])

    def read_levels(self) -> Floats:
        """Levels to read now, non-decreasing, in [0, 1], shape (units, levels); 1 reads the largest value."""
        return _as_levels(self._read)

    def issue(self, due_s: float) -> None:
        """Note that a forecast was made with the present levels; its outcome will be known at `due_s`.

        Raises:
            ValueError: if an earlier forecast's outcome is due later.
        """
        if self._issued and due_s < self._issued[-1].due_s:
            last_s = self._issued[-1].due_s
            raise ValueError(f"an outcome due at {due_s} was issued after one due at {last_s}")
        self._issued.append(_Issued(due_s, self._read.copy()))

    def next_due_s(self) -> float:
        """When the next outcome is due; infinite if none is awaited."""
        return self._issued[0].due_s if self._issued else math.inf

    def settle(self, low: Floats, high: Floats) -> Floats:
        """Take in the outcome of the forecast that was due first.

        Args:
            low: place F(outcome - 1) of each unit's outcome in its raw forecast, shape (units,); NaN where
                there is none, and nothing is learned.
            high: F(outcome), likewise.

        Returns:
            how far each was covered, in [0, 1], shape (units, levels), NaN where there was no outcome.

        Raises:
            ValueError: if no outcome is awaited.
        """
        if not self._issued:
            raise ValueError("no forecast awaits its outcome")
        read = self._issued.popleft().read
        number = len(read)
        covered = covered_at(low[:number], high[:number], read)
        moved = self.steps * ((1.0 - covered) - (1.0 - self.levels))
        self._read[:number] += np.where(np.isnan(moved), 0.0, moved)
        return covered

    def state(self) -> dict[str, Any]:
        """Everything that is needed to go on, as numbers and lists."""
        return {
            "levels": self.levels.tolist(),
            "steps": self.steps.tolist(),
            "start": self._start.tolist(),
            "read": self._read.tolist(),
            "issued": [[one.due_s, one.read.tolist()] for one in self._issued],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As it was when `state` was taken."""
        made = cls(state["levels"], 0, state["steps"])
        made._start = np.array(state["start"])
        made._read = np.array(state["read"]).reshape(-1, len(made.levels))
        width = len(made.levels)
        made._issued = deque(
            _Issued(due_s, np.array(read).reshape(-1, width)) for due_s, read in state["issued"]
        )
        return made


def covered_at(low: Floats, high: Floats, read: Floats) -> Floats:
    """How far outcomes at places [low, high] are covered by levels read, given as log-odds.

    Args:
        low: shape (units,), NaN where there is no outcome.
        high: shape (units,).
        read: shape (units, levels).
    """
    covered = tie_coverage(low[:, None], high[:, None], 1.0 / (1.0 + np.exp(-read)))
    covered = np.where(read >= MOST_LOG_ODDS, 1.0, np.where(read <= -MOST_LOG_ODDS, 0.0, covered))
    return np.where(np.isnan(low)[:, None], np.nan, covered)


def conformal_start(
    low: Floats, high: Floats, levels: Sequence[float], *, farthest: float = math.inf
) -> Floats:
    """Split conformal: the levels that would have covered the wanted shares of outcomes held out.

    Args:
        low: places F(outcome - 1) of outcomes that the forecasts were not learned from, shape (outcomes,).
        high: F(outcome).
        levels: wanted shares.
        farthest: from the wanted levels, log-odds.

    Returns:
        Levels to read, non-decreasing; the wanted ones where fewer than 50 outcomes were held out.
    """
    wanted = np.asarray(levels, np.float64)
    if len(low) < 50:
        return wanted
    grid = np.concatenate([np.linspace(0.0, 0.99, 199), np.linspace(0.9905, 1.0, 20)])
    reached = np.array([tie_coverage(low, high, np.full(1, level)).mean() for level in grid])
    number = len(low)
    needed = np.minimum(1.0, np.ceil((number + 1) * wanted) / number)
    place = np.searchsorted(np.maximum.accumulate(reached), needed - 1e-12, "left")
    start, centre = log_odds(grid[np.minimum(place, len(grid) - 1)]), log_odds(wanted)
    least, most = np.maximum(centre - farthest, -MOST_LOG_ODDS), np.minimum(centre + farthest, MOST_LOG_ODDS)
    start = np.clip(start, least, most)
    return np.asarray(1.0 / (1.0 + np.exp(-start)))


def _as_levels(read: Floats) -> Floats:
    levels = 1.0 / (1.0 + np.exp(-read))
    levels = np.where(read >= MOST_LOG_ODDS, 1.0, np.where(read <= -MOST_LOG_ODDS, 0.0, levels))
    return np.maximum.accumulate(levels, axis=-1)
