"""The time-indexed model of a question as one matrix: a column per job and start (SIA, figure 5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from scipy import sparse

from solver.oracle.cuts import Cut
from solver.oracle.instance import Grid, IntArray
from solver.oracle.question import Question

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Pulses:
    """The model, and what its first columns mean.

    Attributes:
        grid: the jobs.
        matrix: rows x columns; columns are X, then U pool by pool (or of all pools together), then alpha.
        lower, upper: of the rows.
        cost, most: cost and upper bound of the columns, which are all at least 0.
        job: (columns X,) whose start it is.
        step: (columns X,) at which step.
        cuts: (of them) rows below the matrix.
    """

    grid: Grid
    matrix: sparse.csr_array
    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    most: FloatArray
    job: IntArray
    step: IntArray
    cuts: tuple[Cut, ...] = ()

    @property
    def has_every_job(self) -> bool:
        """Whether each job still has a start."""
        return np.unique(self.job).size == self.grid.submit.size

    def kept(self, keep: NDArray[np.bool_]) -> "Pulses":
        """With some of the columns X only."""
        columns = np.concatenate([keep, np.ones(self.cost.size - keep.size, dtype=bool)])
        return replace(
            self,
            matrix=sparse.csr_array(self.matrix[:, np.flatnonzero(columns)]),
            cost=self.cost[columns],
            most=self.most[columns],
            job=self.job[keep],
            step=self.step[keep],
        )

    def running(self, values: FloatArray) -> FloatArray:
        """(jobs, steps) share of each job that runs at each step, from the first one on."""
        begins = self.step - self.grid.submit.min()
        ends = begins + self.grid.length[self.job]
        change = np.zeros((self.grid.submit.size, int(ends.max()) + 1))
        np.add.at(change, (self.job, begins), values)
        np.add.at(change, (self.job, ends), -values)
        return np.asarray(change.cumsum(axis=1)[:, :-1])

    def cut_rows(self) -> sparse.csr_array:
        """(cuts, columns X) what each column adds to the sum of each cut."""
        begins = self.step - self.grid.submit.min()
        ends = begins + self.grid.length[self.job]
        parts = [
            np.where((begins <= cut.at) & (cut.at < ends), cut.weights[self.job], 0.0) for cut in self.cuts
        ]
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part[None, :]) for part in parts]))

    def starts(self, values: FloatArray) -> IntArray:
        """(jobs,) steps, of a whole solution."""
        starts = np.empty(self.grid.submit.size, dtype=np.int64)
        chosen = values > 0.5
        starts[self.job[chosen]] = self.step[chosen]
        return starts

    def model(self, *, is_relaxed: bool) -> mathopt.Model:
        """As a MathOpt model; built as one message, which is many times faster than by calls."""
        matrix, lower, upper = self.matrix, self.lower, self.upper
        if self.cuts:
            below = self.cut_rows()
            empty = sparse.csr_array((below.shape[0], matrix.shape[1] - below.shape[1]))
            matrix = sparse.csr_array(sparse.vstack([matrix, sparse.hstack([below, empty])]))
            lower = np.concatenate([lower, np.full(len(self.cuts), -math.inf)])
            upper = np.concatenate([upper, [cut.limit for cut in self.cuts]])
        matrix.sort_indices()
        return _message(matrix, lower, upper, self.cost, self.most, 0 if is_relaxed else self.job.size)


def pulses(question: Question) -> Pulses:
    """The model without cuts, with a column for each start that the question allows."""
    grid, fairness = question.grid, question.fairness
    capacity_gpus = float(question.capacity_gpus)
    count = grid.latest - grid.submit + 1
    job = np.repeat(np.arange(count.size), count)
    step = np.arange(job.size) - (np.cumsum(count) - count)[job] + grid.submit[job]
    group = np.zeros_like(grid.submit) if fairness is None else fairness.pool
    groups = 1 if fairness is None else fairness.quotas.size
    use = _use_rows(grid, job, step, group, groups)
    steps = use.shape[0] // groups
    once = sparse.csr_array((np.ones(job.size), (job, np.arange(job.size))), shape=(count.size, job.size))
    blocks: list[Sequence[object]] = [[once, None], [use, _differences(groups, steps)]]
    equal = np.concatenate([np.ones(count.size), np.zeros(use.shape[0])])
    lower, upper = equal, equal
    cost = [step - grid.submit[job], np.zeros(groups * steps)]
    most = [np.ones(job.size), np.full(groups * steps, capacity_gpus)]
    if fairness is not None:
        each = sparse.eye_array(steps)
        blocks = [[*row, None] for row in blocks]
        blocks += [[None, sparse.kron(np.ones((1, groups)), each), None]]
        blocks += [[None, sparse.eye_array(groups * steps), sparse.kron(-fairness.quotas[:, None], each)]]
        lower = np.concatenate([equal, np.full(steps + groups * steps, -math.inf)])
        upper = np.concatenate([equal, np.full(steps, capacity_gpus), np.zeros(groups * steps)])
        cost.append(np.full(steps, fairness.weight))
        most.append(np.full(steps, math.inf))
    matrix = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    return Pulses(grid, matrix, lower, upper, np.concatenate(cost), np.concatenate(most), job, step)


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


def _message(
    matrix: sparse.csr_array,
    lower: FloatArray,
    upper: FloatArray,
    cost: FloatArray,
    most: FloatArray,
    whole: int,
) -> mathopt.Model:
    """The first columns are whole numbers, all are at least 0."""
    rows, size = matrix.shape
    proto = model_pb2.ModelProto()
    proto.variables.ids.extend(range(size))
    proto.variables.lower_bounds.extend([0.0] * size)
    proto.variables.upper_bounds.extend(most.tolist())
    proto.variables.integers.extend([k < whole for k in range(size)])
    priced = np.flatnonzero(cost)
    proto.objective.linear_coefficients.ids.extend(priced.tolist())
    proto.objective.linear_coefficients.values.extend(cost[priced].tolist())
    proto.linear_constraints.ids.extend(range(rows))
    proto.linear_constraints.lower_bounds.extend(lower.tolist())
    proto.linear_constraints.upper_bounds.extend(upper.tolist())
    row_of = np.repeat(np.arange(rows), np.diff(matrix.indptr))
    proto.linear_constraint_matrix.row_ids.extend(row_of.tolist())
    proto.linear_constraint_matrix.column_ids.extend(matrix.indices.tolist())
    proto.linear_constraint_matrix.coefficients.extend(matrix.data.tolist())
    return mathopt.Model.from_model_proto(proto)
