"""The lending problem with HiGHS, through MathOpt.

HiGHS is asked to stop after so many nodes, which is the same everywhere; its time limit is a kill switch.
It may overrun that, and MathOpt's interrupter has no effect on it (OR-Tools 9.15: interrupted after one
second, it solved on to the end), so by default it runs in a process of its own (`solver.lending.child`),
which is ended when it is half a second late. Where that is, or where the process does not start or dies, the
caller goes on with the greedy plan.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from ortools.math_opt import model_pb2

from solver.lending.child import ChildProcess, Reply, Request, run_request
from solver.lending.curves import FloatArray
from solver.lending.problem import IntArray, LendingProblem
from solver.lending.program import Program, program_of
from solver.lending.solve import Answer, Limits

LATE_S = 0.5
"""How late a solver may be before it is ended."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Optimum of the linear relaxation; `values` is None if it was not found in time, or something failed."""

    values: FloatArray | None
    bound: float
    work: float
    wall_s: float
    is_killed: bool = False
    is_cut: bool = False
    failure: str = ""


class HighsSolver:
    """Solves lending problems with HiGHS.

    Args:
        limits: when it stops.
        is_isolated: whether it runs in a process of its own, which can be ended. Without it a replay
            saves that process, and the time limit is only as hard as HiGHS takes it.
    """

    def __init__(self, limits: Limits | None = None, *, is_isolated: bool = True) -> None:
        self._limits = limits or Limits()
        self._child = ChildProcess() if is_isolated else None

    def close(self) -> None:
        """End the process, if there is one; the next solve would start another."""
        if self._child is not None:
            self._child.close()

    @property
    def limits(self) -> Limits:
        """When it stops."""
        return self._limits

    def solve(
        self, problem: LendingProblem, hint: IntArray | None = None, wall_s: float | None = None
    ) -> Answer:
        """The best choice found within the limits."""
        program = program_of(problem)
        limit_s = self._limits.wall_s if wall_s is None else wall_s
        reply = self._ask(program, () if hint is None else tuple(hint.tolist()), limit_s)
        if reply is None:
            return Answer(None, is_cut=True, is_killed=True, wall_s=limit_s + LATE_S)
        counts = None
        if reply.values:
            counts = np.minimum(np.rint(reply.values).astype(np.int64), problem.bounds())
        return Answer(
            counts=counts,
            bound=reply.bound * program.value_unit,
            is_proven=reply.is_optimal,
            is_cut=reply.is_cut,
            work=float(reply.iterations),
            wall_s=reply.wall_s,
            failure=reply.failure,
        )

    def relax(self, problem: LendingProblem, wall_s: float | None = None) -> Relaxed:
        """The linear relaxation: counts and rides need not be whole."""
        program = program_of(problem)
        limit_s = self._limits.wall_s if wall_s is None else wall_s
        reply = self._ask(replace(program, is_integer=np.zeros_like(program.is_integer)), (), limit_s)
        if reply is None or not reply.is_optimal:
            if reply is None:
                return Relaxed(None, math.inf, 0.0, limit_s + LATE_S, is_killed=True, is_cut=True)
            is_cut = reply.is_cut or not reply.failure
            return Relaxed(None, math.inf, 0.0, reply.wall_s, is_cut=is_cut, failure=reply.failure)
        values = np.clip(np.array(reply.values), 0.0, problem.bounds())
        return Relaxed(values, reply.bound * program.value_unit, float(reply.iterations), reply.wall_s)

    def _ask(self, program: Program, hint: tuple[int, ...], limit_s: float) -> Reply | None:
        request = Request(
            model=model_proto(program).SerializeToString(),
            num_values=program.num_chosen,
            gap=self._limits.gap,
            nodes=self._limits.nodes,
            seed=self._limits.seed,
            wall_s=limit_s,
            hint=hint,
        )
        if self._child is None:
            return run_request(request)
        return self._child.ask(request, limit_s + LATE_S)


def model_proto(program: Program) -> model_pb2.ModelProto:
    """A program in MathOpt's words. Made from arrays: adding terms one by one takes longer than solving."""
    model = model_pb2.ModelProto()
    columns = range(program.cost.size)
    model.variables.ids.extend(columns)
    model.variables.lower_bounds.extend(program.low.tolist())
    model.variables.upper_bounds.extend(program.high.tolist())
    model.variables.integers.extend(program.is_integer.tolist())
    model.objective.maximize = True
    priced = np.flatnonzero(program.cost)
    model.objective.linear_coefficients.ids.extend(priced.tolist())
    model.objective.linear_coefficients.values.extend(program.cost[priced].tolist())
    model.linear_constraints.ids.extend(range(program.row_low.size))
    model.linear_constraints.lower_bounds.extend(program.row_low.tolist())
    model.linear_constraints.upper_bounds.extend(program.row_high.tolist())
    model.linear_constraint_matrix.row_ids.extend(program.rows.tolist())
    model.linear_constraint_matrix.column_ids.extend(program.columns.tolist())
    model.linear_constraint_matrix.coefficients.extend(program.entries.tolist())
    return model
