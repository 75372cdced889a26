"""The lending problem as rows and columns of a mixed-integer program.

Columns: counts of the classes, then rides (0 or 1), then per cell GPUs lent ahead x and jobs slowed r, then
the same for sending back (z, q), level by level, then utilities of pools. Jobs slowed are counted in units of
the budget and value in units of the dearest job, so that coefficients stay near 1: unscaled, budgets of a
hundredth of a job and values of thousands kept the solver from its own tolerances.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.lending.curves import FloatArray, RiskLines
from solver.lending.problem import BoolArray, IntArray, LendingProblem

_LEAST_GPUS: Final = 1e-6
"""A job that adds less than this to a cell adds nothing to it."""
_LEAST_JOBS: Final = 1e-9
"""Fewer jobs slowed than this are none: units must not come out as small as the tail of a normal."""
_LEAST_COST: Final = 1e-9
"""Sending back costs nothing if all of it costs less than this share of the dearest job."""
_LEAST_SHARE: Final = 1e-7
"""A line that never rises above this share of its unit is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """maximise cost . v subject to row_low <= A v <= row_high, low <= v <= high, some v integer.

    Attributes:
        cost, low, high: (columns,).
        is_integer: (columns,); the first `num_chosen` columns are the choice: counts, then rides.
        num_chosen: how many.
        rows, columns, entries: nonzeros of A, by row and then by column.
        row_low, row_high: (rows,).
        value_unit: objective in the problem's unit per unit of `cost`.
    """

    cost: FloatArray
    low: FloatArray
    high: FloatArray
    is_integer: BoolArray
    num_chosen: int
    rows: IntArray
    columns: IntArray
    entries: FloatArray
    row_low: FloatArray
    row_high: FloatArray
    value_unit: float


class _Rows:
    """Columns and rows as they are added."""

    def __init__(self, problem: LendingProblem, most: IntArray, value_unit: float) -> None:
        self._cost = [problem.value / value_unit]
        self._low = [np.zeros(problem.num_classes + problem.num_rides)]
        self._high = [most.astype(float)]
        if problem.rides is not None:
            worth = problem.rides.value - problem.price * problem.rides.charge_jobs
            self._cost.append(worth / value_unit)
            self._high.append(problem.most_rides().astype(float))
        self._num_columns = self._num_chosen = problem.num_classes + problem.num_rides
        self._value_unit = value_unit
        self._rows: list[IntArray] = []
        self._columns: list[IntArray] = []
        self._entries: list[FloatArray] = []
        self._row_low: list[float] = []
        self._row_high: list[float] = []

    def column(self, cost: float, low: float, high: float) -> int:
        """A continuous column; its number."""
        self._cost.append(np.array([cost]))
        self._low.append(np.array([low]))
        self._high.append(np.array([high]))
        self._num_columns += 1
        return self._num_columns - 1

    def row(self, columns: IntArray, entries: FloatArray, low: float, high: float) -> None:
        """One row; columns in increasing order."""
        self._rows.append(np.full(columns.size, len(self._row_low), dtype=np.int64))
        self._columns.append(columns)
        self._entries.append(entries)
        self._row_low.append(low)
        self._row_high.append(high)

    def done(self) -> Program:
        columns = self._num_columns
        is_integer = np.arange(columns) < self._num_chosen
        return Program(
            cost=np.concatenate(self._cost),
            low=np.concatenate(self._low),
            high=np.concatenate(self._high),
            is_integer=is_integer,
            num_chosen=self._num_chosen,
            rows=np.concatenate(self._rows),
            columns=np.concatenate(self._columns),
            entries=np.concatenate(self._entries),
            row_low=np.array(self._row_low),
            row_high=np.array(self._row_high),
            value_unit=self._value_unit,
        )


def program_of(problem: LendingProblem) -> Program:
    """Rows and columns of a problem."""
    most = problem.most()
    value_unit = problem.value_unit
    rows = _Rows(problem, most, value_unit)
    rows.row(np.arange(problem.num_classes), problem.width_gpus.astype(float), -np.inf, problem.idle_gpus)
    _add_risk(rows, problem, most, value_unit)
    _add_send_backs(rows, problem, most, value_unit)
    _add_utility(rows, problem, value_unit)
    if problem.placeability is not None:
        pairs = zip(problem.placeability.units, problem.placeability.available.tolist(), strict=True)
        for units, available in pairs:
            needed = np.flatnonzero(units)
            rows.row(needed, units[needed], -np.inf, available)
    _add_rides(rows, problem)
    return rows.done()


def reach_gpus(problem: LendingProblem, most: IntArray) -> FloatArray:
    """(cells,) no choice lends more ahead than this: by counts, and by idle GPUs."""
    by_count = most @ problem.alive_gpus
    per_idle = np.where(most[:, None] > 0, problem.alive_gpus / problem.width_gpus[:, None], 0.0)
    return np.asarray(np.minimum(by_count, problem.idle_gpus * per_idle.max(axis=0, initial=0.0)))


def _add_risk(rows: _Rows, problem: LendingProblem, most: IntArray, value_unit: float) -> None:
    """Jobs slowed in each cell, and the row of the budget, on which rides are charged too."""
    if problem.budget_jobs <= 0.0:
        return
    bound = np.where(problem.is_requeueable, 0, most)
    at_most = float(problem.risk.at(reach_gpus(problem, bound)).sum())
    charges = np.zeros(0) if problem.rides is None else problem.rides.charge_jobs * problem.most_rides()
    riders = np.flatnonzero(charges)
    slowed, unit = np.zeros(0, dtype=np.int64), problem.budget_jobs
    if at_most > _LEAST_JOBS:
        unit = max(min(problem.budget_jobs, at_most), _LEAST_JOBS)
        alive = np.where(problem.is_requeueable[:, None], 0.0, problem.alive_gpus)
        cost = -problem.price * unit / value_unit
        slowed = _add_curves(rows, problem.risk, alive, bound, (unit, cost))
    columns = np.concatenate([problem.num_classes + riders, slowed])
    if at_most + float(charges.sum()) > problem.budget_jobs and columns.size:
        # a tiny risk of the lines is no unit for the charges
        of_row = problem.budget_jobs if riders.size else unit
        entries = np.concatenate([charges[riders] / of_row, np.full(slowed.size, unit / of_row)])
        rows.row(columns, entries, -np.inf, problem.budget_jobs / of_row)


def _add_rides(rows: _Rows, problem: LendingProblem) -> None:
    """Who rides does not start, and of each group ride only so many."""
    if problem.rides is None:
        return
    open_ones = problem.most_rides() > 0
    for one in np.unique(problem.rides.of_class[open_ones]).tolist():
        own = problem.num_classes + np.flatnonzero((problem.rides.of_class == one) & open_ones)
        rows.row(np.append(one, own), np.ones(own.size + 1), -np.inf, float(problem.count[one]))
    for member, most in zip(problem.rides.member > 0.0, problem.rides.most.tolist(), strict=True):
        columns = problem.num_classes + np.flatnonzero(member & open_ones)
        if columns.size > most:
            rows.row(columns, np.ones(columns.size), -np.inf, most)


def _add_send_backs(rows: _Rows, problem: LendingProblem, most: IntArray, value_unit: float) -> None:
    for factor, lines, holds in _priced_levels(problem, most):
        bound = np.where(holds, most, 0)
        price = problem.send_back_price * factor
        unit = float(lines.at(reach_gpus(problem, bound)).sum())
        if price * unit > _LEAST_COST * value_unit:
            alive = np.where(holds[:, None], problem.alive_gpus, 0.0)
            _add_curves(rows, lines, alive, bound, (unit, -price * unit / value_unit))


def _priced_levels(problem: LendingProblem, most: IntArray) -> list[tuple[float, RiskLines, BoolArray]]:
    """Factor, lines and classes of each level; levels of the same lines and starts are one."""
    if problem.send_back is None or problem.send_back_price == 0.0:
        return []
    found: list[tuple[float, RiskLines, BoolArray]] = []
    levels = zip(problem.send_back.factors.tolist(), problem.send_back.lines, problem.holds(), strict=True)
    for factor, lines, holds in levels:
        if found and found[-1][1] is lines and not ((found[-1][2] != holds) & (most > 0)).any():
            found[-1] = (found[-1][0] + factor, lines, holds)
        else:
            found.append((factor, lines, holds))
    return found


def _add_curves(
    rows: _Rows, lines: RiskLines, alive_gpus: FloatArray, most: IntArray, unit_and_cost: tuple[float, float]
) -> IntArray:
    """Columns x_k and r_k with r_k >= lines in x_k; those of r, in units."""
    unit, cost = unit_and_cost
    reach = most @ alive_gpus
    found: list[int] = []
    for cell in range(lines.num_cells):
        slopes, intercepts = lines.slope[cell] / unit, lines.intercept[cell] / unit
        matter = slopes * reach[cell] + intercepts > _LEAST_SHARE
        matter[1:] &= np.diff(slopes) > 0.0
        members = np.flatnonzero((alive_gpus[:, cell] > _LEAST_GPUS) & (most > 0))
        if not matter.any() or not members.size:
            continue
        lent = rows.column(0.0, 0.0, reach[cell])
        slowed = rows.column(cost, 0.0, float((slopes * reach[cell] + intercepts).max()))
        found.append(slowed)
        rows.row(np.append(members, lent), np.append(alive_gpus[members, cell], -1.0), -np.inf, 0.0)
        for slope, intercept in zip(slopes[matter], intercepts[matter], strict=True):
            rows.row(np.array([lent, slowed]), np.array([-slope, 1.0]), float(intercept), np.inf)
    return np.array(found, dtype=np.int64)


def _add_utility(rows: _Rows, problem: LendingProblem, value_unit: float) -> None:
    if problem.utility is None:
        return
    slopes, intercepts = problem.utility.slope, problem.utility.intercept
    least = problem.utility.at(np.zeros(slopes.shape[0])) / value_unit
    most = problem.utility.at(np.full(slopes.shape[0], float(problem.idle_gpus))) / value_unit
    for pool in range(slopes.shape[0]):
        gain = rows.column(1.0, least[pool], most[pool])
        members = np.flatnonzero(problem.pool == pool)
        width = problem.width_gpus[members].astype(float)
        for slope, intercept in zip(slopes[pool], intercepts[pool], strict=True):
            entries = np.append(-slope / value_unit * width, 1.0)
            rows.row(np.append(members, gain), entries, -np.inf, float(intercept) / value_unit)
