"""Plans on fresh draws: who fails them loses guests, and the draws start from where the policy stands."""

import numpy as np
import pytest
from support import job

from domain.forecasts import LIFE_EDGES_S
from solver.demand import NoDemand
from solver.lender import Lender
from solver.lender_settings import LenderSettings
from solver.lending.curves import RiskLines
from solver.lending.drawn import passed_draws
from solver.lending.plan import plan_lending
from solver.lending.problem import Fallback, LendingProblem, PlanStatus
from solver.lending.verify import Verified, verify
from solver.policies.base import PolicyContext

BUDGET = 0.25


def problem(*, requeueable=(False, False)) -> LendingProblem:
    """Two classes of three jobs of one GPU; the lines say that nobody is slowed whatever is lent."""
    lines = RiskLines(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1))
    return LendingProblem(
        pool=np.array([0, 1]),
        width_gpus=np.array([1, 1]),
        count=np.array([3, 3]),
        value=np.array([2.0, 1.0]),
        alive_gpus=np.ones((2, 1)),
        is_requeueable=np.array(requeueable),
        idle_gpus=10,
        risk=lines,
        budget_jobs=BUDGET,
    )


MEMBERS = (("a0", "a1", "a2"), ("b0", "b1", "b2"))


def said(per_guest: float, error: float = 0.0):
    """Draws that see so many jobs slowed for each guest; and how often they were asked."""
    asked = []

    def draws(counts):
        asked.append(counts)
        return Verified(per_guest * float(counts.sum()), error, np.zeros((1, 1)), (0.5,), 10)

    return draws, asked


def test_a_plan_that_passes_is_left_alone_and_says_what_the_draws_say():
    now = problem()
    plan = plan_lending(now, None, members=MEMBERS)
    draws, _ = said(0.04)
    found = passed_draws(now, plan, draws, MEMBERS)
    assert (found.drawn_jobs, found.drawn_error) == (pytest.approx(0.24), 0.0)
    assert (found.job_ids, found.status, found.fallback) == (plan.job_ids, plan.status, Fallback.NONE)


def test_a_plan_that_fails_loses_the_guests_worth_least():
    now = problem()
    draws, _ = said(0.06)
    found = passed_draws(now, plan_lending(now, None, members=MEMBERS), draws, MEMBERS)
    assert found.job_ids == ("a0", "a1", "a2", "b0")
    assert found.counts.tolist() == [3, 1]
    assert found.drawn_jobs == pytest.approx(0.24)
    assert (found.status, found.fallback) == (PlanStatus.FEASIBLE, Fallback.FAILED_DRAWS)
    assert found.objective == pytest.approx(7.0)
    assert "2 guests taken out" in found.reason


def test_what_may_be_chance_is_no_failure():
    now = problem()
    plan = plan_lending(now, None, members=MEMBERS)
    assert passed_draws(now, plan, said(0.06, 0.06)[0], MEMBERS).counts.tolist() == [3, 3]


def test_nothing_is_drawn_for_guests_that_can_be_sent_back():
    now = problem(requeueable=(True, True))
    draws, asked = said(1.0)
    plan = plan_lending(now, None, members=MEMBERS)
    assert passed_draws(now, plan, draws, MEMBERS) is plan
    assert not asked


class Hour:
    """Every job is alive for an hour with a chance of one half, and then gone."""

    is_clairvoyant = False

    def quantile_s(self, _job, _level):
        return 1800.0

    def survival(self, _job):
        return [0.5 if edge < 3600.0 else 0.0 for edge in LIFE_EDGES_S]


class Full(NoDemand):
    """Both pools will want all they have, in two scenarios that differ from those it plans with."""

    def fresh(self, _now_s):
        return np.full((2, 2, 1), 4.0), np.full((2, 2, 1), 8.0)


def test_the_draws_start_from_who_runs_who_is_due_and_who_waits():
    quotas = {"a": 4, "b": 4}
    lender = Lender(PolicyContext(quotas, Hour(), Full()), LenderSettings(requeueable=0.5, kinship=0.3))
    own, due = job("own", 0.0, 2, "a"), job("due", 0.0, 2, "a")
    kept, movable = job("kept", 0.0, 3, "a"), job("movable", 0.0, 1, "b", requeue_u=0.1)
    waits = job("waits", 0.0, 4, "b")
    blocks = job("blocks", 0.0, 4, "b")
    for one in (own, due, kept, blocks, movable, waits):
        lender.submitted(one, 0.0)
    lender.serve(0.0, 8)
    for one in (own, blocks, kept, movable):
        lender.started(one, 0.0, 0.0)
    waiting = lender.beyond_lanes()
    assert [one.job_id for one in waiting] == ["waits"]
    now = lender.situation(0.0, waiting)
    assert now.own.width_gpus.tolist() == [2.0, 4.0, 2.0], "two that run, and the one that is due"
    assert now.own.pool.tolist() == [0, 1, 0]
    assert (now.guests.pool.tolist(), now.guests.width_gpus.tolist()) == ([0], [3.0])
    assert (now.requeueable.pool.tolist(), now.requeueable.width_gpus.tolist()) == ([1], [1.0])
    assert (now.waiting.pool.tolist(), now.waiting.width_gpus.tolist()) == ([1], [4.0])
    assert now.waiting.alive[0, 0] == 1.0
    assert now.peaks.max() == 4.0, "the fresh scenarios, not those the plan is made from"
    assert now.kinship == 0.3
    assert now.backlog_urgency.shape == now.own.alive[:2].shape
    found = verify(now, np.array([True]), seed=1, draws=400)
    assert found.slowed_jobs > verify(now, np.array([False]), seed=1, draws=400).slowed_jobs == 0.0
