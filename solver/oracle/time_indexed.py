"""The oracle of the SIA paper (SoCC 2023, figure 5): a time-indexed MILP, solved by HiGHS."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers import highs_pb2
from scipy import sparse

from solver.oracle.instance import Grid, Instance, IntArray
from solver.oracle.question import Question, prepare
from solver.oracle.result import EndedBy, Limits, OracleResult, no_schedule

FloatArray = NDArray[np.float64]

_ACCURACY: Final = 1e-6
_HALF: Final = 0.5


def solve_time_indexed(
    instance: Instance,
    step_s: float,
    limits: Limits | None = None,
    *,
    fairness_weight: float = 0.0,
) -> OracleResult:
    """Least total waiting, plus optionally unfairness, such that every job starts by its latest start.

        min   sum_j sum_t (t - s_j) X[j, t]  +  beta x sum_t alpha[t]
        s.t.  sum_t X[j, t] = 1              s_j <= t <= m_j: each job starts once, never after m_j
              sum_i U[i, t] <= C             GPUs of the cluster
              U[i, t] <= c_i x alpha[t]      only where beta > 0: largest use / quota of any pool
              U[i, t] = U[i, t-1] + starts of i at t - ends of i at t

    The paper adds the running jobs Y[j, t] up anew at each instant; written with what changes from one
    instant to the next the same model has three entries per variable in place of one per step of a life.
    Without fairness U is not split by pool.

    Args:
        instance: what is asked.
        step_s: all submits and lengths are whole numbers of this, seconds; so will the starts be.
        limits: when to stop; `Limits()` unless given.
        fairness_weight: beta, seconds of waiting that a second of a pool's use at its quota costs.

    Returns:
        The best schedule found and a proven bound; a valid empty result with the reason where there is
        nothing to start or no schedule.

    Raises:
        ValueError: if a submit or a length is no whole number of steps, or the weight is negative.
    """
    limits = limits or Limits()
    question = prepare(instance, step_s, limits, fairness_weight)
    if isinstance(question, OracleResult):
        return question
    built = _build(question)
    least = built.leave_out_what_is_worse(question, limits) if question.first is not None else 0.0
    result = mathopt.solve(built.model(), mathopt.SolverType.HIGHS, params=_parameters(limits))
    reason = result.termination.reason
    if reason in {mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED}:
        if question.first is not None:  # no start is left that would make a better schedule
            return question.answer(None, math.inf, EndedBy.PROOF)
        return no_schedule("not every job can start by its latest start")
    starts = built.starts(result.variable_values()) if result.has_primal_feasible_solution() else None
    ended_by = EndedBy.WORK_LIMIT
    if reason is mathopt.TerminationReason.OPTIMAL:
        ended_by = EndedBy.PROOF
    elif result.termination.limit is mathopt.Limit.TIME:
        ended_by = EndedBy.WALL_LIMIT
    bound = max(least, result.termination.objective_bounds.dual_bound)
    if fairness_weight == 0.0 and np.isfinite(bound):
        bound = np.ceil(bound - _ACCURACY)  # starts are whole steps, so is the sum of waits
    return question.answer(starts, float(bound), ended_by)


@dataclass
class _Built:
    """The model, and what its first columns mean.

    Attributes:
        matrix: rows x columns; columns are X, then U pool by pool (or of all pools together), then alpha.
        lower, upper: of the rows.
        cost, most: cost and upper bound of the columns, which are all at least 0.
        job: (columns X,) whose start it is.
        step: (columns X,) at which step.
    """

    matrix: sparse.csr_array
    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    most: FloatArray
    job: IntArray
    step: IntArray

    def model(self, *, is_relaxed: bool = False) -> mathopt.Model:
        """As a MathOpt model; built as one message, which is many times faster than by calls."""
        rows, size = self.matrix.shape
        whole = 0 if is_relaxed else self.job.size
        proto = model_pb2.ModelProto()
        proto.variables.ids.extend(range(size))
        proto.variables.lower_bounds.extend([0.0] * size)
        proto.variables.upper_bounds.extend(self.most.tolist())
        proto.variables.integers.extend([k < whole for k in range(size)])
        priced = np.flatnonzero(self.cost)
        proto.objective.linear_coefficients.ids.extend(priced.tolist())
        proto.objective.linear_coefficients.values.extend(self.cost[priced].tolist())
        proto.linear_constraints.ids.extend(range(rows))
        proto.linear_constraints.lower_bounds.extend(self.lower.tolist())
        proto.linear_constraints.upper_bounds.extend(self.upper.tolist())
        row_of = np.repeat(np.arange(rows), np.diff(self.matrix.indptr))
        proto.linear_constraint_matrix.row_ids.extend(row_of.tolist())
        proto.linear_constraint_matrix.column_ids.extend(self.matrix.indices.tolist())
        proto.linear_constraint_matrix.coefficients.extend(self.matrix.data.tolist())
        return mathopt.Model.from_model_proto(proto)

    def leave_out_what_is_worse(self, question: Question, limits: Limits) -> float:
        """Solve the relaxation, and leave out the starts that no better schedule can have.

        A column whose reduced cost is above the distance between the first schedule and the relaxation
        would alone make a schedule worse than the first one.

        Returns:
            A lower bound of the objective, steps: that of the relaxation; 0 if it was not solved in time.
        """
        model = self.model(is_relaxed=True)
        parameters = _parameters(limits)
        parameters.lp_algorithm = mathopt.LPAlgorithm.BARRIER
        result = mathopt.solve(model, mathopt.SolverType.HIGHS, params=parameters)
        if result.termination.reason is not mathopt.TerminationReason.OPTIMAL:
            return 0.0
        bound = float(result.termination.objective_bounds.dual_bound)
        costs = result.reduced_costs()
        reduced = np.array([costs[model.get_variable(k)] for k in range(self.job.size)])
        self.most[: self.job.size][reduced > question.first_objective - bound + _ACCURACY] = 0.0
        return bound - _ACCURACY

    def starts(self, values: Mapping[mathopt.Variable, float]) -> IntArray:
        """(jobs,) steps."""
        by_id = {variable.id: value for variable, value in values.items()}
        chosen = np.array([by_id[k] for k in range(self.job.size)]) > _HALF
        starts = np.empty(int(self.job[-1]) + 1, dtype=np.int64)
        starts[self.job[chosen]] = self.step[chosen]
        return starts


def _parameters(limits: Limits) -> mathopt.SolveParameters:
    return mathopt.SolveParameters(
        time_limit=timedelta(seconds=limits.wall_s / 2.0),  # one half for the relaxation, one for the rest
        node_limit=limits.nodes,
        relative_gap_tolerance=0.0,
        absolute_gap_tolerance=0.0,
        highs=highs_pb2.HighsOptionsProto(int_options={"threads": 1, "random_seed": limits.seed}),
    )


def _build(question: Question) -> _Built:
    grid, weight = question.grid, question.fairness_weight
    capacity_gpus = float(question.instance.capacity_gpus)
    count = grid.latest - grid.submit + 1
    job = np.repeat(np.arange(count.size), count)
    step = np.arange(job.size) - (np.cumsum(count) - count)[job] + grid.submit[job]
    quotas = np.array(list(question.instance.quotas.values()), dtype=float)
    group = question.pool_rank if weight else np.zeros_like(grid.submit)
    groups = quotas.size if weight else 1
    use = _use_rows(grid, job, step, group, groups)
    steps = use.shape[0] // groups
    once = sparse.csr_array((np.ones(job.size), (job, np.arange(job.size))), shape=(count.size, job.size))
    blocks = [[once, None], [use, _differences(groups, steps)]]
    equal = np.concatenate([np.ones(count.size), np.zeros(use.shape[0])])
    lower, upper = equal, equal
    if weight:
        each = sparse.eye_array(steps)
        share = sparse.kron(-quotas[:, None], each)
        blocks = [[*row, None] for row in blocks]
        blocks += [[None, sparse.kron(np.ones((1, groups)), each), None]]
        blocks += [[None, sparse.eye_array(groups * steps), share]]
        lower = np.concatenate([equal, np.full(steps + groups * steps, -math.inf)])
        upper = np.concatenate([equal, np.full(steps, capacity_gpus), np.zeros(groups * steps)])
    alphas = steps if weight else 0
    cost = [step - grid.submit[job], np.zeros(groups * steps), np.full(alphas, weight)]
    most = [np.ones(job.size), np.full(groups * steps, capacity_gpus), np.full(alphas, math.inf)]
    matrix = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    matrix.sort_indices()
    return _Built(matrix, lower, upper, np.concatenate(cost), np.concatenate(most), job, step)


def _use_rows(grid: Grid, job: IntArray, step: IntArray, group: IntArray, groups: int) -> sparse.csr_array:
    """-width where a start takes GPUs, +width where its end gives them back: (groups x steps, columns X)."""
    origin = int(grid.submit.min())
    steps = int((grid.latest + grid.length).max()) - origin + 1
    begins = group[job] * steps + (step - origin)
    columns = np.arange(job.size)
    width = grid.width[job].astype(float)
    entries = np.concatenate([-width, width])
    places = (np.concatenate([begins, begins + grid.length[job]]), np.tile(columns, 2))
    rows = sparse.csr_array((entries, places), shape=(groups * steps, job.size))
    rows.eliminate_zeros()  # a job of no length takes nothing
    return rows


def _differences(groups: int, steps: int) -> sparse.csr_array:
    """U[t] - U[t - 1] of each group."""
    one = sparse.eye_array(steps) - sparse.eye_array(steps, k=-1)
    return sparse.csr_array(sparse.kron(sparse.eye_array(groups), one))
