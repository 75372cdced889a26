"""The oracle of the SIA paper (SoCC 2023, figure 5): a time-indexed MILP, solved by HiGHS."""

import numpy as np
from ortools.math_opt.python import mathopt

from solver.oracle.instance import Instance
from solver.oracle.periods import solve_by_periods
from solver.oracle.question import Found, Question, answer, prepare
from solver.oracle.relaxation import IMPOSSIBLE, parameters, relax
from solver.oracle.result import EndedBy, Limits, OracleResult, Spent


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
    Without fairness U is not split by pool, and periods in which somebody waits are solved one by one
    (`solver.oracle.periods`).

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
    return answer(instance, question, solve_by_periods(question, limits, by_starts))


def by_starts(question: Question, limits: Limits) -> Found:
    """Answer a question by the time-indexed model."""
    relaxed = relax(question, limits)
    question, model = relaxed.question, relaxed.model
    if relaxed.is_closed:
        return Found.best_is_first(question, relaxed.spent)
    left = limits.after(relaxed.spent)
    if not left.wall_s:
        return Found.of(question, None, relaxed.bound, EndedBy.WALL_LIMIT, relaxed.spent)
    result = mathopt.solve(model.model(is_relaxed=False), mathopt.SolverType.HIGHS, params=parameters(left))
    reason = result.termination.reason
    stats = result.solve_stats
    spent = relaxed.spent + Spent(nodes=stats.node_count, wall_s=stats.solve_time.total_seconds())
    if reason in IMPOSSIBLE:
        return Found.best_is_first(question, spent)  # no start is left that would make a better schedule
    starts = None
    if result.has_primal_feasible_solution():
        by_id = {variable.id: value for variable, value in result.variable_values().items()}
        starts = model.starts(np.array([by_id[k] for k in range(model.job.size)]))
    ended_by = EndedBy.WORK_LIMIT
    if reason is mathopt.TerminationReason.OPTIMAL:
        ended_by = EndedBy.PROOF
    elif result.termination.limit is mathopt.Limit.TIME:
        ended_by = EndedBy.WALL_LIMIT
    bound = max(relaxed.bound, question.rounded(result.termination.objective_bounds.dual_bound))
    return Found.of(question, starts, bound, ended_by, spent)
