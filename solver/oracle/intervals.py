"""The oracle as CP-SAT intervals: one per job, and one cumulative over all GPUs."""

import numpy as np
from ortools.sat.python import cp_model

from solver.oracle.instance import Instance
from solver.oracle.question import Question, prepare
from solver.oracle.result import EndedBy, Limits, OracleResult, no_schedule


def solve_intervals(instance: Instance, step_s: float, limits: Limits | None = None) -> OracleResult:
    """Least total waiting such that every job starts by its latest start.

    One interval of fixed length per job with a start in [submit, latest], all of them in one cumulative of
    the cluster's GPUs; the sum of (start - submit) is minimised. A schedule found by search is the hint.

    Args:
        instance: what is asked.
        step_s: all submits and lengths are whole numbers of this, seconds; so will the starts be.
        limits: when to stop; `Limits()` unless given.

    Returns:
        The best schedule found and a proven bound; a valid empty result with the reason where there is
        nothing to start or no schedule.

    Raises:
        ValueError: if a submit or a length is no whole number of steps.
    """
    limits = limits or Limits()
    question = prepare(instance, step_s, limits)
    if isinstance(question, OracleResult):
        return question
    model, variables = _model(question)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = limits.work
    solver.parameters.max_time_in_seconds = limits.wall_s
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return no_schedule("not every job can start by its latest start")
    starts = None
    if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        starts = np.array([solver.value(variable) for variable in variables], dtype=np.int64)
    work_done = solver.response_proto.deterministic_time >= limits.work
    ended_by = EndedBy.WORK_LIMIT if work_done else EndedBy.WALL_LIMIT
    if status == cp_model.OPTIMAL:
        ended_by = EndedBy.PROOF
    return question.answer(starts, solver.best_objective_bound, ended_by)


def _model(question: Question) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    grid, first = question.grid, question.first
    model = cp_model.CpModel()
    starts: list[cp_model.IntVar] = []
    intervals: list[cp_model.IntervalVar] = []
    ranges = zip(grid.submit.tolist(), grid.latest.tolist(), grid.length.tolist(), strict=True)
    for earliest, latest, length in ranges:
        start = model.new_int_var(earliest, latest, "")
        starts.append(start)
        intervals.append(model.new_fixed_size_interval_var(start, length, ""))
    model.add_cumulative(intervals, grid.width.tolist(), question.instance.capacity_gpus)
    model.minimize(sum(starts) - int(grid.submit.sum()))
    for start, hint in zip(starts, [] if first is None else first.tolist(), strict=False):
        model.add_hint(start, hint)
    return model, starts
