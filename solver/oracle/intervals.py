"""The oracle as CP-SAT intervals: one per job, and one cumulative over all GPUs."""

import numpy as np
from ortools.sat.python import cp_model

from solver.oracle.instance import Instance
from solver.oracle.periods import solve_by_periods
from solver.oracle.question import Found, Question, answer, prepare
from solver.oracle.relaxation import Relaxed, relax
from solver.oracle.result import EndedBy, Limits, OracleResult, Spent


def solve_intervals(instance: Instance, step_s: float, limits: Limits | None = None) -> OracleResult:
    """Least total waiting such that every job starts by its latest start.

    One interval of fixed length per job with a start in [submit, latest], all of them in one cumulative of
    the cluster's GPUs; the sum of (start - submit) is minimised. Starts that the relaxation of the
    time-indexed model rules out are no part of a start's domain, and what that proves is a constraint.

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
    return answer(instance, question, solve_by_periods(question, limits, by_intervals))


def by_intervals(question: Question, limits: Limits) -> Found:
    """Answer a question by intervals: is there a schedule better than the best one known, and how good?"""
    relaxed = relax(question, limits)
    question = relaxed.question
    if relaxed.is_closed:
        return Found.best_is_first(question, relaxed.spent)
    left = limits.after(relaxed.spent)
    if not left.wall_s:
        return Found.of(question, None, relaxed.bound, EndedBy.WALL_LIMIT, relaxed.spent)
    model, variables = _model(relaxed)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = left.work
    solver.parameters.max_time_in_seconds = left.wall_s
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    status = solver.solve(model)
    work = solver.response_proto.deterministic_time
    spent = relaxed.spent + Spent(work=work, wall_s=solver.wall_time)
    if status == cp_model.INFEASIBLE:
        return Found.best_is_first(question, spent)
    starts = None
    if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        starts = np.array([solver.value(variable) for variable in variables], dtype=np.int64)
    ended_by = EndedBy.WORK_LIMIT if work >= left.work else EndedBy.WALL_LIMIT
    if status == cp_model.OPTIMAL:
        ended_by = EndedBy.PROOF
    bound = max(relaxed.bound, question.rounded(solver.best_objective_bound))
    return Found.of(question, starts, bound, ended_by, spent)


def _model(relaxed: Relaxed) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """Of what is left: starts that a schedule better than the first one may have."""
    question, grid = relaxed.question, relaxed.question.grid
    model = cp_model.CpModel()
    starts: list[cp_model.IntVar] = []
    intervals: list[cp_model.IntervalVar] = []
    ends = np.flatnonzero(np.diff(relaxed.model.job)) + 1
    for steps, length in zip(np.split(relaxed.model.step, ends), grid.length.tolist(), strict=True):
        start = model.new_int_var_from_domain(cp_model.Domain.from_values(steps.tolist()), "")
        starts.append(start)
        intervals.append(model.new_fixed_size_interval_var(start, length, ""))
    model.add_cumulative(intervals, grid.width.tolist(), question.capacity_gpus)
    cost = sum(starts) - int(grid.submit.sum())
    model.add(cost >= round(relaxed.bound))
    if question.first is not None:
        model.add(cost <= int(question.most_cost))
    model.minimize(cost)
    return model, starts
