"""What it costs to send guests back who repeat different shares of their work."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lending_cases import best_by_trying, levelled_problem, problem, random_problem

from solver.lending.classes import Candidates, each_its_own, group
from solver.lending.cpsat import CpSatSolver
from solver.lending.curves import RiskLines
from solver.lending.decomposed import DecomposedSolver
from solver.lending.greedy import greedy_counts
from solver.lending.incremental import Arrival, OpenPlan, Refusal
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import PlanStatus
from solver.lending.program import program_of
from solver.lending.send_backs import LEVELS, SendBacks, by_levels, level_of, one_level
from solver.lending.solve import Limits

EXACT = Limits(gap=0.0)


@pytest.fixture(scope="module")
def highs():
    return HighsSolver(EXACT, is_isolated=False)


def missing_beyond(free_gpus: float) -> RiskLines:
    """One cell: whatever is held beyond so many GPUs is missing."""
    return RiskLines(np.array([[1.0]]), np.array([[-free_gpus]]), np.zeros(1))


def cheapest_first(guests: list[tuple[float, float]], free_gpus: float) -> float:
    """Guests as (share, GPUs) are sent back one after another until nothing is missing any more."""
    missing = max(0.0, sum(gpus for _, gpus in guests) - free_gpus)
    cost = 0.0
    for share, gpus in sorted(guests):
        taken = min(missing, gpus)
        cost, missing = cost + share * taken, missing - taken
    return cost


guests = st.lists(st.tuples(st.sampled_from(LEVELS), st.integers(0, 9).map(float)), max_size=8)


@settings(max_examples=300, derandomize=True)
@given(guests, st.integers(0, 30).map(float))
def test_the_cost_is_that_of_sending_the_cheapest_back_first(who, free_gpus):
    costs = SendBacks(np.array(LEVELS), (missing_beyond(free_gpus),) * len(LEVELS))
    held = sum((costs.holds(share)[:, None] * gpus for share, gpus in who), np.zeros((len(LEVELS), 1)))
    assert float(costs.at(held)) == pytest.approx(cheapest_first(who, free_gpus))


@settings(max_examples=100, derandomize=True)
@given(guests, guests, st.integers(0, 30).map(float))
def test_the_cost_is_convex_and_can_be_counted_on_from_any_state(some, more, free_gpus):
    costs = SendBacks(np.array(LEVELS), (missing_beyond(free_gpus),) * len(LEVELS))
    one, other = (
        sum((costs.holds(share)[:, None] * gpus for share, gpus in who), np.zeros((len(LEVELS), 1)))
        for who in (some, more)
    )
    assert costs.at(0.5 * (one + other)) <= 0.5 * (costs.at(one) + costs.at(other)) + 1e-9
    assert costs.shifted(one).at(other) == pytest.approx(float(costs.at(one + other) - costs.at(one)))


def test_between_two_levels_the_dearer_one_counts():
    costs = SendBacks(np.array([0.25, 1.0]), (missing_beyond(0.0),) * 2)
    assert costs.holds(np.array([0.1, 0.25, 0.3, 1.0])).tolist() == [[True] * 4, [False, False, True, True]]
    assert level_of(np.array([0.01, 0.0625, 0.07, 0.3, 1.0])).tolist() == [0.0625, 0.0625, 0.125, 0.5, 1.0]


@pytest.mark.parametrize("levels", [[0.5], [0.0, 1.0], [0.5, 0.5, 1.0], [1.0, 0.5]])
def test_levels_rise_to_1(levels):
    with pytest.raises(ValueError, match="levels"):
        SendBacks(np.array(levels), (missing_beyond(0.0),) * len(levels))


def test_where_nobody_repeats_less_than_half_there_is_one_level():
    lines, can_go = missing_beyond(0.0), np.array([True, True])
    assert by_levels(lines, np.array([1.0, 1.0]), can_go).levels.tolist() == [1.0]
    assert by_levels(lines, np.array([1.0, 0.25]), ~can_go).levels.tolist() == [1.0]
    assert by_levels(lines, np.array([1.0, 0.25]), can_go).levels.tolist() == list(LEVELS)


# Problems whose optimum is known.


def four_cells(free_gpus: float) -> RiskLines:
    return RiskLines(np.array([[1.0]] + [[0.0]] * 3), np.array([[-free_gpus]] + [[0.0]] * 3), np.zeros(4))


def asked_with(repeats, free_gpus=2.0, **more):
    """Two classes of four single GPUs each, worth 1; a GPU sent back costs 2 if all is repeated."""
    lines = four_cells(free_gpus)
    shares = np.array(repeats)
    return problem(
        [(1, 4, 1.0, 1e9), (1, 4, 1.0, 1e9)],
        requeueable=(0, 1),
        send_back=by_levels(lines, shares, np.ones(2, dtype=bool)),
        send_back_price=2.0,
        repeats=shares,
        **more,
    )


def test_who_repeats_little_is_lent_to_although_it_will_be_sent_back(highs):
    """Two fit for nothing; every further one costs 2, or 0.5 where a quarter is repeated."""
    assert plan_lending(asked_with([1.0, 1.0]), highs).counts.sum() == 2
    plan = plan_lending(asked_with([1.0, 0.25]), highs)
    # 2 of the dear ones stay on what nobody wants, the 4 cheap ones go first: 6 - 4 x 0.5
    assert plan.counts.tolist() == [2, 4]
    assert plan.objective == pytest.approx(4.0)
    assert plan.send_backs == pytest.approx(1.0)
    assert greedy_counts(asked_with([1.0, 0.25])).tolist() == [2, 4]


def test_who_must_run_to_the_end_pays_in_full_for_whom_it_pushes_out(highs):
    """Beside four cheap guests there is room for none that stays: each sends one of them back, at once."""
    asked = replace(asked_with([0.25, 0.25], free_gpus=4.0), is_requeueable=np.array([False, True]))
    asked = replace(asked, value=np.array([1.0, 1.0]))
    plan = plan_lending(asked, highs)
    # each of the first kind pushes out one of the second: 0.5 for a worth of 1
    assert plan.counts.tolist() == [4, 4]
    assert plan.objective == pytest.approx(8.0 - 4 * 0.5)


@pytest.mark.parametrize("seed", range(15))
def test_highs_cp_sat_and_trying_everything_agree(highs, seed):
    asked = levelled_problem(seed)
    best = best_by_trying(asked)
    for solver in (highs, CpSatSolver(EXACT)):
        plan = plan_lending(asked, solver)
        assert plan.status is PlanStatus.OPTIMAL
        assert plan.objective == pytest.approx(best, rel=1e-4, abs=1e-6)
        assert plan.bound >= best - 1e-4
    assert asked.objective(greedy_counts(asked)) <= best + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_groups_of_pools_count_on_from_each_other(highs, seed):
    asked = levelled_problem(seed, classes=40, max_count=4, gpus=60)
    parts = DecomposedSolver(highs, classes_per_group=14, whole_up_to=20)
    plan, whole = plan_lending(asked, parts), plan_lending(asked, highs)
    assert not asked.violations(plan.counts)
    assert 0.95 * whole.objective <= plan.objective <= whole.objective + 1e-4
    assert plan.bound >= whole.objective - 1e-4


@pytest.mark.parametrize("seed", range(8))
def test_where_all_is_repeated_levels_change_no_row(seed):
    asked = random_problem(seed, requeueable_share=0.8, send_back_price=0.5)
    lines = asked.send_back.lines[0]
    same = replace(asked, repeats=np.ones(4), send_back=SendBacks(np.array(LEVELS), (lines,) * len(LEVELS)))
    one, other = program_of(asked), program_of(same)
    for name in ("cost", "low", "high", "rows", "columns", "entries", "row_low", "row_high"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


def test_shares_are_shares_of_every_class():
    with pytest.raises(ValueError, match="one entry per class"):
        problem(repeats=np.ones(2))
    with pytest.raises(ValueError, match="shares repeated"):
        problem(repeats=np.zeros(1))


# Between plans.


def test_one_event_is_charged_what_its_level_adds():
    asked = asked_with([1.0, 0.25])
    plan = OpenPlan(asked, np.array([2, 0]), (("a", "b"), ()))
    alive = asked.alive_gpus[0]
    assert plan.arrived(Arrival("dear", 1, 1.0, alive, True)).refusal is Refusal.NOT_WORTH_IT
    assert plan.arrived(Arrival("cheap", 1, 1.0, alive, True, 0.25)).starts
    assert plan.arrived(Arrival("half", 1, 0.99, alive, True, 0.4)).refusal is Refusal.NOT_WORTH_IT
    plan.ended("cheap")
    plan.ended("a")
    assert plan.arrived(Arrival("dear", 1, 1.0, alive, True)).starts


@settings(max_examples=60, derandomize=True)
@given(st.integers(0, 30), st.lists(st.sampled_from((0.0625, 0.2, 0.5, 1.0)), min_size=1, max_size=6))
def test_events_add_up_to_what_a_plan_would_be_charged(seed, shares):
    asked = levelled_problem(seed, send_back_price=0.01, idle_gpus=1000)
    none = np.zeros(4, dtype=np.int64)
    plan, alive = OpenPlan(asked, none), np.array([1.0, 0.7, 0.4, 0.1])
    costs = []
    for k, share in enumerate(shares):
        assert plan.arrived(Arrival(f"j{k}", 1, 1e9, alive, True, share)).starts
        held = sum(asked.send_back.holds(one)[:, None] * alive for one in shares[: k + 1])
        costs.append(float(asked.send_back.at(held)))
        assert plan._send_backs == pytest.approx(costs[-1])
    assert all(before <= after + 1e-12 for before, after in pairwise(costs))
    for k in range(len(shares)):
        plan.ended(f"j{k}")
    assert plan._send_backs == pytest.approx(0.0, abs=1e-9)


# Classes.


def candidates(repeats, can_go=True) -> Candidates:
    jobs = len(repeats)
    same = np.ones(jobs)
    return Candidates(
        job_ids=tuple(f"j{k}" for k in range(jobs)),
        submit_s=np.arange(jobs, dtype=float),
        pool=np.zeros(jobs, dtype=np.int64),
        width_gpus=np.ones(jobs, dtype=np.int64),
        median_s=600.0 * same,
        tail_s=6000.0 * same,
        value=same,
        alive_gpus=np.ones((jobs, 4)),
        is_requeueable=np.full(jobs, can_go),
        repeats=np.array(repeats),
    )


def test_who_repeats_another_share_is_of_another_class():
    classes = group(candidates([1.0, 0.25, 1.0, 0.25]))
    assert classes.repeats.tolist() == [0.25, 1.0]
    assert classes.members == (("j1", "j3"), ("j0", "j2"))
    assert each_its_own(candidates([1.0, 0.25])).repeats.tolist() == [1.0, 0.25]


def test_of_those_that_run_to_their_end_it_makes_none():
    classes = group(candidates([1.0, 0.25], can_go=False))
    assert (classes.count.tolist(), classes.repeats.tolist()) == ([2], [1.0])


def test_one_level_is_the_lines_themselves():
    lines = missing_beyond(3.0)
    assert float(one_level(lines).at(np.array([[5.0]]))) == 2.0
