"""Events answered from the plan that stands: 4 cells, 0.1 jobs slowed per GPU and cell beyond 2 GPUs."""

from dataclasses import replace

import numpy as np
import pytest
from lending_cases import problem

from solver.lending.curves import RiskLines
from solver.lending.incremental import Arrival, OpenPlan, Refusal
from solver.lending.send_backs import one_level

LONG = np.ones(4)
LINES = RiskLines(np.full((4, 1), 0.1), np.full((4, 1), -0.2), np.zeros(4))


def opened(chosen=2, **changes):
    asked = problem([(1, 5, 1.0, 1e9)], idle_gpus=8, budget_jobs=1.0, risk=LINES)
    asked = replace(asked, alive_gpus=np.ones((1, 4)), **changes)
    return OpenPlan(asked, np.array([chosen]), (("a", "b", "c", "d", "e"),))


def test_what_is_free_under_the_lines_is_free():
    plan = opened(chosen=1)
    assert plan.arrived(Arrival("x", 1, 1.0, LONG)) == (0.0, None)
    assert plan.idle_gpus == 6


def test_a_charge_is_what_the_guest_adds():
    plan = opened()
    verdict = plan.arrived(Arrival("x", 2, 1.0, 2 * LONG))
    assert verdict.starts
    assert verdict.charge_jobs == pytest.approx(0.8)
    assert plan.spent_jobs == pytest.approx(0.8)


def test_what_exceeds_the_budget_is_refused_and_changes_nothing():
    plan = opened()
    verdict = plan.arrived(Arrival("x", 3, 1.0, 3 * LONG))
    assert verdict.refusal is Refusal.OVER_BUDGET
    assert verdict.charge_jobs == pytest.approx(1.2)
    assert (plan.idle_gpus, plan.spent_jobs) == (6, 0.0)


def test_no_idle_gpus():
    assert opened().arrived(Arrival("x", 7, 1.0, 0 * LONG)).refusal is Refusal.NO_IDLE_GPUS


def test_the_price_decides_where_the_budget_would_not():
    plan = opened(price=2.0)
    assert plan.arrived(Arrival("x", 2, 1.0, 2 * LONG)).refusal is Refusal.NOT_WORTH_IT
    assert plan.arrived(Arrival("y", 2, 2.0, 2 * LONG)).starts


def test_a_guest_that_ends_gives_back_its_gpus_and_its_charge():
    plan = opened()
    plan.arrived(Arrival("x", 2, 1.0, 2 * LONG))
    plan.ended("a")
    assert plan.spent_jobs == pytest.approx(0.4)
    plan.ended("x")
    assert (plan.idle_gpus, plan.spent_jobs) == (7, 0.0)
    with pytest.raises(KeyError):
        plan.ended("x")


def test_who_can_be_sent_back_needs_no_budget_but_pays_its_price():
    plan = opened(budget_jobs=0.0, send_back=one_level(LINES), send_back_price=1.0)
    assert plan.arrived(Arrival("x", 1, 1.0, LONG)).refusal is Refusal.OVER_BUDGET
    assert plan.arrived(Arrival("x", 1, 1.0, LONG, is_requeueable=True)).starts
    assert plan.arrived(Arrival("y", 3, 1.0, 3 * LONG, is_requeueable=True)).refusal is Refusal.NOT_WORTH_IT
    plan.ended("x")
    assert plan.idle_gpus == 6


def test_a_lost_node_makes_what_stands_dearer_and_lending_stops():
    plan = opened(chosen=5)
    assert plan.left_jobs == pytest.approx(-0.2)
    plan = opened(chosen=4)
    assert plan.left_jobs == pytest.approx(0.2)
    plan.lost(2, idle_gpus=1)
    assert plan.idle_gpus == 3
    assert plan.left_jobs == pytest.approx(1.0 - 1.6)
    assert plan.arrived(Arrival("x", 1, 9.0, LONG)).refusal is Refusal.OVER_BUDGET
    plan.freed(3)
    assert plan.idle_gpus == 6


def test_the_margin_of_the_plan_holds_for_its_events():
    asked = replace(problem([(1, 5, 1.0, 1e9)], risk=LINES), alive_gpus=np.ones((1, 4)))
    plan = OpenPlan(asked, np.array([4]), margin=1.2)
    assert plan.spent_jobs == pytest.approx(0.96)
    assert plan.arrived(Arrival("x", 1, 1.0, LONG)).refusal is Refusal.OVER_BUDGET


def test_a_guest_does_not_arrive_twice():
    with pytest.raises(ValueError, match="already"):
        opened().arrived(Arrival("a", 1, 1.0, LONG))
