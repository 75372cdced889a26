"""The lending problem with CP-SAT, in integers: a second opinion.

Continuous columns are counted in a millionth of their range, rows are multiplied until rounding their
entries to integers changes nothing that matters, and what it changes all the same the plan's check finds.
CP-SAT keeps its limits, and its measure of work is the same on every machine.
"""

from itertools import pairwise
from typing import Final

import numpy as np
from ortools.sat.python import cp_model

from solver.lending.curves import FloatArray
from solver.lending.problem import IntArray, LendingProblem
from solver.lending.program import Program, program_of
from solver.lending.solve import Answer, Limits

_STEPS: Final = 1e6
"""Integer steps in the range of a continuous column."""
_ACTIVITY: Final = 2.0**46
"""The largest value either side of a row may take."""


class CpSatSolver:
    """Solves lending problems with CP-SAT.

    Args:
        limits: when it stops.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()

    @property
    def limits(self) -> Limits:
        """When it stops."""
        return self._limits

    def solve(
        self, problem: LendingProblem, hint: IntArray | None = None, wall_s: float | None = None
    ) -> Answer:
        """The best choice found within the limits."""
        program = program_of(problem)
        model, counts, unit = _model(program)
        if hint is not None:
            for variable, value in zip(counts, hint.tolist(), strict=True):
                model.add_hint(variable, value)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._limits.seed
        solver.parameters.relative_gap_limit = self._limits.gap
        solver.parameters.max_deterministic_time = self._limits.work
        solver.parameters.max_time_in_seconds = self._limits.wall_s if wall_s is None else wall_s
        status = solver.solve(model)
        work = float(solver.response_proto.deterministic_time)
        is_found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        return Answer(
            counts=np.array([solver.value(one) for one in counts], dtype=np.int64) if is_found else None,
            bound=solver.best_objective_bound * unit if is_found else float("inf"),
            is_proven=status == cp_model.OPTIMAL,
            is_cut=status != cp_model.OPTIMAL and work < self._limits.work,
            work=work,
            wall_s=float(solver.wall_time),
        )


def _model(program: Program) -> tuple[cp_model.CpModel, list[cp_model.IntVar], float]:
    """The model, its counts, and what one unit of its objective is worth."""
    model = cp_model.CpModel()
    widest = np.maximum(np.maximum(np.abs(program.low), np.abs(program.high)), 1e-12)
    scale = np.where(program.is_integer, 1.0, _STEPS / widest)
    low, high = np.floor(program.low * scale), np.ceil(program.high * scale)
    # rows bound these columns already; where all that can start does, rounding may take one beyond its bound
    high = np.where(program.is_integer, high, high + _STEPS)
    columns = [model.new_int_var(int(least), int(most), "") for least, most in zip(low, high, strict=True)]
    starts = np.searchsorted(program.rows, np.arange(program.row_low.size + 1))
    reach = np.maximum(np.abs(low), np.abs(high))
    for row, (begin, end) in enumerate(pairwise(starts.tolist())):
        members = program.columns[begin:end]
        entries = program.entries[begin:end] / scale[members]
        side = np.array([program.row_low[row], program.row_high[row]])
        entries, side = _in_integers(entries, reach[members], side)
        left = cp_model.LinearExpr.weighted_sum(
            [columns[k] for k in members], entries.astype(np.int64).tolist()
        )
        if np.isfinite(side[0]):
            model.add(left >= int(np.floor(side[0])))
        if np.isfinite(side[1]):
            model.add(left <= int(np.ceil(side[1])))
    cost = program.cost / scale
    factor = _ACTIVITY / max(float(np.abs(cost) @ reach), 1e-12)
    weights = np.rint(cost * factor).astype(np.int64)
    model.maximize(cp_model.LinearExpr.weighted_sum(columns, weights.tolist()))
    return model, columns[: program.num_chosen], program.value_unit / factor


def _in_integers(entries: FloatArray, reach: FloatArray, side: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A row multiplied so that neither side exceeds the largest value, entries rounded."""
    finite = np.abs(side[np.isfinite(side)]).max(initial=0.0)
    if (entries == np.rint(entries)).all():
        return entries, side
    factor = _ACTIVITY / max(float(np.abs(entries) @ reach), float(finite), 1e-12)
    return np.rint(entries * factor), side * factor
