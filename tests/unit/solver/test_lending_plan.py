"""Plans: known optima on small instances, what happens at the edges, and solvers that misbehave."""

from dataclasses import replace

import numpy as np
import pytest
from lending_cases import problem, random_problem

from solver.lending.curves import RiskLines
from solver.lending.greedy import greedy_counts, trimmed
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import Fallback, LendingProblem, Placeability, PlanStatus, Utility
from solver.lending.send_backs import one_level
from solver.lending.solve import Answer, Limits

EXACT = Limits(gap=0.0)


def lines(slope, free_gpus=0.0, cells=4):
    """In each cell, `slope` jobs slowed per GPU beyond the free ones."""
    slopes = np.full((cells, 1), slope)
    return RiskLines(slopes, -slopes * free_gpus, np.zeros(cells))


@pytest.fixture(scope="module")
def highs():
    return HighsSolver(EXACT, is_isolated=False)


def test_idle_gpus_go_to_the_most_valuable_combination(highs):
    """6 GPUs: the 4-wide one and two single ones (5 + 2) beat three 2-wide ones (6); greedy takes those."""
    asked = problem([(4, 1, 5.0, 60.0), (2, 3, 2.0, 60.0), (1, 2, 1.0, 60.0)], idle_gpus=6)
    plan = plan_lending(asked, highs)
    assert plan.counts.tolist() in ([1, 1, 0], [1, 0, 2])
    assert plan.objective == pytest.approx(7.0)
    assert plan.status is PlanStatus.OPTIMAL
    assert plan.gap == pytest.approx(0.0, abs=1e-6)


def test_the_budget_keeps_long_lives_out(highs):
    asked = problem([(1, 4, 1.0, 60.0), (1, 4, 1.1, 1e7)], idle_gpus=4, budget_jobs=0.5, risk=lines(0.1))
    plan = plan_lending(asked, highs)
    assert plan.risk_jobs <= 0.5 + 1e-9
    assert plan.counts[1] == 0
    free = plan_lending(problem([(1, 4, 1.0, 60.0), (1, 4, 1.1, 1e7)], idle_gpus=4), highs)
    assert free.counts.tolist() == [0, 4]


def test_the_price_of_risk_keeps_out_what_is_not_worth_it(highs):
    cheap = problem([(1, 4, 1.0, 1e7)], risk=lines(0.5), budget_jobs=100.0, price=0.4)
    assert plan_lending(cheap, highs).counts.tolist() == [4]
    dear = problem([(1, 4, 1.0, 1e7)], risk=lines(0.5), budget_jobs=100.0, price=0.6)
    nothing = plan_lending(dear, highs)
    assert nothing.counts.tolist() == [0]
    assert "worth the price" in nothing.reason


def test_what_can_be_sent_back_is_no_risk_but_has_its_price(highs):
    both = [(1, 4, 1.0, 1e7), (1, 4, 1.0, 1e7)]
    asked = problem(both, requeueable=(1,), budget_jobs=0.0, risk=lines(1.0))
    assert plan_lending(asked, highs).counts.tolist() == [0, 4]
    dear = problem(
        both,
        requeueable=(1,),
        budget_jobs=0.0,
        send_back=one_level(lines(0.5, free_gpus=2.0)),
        send_back_price=0.6,
    )
    plan = plan_lending(dear, highs)
    assert plan.counts.tolist() == [0, 2]
    assert plan.send_backs == 0.0


def test_guests_that_run_to_their_end_push_out_those_that_can_be_sent_back(highs):
    asked = problem(
        [(1, 2, 3.0, 1e9), (1, 4, 1.0, 1e9)],
        requeueable=(1,),
        send_back=one_level(lines(0.5, free_gpus=3.0)),
        send_back_price=0.6,
    )
    assert plan_lending(asked, highs).counts.tolist() == [2, 1]


def test_placeability_rows_hold(highs):
    rows = Placeability(np.array([[1.0, 0.0]]), np.array([1.0]))
    asked = problem([(4, 3, 5.0, 60.0), (1, 3, 1.0, 60.0)], idle_gpus=12, placeability=rows)
    plan = plan_lending(asked, highs)
    assert plan.counts.tolist() == [1, 3]
    assert greedy_counts(asked).tolist() == [1, 3]


def test_a_utility_shares_between_pools(highs):
    """Both pools' jobs are alike; the bonus for the first two GPUs of each decides."""
    bonus = Utility(np.tile([1.0, 0.0], (2, 1)), np.tile([0.0, 2.0], (2, 1)))
    asked = problem([(1, 4, 1.0, 60.0), (1, 4, 1.0, 60.0)], idle_gpus=4, utility=bonus)
    plan = plan_lending(asked, highs)
    assert plan.counts.tolist() == [2, 2]
    assert greedy_counts(asked).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"classes": ((1, 0, 1.0, 60.0),)}, "nobody waits"),
        ({"idle_gpus": 0}, "no GPU is idle"),
        ({"budget_jobs": 0.0}, "budget is used up"),
        ({"budget_jobs": -3.0}, "budget is used up"),
        ({"classes": ((9, 2, 1.0, 60.0),)}, "narrow enough"),
    ],
)
def test_an_empty_plan_says_why(highs, changes, reason):
    plan = plan_lending(problem(**changes), highs)
    assert plan.status is PlanStatus.EMPTY
    assert not plan.counts.any()
    assert reason in plan.reason


def test_no_classes_at_all(highs):
    none = np.zeros(0, dtype=np.int64)
    asked = LendingProblem(
        none, none, none, np.zeros(0), np.zeros((0, 4)), none.astype(bool), 4, lines(1.0), 1.0
    )
    assert plan_lending(asked, highs).reason == "nobody waits"


def test_the_jobs_that_start_are_the_first_of_their_class(highs):
    asked = problem([(1, 3, 2.0, 60.0), (1, 2, 1.0, 60.0)], idle_gpus=4)
    plan = plan_lending(asked, highs, members=[("a", "b", "c"), ("d", "e")])
    assert plan.job_ids == ("a", "b", "c", "d")


def test_the_margin_is_tightened_until_the_exact_risk_fits(highs):
    """The exact model finds twice what the lines say."""
    asked = problem([(1, 20, 1.0, 1e9)], idle_gpus=20, budget_jobs=2.0, risk=lines(0.05))

    def exact_risk(counts):
        return 2.0 * asked.risk_jobs(counts)

    assert plan_lending(asked, highs).counts.tolist() == [10]
    plan = plan_lending(asked, highs, exact_risk)
    assert plan.exact_risk_jobs is not None
    assert 1.5 <= plan.exact_risk_jobs <= 2.0
    assert plan.rounds == 2
    assert plan.fallback is Fallback.NONE


def test_what_no_margin_makes_fit_is_trimmed(highs):
    """The exact model sees a risk that the lines do not see at all."""
    asked = problem([(1, 8, 1.0, 60.0)], risk=lines(1e-3), budget_jobs=3.0)

    def exact_risk(counts):
        return float(counts.sum()) + 2.5 if counts.sum() else 0.0

    plan = plan_lending(asked, highs, exact_risk)
    assert exact_risk(plan.counts) <= 3.0
    assert plan.exact_risk_jobs == exact_risk(plan.counts)


def test_trimming_keeps_as_many_as_fit_and_who_can_be_sent_back():
    asked = problem([(1, 5, 1.0, 60.0), (1, 5, 2.0, 60.0), (1, 2, 1.0, 60.0)], requeueable=(2,))
    kept = trimmed(asked, np.array([5, 5, 2]), lambda counts: float(counts[:2].sum()), 7.0)
    assert kept.tolist() == [2, 5, 2]


class Says:
    """A solver that answers what it is told to."""

    def __init__(self, answer):
        self._answer = answer

    limits = Limits()

    def solve(self, _problem, _hint, _wall_s):
        return self._answer


@pytest.mark.parametrize(
    ("answer", "status", "fallback"),
    [
        (Answer(None), PlanStatus.GREEDY, Fallback.GREEDY_NO_ANSWER),
        (Answer(None, is_killed=True), PlanStatus.FEASIBLE, Fallback.KILLED),
        (Answer(np.array([9]), 9.0, is_proven=True), PlanStatus.GREEDY, Fallback.GREEDY_NO_ANSWER),
        (Answer(np.array([0]), 6.0, is_cut=True), PlanStatus.FEASIBLE, Fallback.GREEDY_BETTER),
        (Answer(np.array([3]), 6.0, is_proven=True), PlanStatus.OPTIMAL, Fallback.NONE),
    ],
)
def test_a_solver_is_not_believed(answer, status, fallback):
    plan = plan_lending(problem(), Says(answer))
    assert plan.counts.tolist() == [3]
    assert (plan.status, plan.fallback) == (status, fallback)


def test_without_a_solver_the_plan_is_the_greedy_one():
    plan = plan_lending(problem(), None)
    assert (plan.status, plan.counts.tolist(), plan.gap) == (PlanStatus.GREEDY, [3], float("inf"))


@pytest.mark.parametrize(
    "changes",
    [
        {"width_gpus": np.array([0])},
        {"count": np.array([-1])},
        {"value": np.array([np.inf])},
        {"value": np.array([-1.0])},
        {"alive_gpus": np.zeros((1, 3))},
        {"idle_gpus": -1},
        {"budget_jobs": float("nan")},
        {"send_back": lines(1.0, cells=2)},
        {"placeability": Placeability(np.zeros((1, 2)), np.zeros(1))},
    ],
)
def test_problems_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match=r"."):
        replace(problem(), **changes)


def test_violations_name_each_row():
    rows = Placeability(np.array([[1.0]]), np.array([1.0]))
    asked = problem(idle_gpus=2, risk=lines(1.0), budget_jobs=0.1, placeability=rows)
    found = asked.violations(np.array([4]))
    assert len(found) == 4
    assert asked.violations(np.array([0])) == ()


def test_the_same_problem_gives_the_same_plan_in_a_process_of_its_own(highs):
    asked = random_problem(5, classes=12, max_count=4, gpus=30)
    isolated = HighsSolver(EXACT)
    try:
        apart = plan_lending(asked, isolated)
        again = plan_lending(asked, isolated)
    finally:
        isolated.close()
    here = plan_lending(asked, highs)
    assert apart.counts.tolist() == again.counts.tolist() == here.counts.tolist()
    assert apart.bound == here.bound
