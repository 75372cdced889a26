"""The risk of each cell as a convex function of the GPUs lent ahead, and as a maximum of lines.

Every guest adds to the need of a cell, and it adds the same in every scenario. So what lending does to a
cell depends on one number, the GPUs x that all chosen guests still hold when it begins:

    r(x) = f(x) - f(0),   f(x) = mean over scenarios of hit x E max(0, need + x - C + sd Z)

with Z standard normal. E max(0, m + sd Z) = sd phi(m / sd) + m Phi(m / sd) is convex and increases in m,
and so are its means. A convex function of one variable goes into a linear program as the largest of some
lines.

The lines are chords: between the points where they meet they lie above r, so a plan that keeps to them
keeps to r; the last one leaves the last point with the slope that r never exceeds, the mean of the hits.
The points are placed by the sandwich rule: split where the triangle between the chord and the tangents at
its ends is highest, which bounds what a chord adds; the bound falls with the square of the number of points
(G. Rote, The convergence rate of the sandwich algorithm for approximating convex functions, 1992).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]

_DENSITY_AT_0: Final = 1.0 / math.sqrt(2.0 * math.pi)
_LEAST_SD_GPUS: Final = 1e-3
DEFAULT_POINTS: Final = 10
MOST_BUDGETS: Final = 4.0
"""Nobody accepts so many budgets in one cell, whatever the rounds of a plan give the lines."""
_HALVINGS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class RiskLines:
    """For each cell the largest of some lines, at least 0: expected jobs slowed by x GPUs lent ahead.

    Attributes:
        slope: (cells, lines) jobs per GPU, not decreasing along a row; a line may stand there twice.
        intercept: (cells, lines) jobs at x = 0, at most 0.
        error_jobs: (cells,) by how much the lines may exceed the curve they stand for, up to the reach
            they were made for.

    Raises:
        ValueError: if shapes differ, or a slope is negative or not finite.
    """

    slope: FloatArray
    intercept: FloatArray
    error_jobs: FloatArray

    def __post_init__(self) -> None:
        if self.slope.ndim != 2 or self.slope.shape != self.intercept.shape:
            raise ValueError(f"slopes {self.slope.shape} and intercepts {self.intercept.shape} differ")
        if self.error_jobs.shape != self.slope.shape[:1]:
            raise ValueError(f"{self.error_jobs.shape} errors for {self.slope.shape[0]} cells")
        if not (np.isfinite(self.slope).all() and np.isfinite(self.intercept).all()):
            raise ValueError("a line is not finite")
        if (self.slope < 0.0).any():
            raise ValueError("a line falls: lending more cannot slow fewer jobs")

    @property
    def num_cells(self) -> int:
        """Cells of the grid."""
        return int(self.slope.shape[0])

    def at(self, lent_gpus: FloatArray) -> FloatArray:
        """Jobs expected to be slowed in each cell.

        Args:
            lent_gpus: (..., cells) what the guests add to the need.

        Returns:
            (..., cells), at least 0.
        """
        lines = self.slope * np.asarray(lent_gpus)[..., None] + self.intercept
        return np.asarray(np.maximum(lines.max(axis=-1), 0.0))

    def shifted(self, lent_gpus: FloatArray) -> "RiskLines":
        """The same risk, counted on from a state in which so many GPUs are lent already.

        Args:
            lent_gpus: (cells,) lent already. What they risk is not part of the result.
        """
        base = self.at(lent_gpus)
        intercept = self.slope * lent_gpus[:, None] + self.intercept - base[:, None]
        return RiskLines(self.slope, intercept, self.error_jobs)

    def stretched(self, factor: float) -> "RiskLines":
        """The same lines, for guests taken to hold `factor` times as much as they do: a margin."""
        return RiskLines(self.slope * factor, self.intercept, self.error_jobs)


def no_risk(num_cells: int) -> RiskLines:
    """Lines of a cluster in which nothing can be missing."""
    return RiskLines(np.zeros((num_cells, 1)), np.zeros((num_cells, 1)), np.zeros(num_cells))


@dataclass(frozen=True, slots=True, eq=False)
class RiskCurve:
    """r(x) and its slope, cell by cell, exactly.

    Attributes:
        short_gpus: (scenarios, cells) need - capacity before anything is lent.
        hit: (scenarios or 1, cells) jobs slowed per GPU missing.
        sd_gpus: (cells,) or (scenarios, cells) spread of the need, above 0.
    """

    short_gpus: FloatArray
    hit: FloatArray
    sd_gpus: FloatArray

    def values_and_slopes(self, lent_gpus: FloatArray) -> tuple[FloatArray, FloatArray]:
        """f(x) and f'(x) for one x per cell.

        Args:
            lent_gpus: (cells,).

        Returns:
            (cells,) jobs and (cells,) jobs per GPU. f(0) is not taken off.
        """
        short = self.short_gpus + lent_gpus
        z = short / self.sd_gpus
        below = ndtr(z)
        missing = self.sd_gpus * (np.exp(-0.5 * z * z) * _DENSITY_AT_0) + short * below
        return (self.hit * missing).mean(axis=0), (self.hit * below).mean(axis=0)


def risk_lines(
    need_gpus: FloatArray,
    hit: FloatArray,
    sd_gpus: FloatArray,
    capacity_gpus: float,
    reach_gpus: FloatArray | float,
    points: int = DEFAULT_POINTS,
    most_jobs: float = math.inf,
) -> RiskLines:
    """Chords of r(x) for 0 <= x <= reach, and one that holds beyond.

    Args:
        need_gpus: (scenarios, cells) expected need before anything more is lent.
        hit: (scenarios, cells) jobs slowed per GPU missing; scenarios may be 1.
        sd_gpus: (cells,) or (scenarios, cells) spread of the need about it.
        capacity_gpus: GPUs of the cluster.
        reach_gpus: (cells,) or one number: the most that can be lent.
        points: points per cell between which chords are drawn, at least 2.
        most_jobs: nobody accepts more risk in one cell. The points are put where r is at most that: else
            all of them go to the bend far up, and at a small budget the chords exceed r by many budgets.

    Returns:
        Lines with r(0) = 0 and, for each cell, a bound of what they exceed r by.

    Raises:
        ValueError: if there are fewer than two points, or shapes or signs do not fit.
    """
    if points < 2:
        raise ValueError(f"{points} points make no chord")
    if (hit < 0.0).any():
        raise ValueError("a missing GPU cannot slow fewer than no jobs")
    cells = need_gpus.shape[1]
    curve = RiskCurve(need_gpus - capacity_gpus, hit, np.maximum(sd_gpus, _LEAST_SD_GPUS))
    reach = np.broadcast_to(np.asarray(reach_gpus, dtype=float), (cells,))
    reach = _reach_within(curve, np.maximum(reach, 1.0), most_jobs)
    places, values, slopes = _sandwich(curve, reach, points)
    values = values - values[:, :1]
    rise = np.maximum(np.diff(values, axis=1), 0.0) / np.diff(places, axis=1)
    last = np.broadcast_to(hit, (need_gpus.shape[0], cells)).mean(axis=0)
    # rounding may lower a slope against the one before by the last digit
    slope = np.maximum.accumulate(np.hstack([rise, last[:, None]]), axis=1)
    intercept = values - slope * places
    return RiskLines(slope, intercept, _gaps(places, values, slopes).max(axis=1))


def _reach_within(curve: RiskCurve, reach_gpus: FloatArray, most_jobs: float) -> FloatArray:
    """(cells,) the reach, or less where r would exceed so many jobs: just beyond where it does."""
    low, high = np.zeros_like(reach_gpus), reach_gpus
    if not math.isfinite(most_jobs):
        return high
    at_most = curve.values_and_slopes(low)[0] + most_jobs
    exceeds = curve.values_and_slopes(high)[0] > at_most
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        exceeds_there = curve.values_and_slopes(middle)[0] > at_most
        low = np.where(exceeds_there, low, middle)
        high = np.where(exceeds & exceeds_there, middle, high)
    return np.maximum(high, 1.0)


def _sandwich(
    curve: RiskCurve, reach_gpus: FloatArray, points: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points of each cell in order, with values and slopes there: (cells, points) each."""
    ends = (np.zeros_like(reach_gpus), reach_gpus)
    places = np.stack(ends, axis=1)
    found = [curve.values_and_slopes(end) for end in ends]
    values, slopes = (np.stack([one[part] for one in found], axis=1) for part in (0, 1))
    rows = np.arange(reach_gpus.size)
    for _ in range(points - 2):
        worst = _gaps(places, values, slopes).argmax(axis=1)
        between = _meeting_places(places, values, slopes)[rows, worst]
        value, slope = curve.values_and_slopes(between)
        places = np.hstack([places, between[:, None]])
        order = np.argsort(places, axis=1, kind="stable")
        places = np.take_along_axis(places, order, axis=1)
        values = np.take_along_axis(np.hstack([values, value[:, None]]), order, axis=1)
        slopes = np.take_along_axis(np.hstack([slopes, slope[:, None]]), order, axis=1)
    return places, values, slopes


def _meeting_places(places: FloatArray, values: FloatArray, slopes: FloatArray) -> FloatArray:
    """(cells, intervals) where the tangents at both ends of an interval meet, kept off its very ends."""
    low, high = places[:, :-1], places[:, 1:]
    turn = slopes[:, 1:] - slopes[:, :-1]
    rest = values[:, :-1] - values[:, 1:] + slopes[:, 1:] * (high - low)
    area = turn * (high - low)  # of all but nothing it is nothing
    share = np.where(area > 0.0, rest / np.where(area > 0.0, area, 1.0), 0.5)
    return np.asarray(low + np.clip(share, 0.05, 0.95) * (high - low))


def _gaps(places: FloatArray, values: FloatArray, slopes: FloatArray) -> FloatArray:
    """(cells, intervals) height of the triangle between the chord and the tangents at its ends.

    With chord slope c and end slopes a <= c <= b it is length x (c - a)(b - c) / (b - a).
    """
    length = np.diff(places, axis=1)
    chord = np.diff(values, axis=1) / length
    turn = slopes[:, 1:] - slopes[:, :-1]
    height = np.maximum(chord - slopes[:, :-1], 0.0) * np.maximum(slopes[:, 1:] - chord, 0.0)
    return np.asarray(np.where(turn > 0.0, length * height / np.where(turn > 0.0, turn, 1.0), 0.0))
