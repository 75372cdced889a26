"""What became of plans, added up."""

import numpy as np

from solver.lending.log import PlanLog
from solver.lending.problem import Fallback, LendingPlan, PlanStatus


def plan(status, objective=1.0, bound=1.0, **more) -> LendingPlan:
    return LendingPlan(np.array([2, 1]), status, objective, bound, risk_jobs=0.25, send_backs=0.0, **more)


def test_without_plans_nothing_is_said_of_gaps():
    said = PlanLog().as_report()
    assert (said["plans"], said["starts"]) == (0, 0)
    assert said["proven_pct"] is said["gap_median_pct"] is said["gap_worst_pct"] is None


def test_plans_are_counted_by_what_is_known_of_them():
    log = PlanLog()
    log.add(plan(PlanStatus.OPTIMAL, 10.0, 10.01, rounds=2, work=7.0))
    log.add(plan(PlanStatus.OPTIMAL, 10.0, 10.0, work=1.0, exact_risk_jobs=0.5))
    log.add(plan(PlanStatus.FEASIBLE, 10.0, 11.0, is_cut=True))
    log.add(plan(PlanStatus.FEASIBLE, 10.0, float("inf"), fallback=Fallback.KILLED, is_cut=True))
    log.add(LendingPlan(np.zeros(2, dtype=np.int64), PlanStatus.EMPTY, 0.0, 0.0, 0.0, 0.0, reason="nobody"))
    said = log.as_report()
    assert (said["plans"], said["cut_by_wall_clock"]) == (5, 2)
    assert said["by_status"] == {"optimal": 2, "feasible": 2, "greedy": 0, "empty": 1}
    assert said["by_fallback"] == {
        "greedy-better": 0,
        "greedy-no-answer": 0,
        "killed": 1,
        "trimmed": 0,
        "failed-draws": 0,
    }
    assert said["proven_pct"] == 50.0
    assert np.allclose([said["gap_median_pct"], said["gap_worst_pct"]], [0.1 / 1.001, 10.0 / 1.1])
    assert said["without_bound"] == 1
    assert (said["rounds"], said["solver_work"], said["starts"]) == (5, 8.0, 12)
    assert said["risk_jobs"] == 1.25


def test_the_gap_of_a_plan_worth_nothing_is_no_division_by_nothing():
    """HiGHS leaves 2e-8 between an empty plan and its bound: that is rounding, not 2,000 per cent."""
    assert plan(PlanStatus.OPTIMAL, 0.0, 2e-8).gap == 0.0
    assert plan(PlanStatus.OPTIMAL, -1e-7, 2e-8).gap == 0.0
    assert plan(PlanStatus.FEASIBLE, 0.0, 0.5).gap == 1.0
    assert plan(PlanStatus.FEASIBLE, 1e-4, 0.5).gap < 1.0
    assert np.isclose(plan(PlanStatus.FEASIBLE, -0.5, -0.4).gap, 0.2)
    assert plan(PlanStatus.FEASIBLE, 1.0, float("inf")).gap == float("inf")


def test_what_counts_as_the_same_worth_is_in_units_of_the_dearest_job():
    assert plan(PlanStatus.FEASIBLE, 0.0, 5e-8, value_unit=1e-3).gap == 1.0
    assert plan(PlanStatus.FEASIBLE, 0.0, 5e-4, value_unit=1e3).gap == 0.0
