"""The budget of jobs that may be slowed."""

import pytest
from support import job

from solver.budget import SlowdownBudget


def test_every_job_submitted_grants_eps():
    budget = SlowdownBudget({"a": 1}, 0.01)
    assert budget.left(0.0) == pytest.approx(10.0)
    for k in range(100):
        budget.submitted(job(f"j{k}"), 0.0)
    assert budget.left(0.0) == pytest.approx(11.0)


def test_a_charge_is_held_while_the_guest_runs():
    budget = SlowdownBudget({"a": 1}, 0.01)
    one = job("one")
    budget.submitted(one, 0.0)
    budget.charge(one, 3.0)
    budget.started(one, 0.0)
    assert budget.left(0.0) == pytest.approx(7.01)
    budget.ended(one, 5.0)
    assert budget.left(5.0) == pytest.approx(10.01)
    two = job("two")
    budget.submitted(two, 6.0)
    budget.charge(two, 3.0)
    budget.started(two, 6.0)
    budget.sent_back(two, 7.0)
    assert budget.left(7.0) == pytest.approx(10.02)


def test_a_job_is_slowed_by_more_than_a_minute_and_stays_so():
    budget = SlowdownBudget({"a": 1}, 0.01)
    late, in_time = job("late"), job("zin-time")
    budget.submitted(late, 0.0)
    budget.submitted(in_time, 0.0)
    budget.started(late, 61.0)
    assert budget.left(61.0) == pytest.approx(10.02 - 1)
    budget.ended(late, 100.0)
    budget.started(in_time, 100.0)
    budget.ended(in_time, 110.0)
    assert budget.left(200.0) == pytest.approx(10.02 - 2), "39 s of reference for the first, so 61 s late too"


def test_a_suspect_is_cleared_when_the_exact_reference_says_so():
    """`behind` starts 62 s late, so the early reference takes it to end at once and expects `next` at 0 s;
    in truth `behind` runs for 50 s, and `next` is only 13 s late."""
    budget = SlowdownBudget({"a": 1}, 0.01)
    behind, following = job("behind"), job("next")
    budget.submitted(behind, 0.0)
    budget.submitted(following, 0.0)
    budget.started(behind, 62.0)
    budget.started(following, 63.0)
    assert budget.left(63.0) == pytest.approx(10.02 - 2)
    budget.ended(behind, 112.0)
    assert budget.left(113.0) == pytest.approx(10.02 - 1)


def test_a_suspect_is_cleared_once_the_exact_reference_has_got_past_its_start_without_it():
    """`behind` starts 100 s late and runs on, so the exact reference follows 100 s after the clock. When it
    has come to the instant at which `next` started, its only GPU was still taken: `next` was early."""
    budget = SlowdownBudget({"a": 1}, 0.01)
    behind, following = job("behind"), job("next")
    budget.submitted(behind, 0.0)
    budget.submitted(following, 0.0)
    budget.started(behind, 100.0)
    budget.started(following, 110.0)
    assert budget.left(209.0) == pytest.approx(10.02 - 2)
    assert budget.left(210.0) == pytest.approx(10.02 - 1)
    budget.ended(behind, 5000.0)
    assert budget.left(9000.0) == pytest.approx(10.02 - 1), "and stays cleared"


def lone(eps=0.01):
    """A budget, and a job of a pool of one GPU that starts with its reference."""
    budget, one = SlowdownBudget({"a": 1}, eps), job("one")
    budget.submitted(one, 0.0)
    budget.started(one, 0.0)
    return budget, one


def test_work_lost_to_a_rate_makes_a_job_late():
    budget, one = lone()
    budget.rate_changed(one, 100.0, 0.5)
    assert budget.left(220.0) == pytest.approx(10.01), "60 s are lost: in time"
    assert budget.left(221.0) == pytest.approx(10.01 - 1)
    budget.rate_changed(one, 222.0, 1.0)
    budget.ended(one, 300.0)
    assert budget.left(300.0) == pytest.approx(10.01 - 1), "61 s were lost, and it stays so"


def test_a_job_that_ends_in_time_was_never_slowed_by_its_rate():
    budget, one = lone()
    budget.rate_changed(one, 0.0, 0.5)
    budget.ended(one, 119.0)
    assert budget.left(500.0) == pytest.approx(10.01)


def test_a_job_may_lose_what_it_was_ahead():
    """`next` starts as a guest at 0; the reference starts it at 1000, when `one` has ended."""
    budget, one = lone()
    following = job("next")
    budget.submitted(following, 0.0)
    budget.started(following, 0.0)
    budget.rate_changed(following, 0.0, 0.5)
    budget.ended(one, 1000.0)
    for now_s in (1000.0, 1500.0, 2000.0, 2110.0):
        assert budget.left(now_s) == pytest.approx(10.02), "1,000 s ahead, 1,055 lost: in time"
    assert budget.left(2122.0) == pytest.approx(10.02 - 1)
    budget.ended(following, 2122.0)
    assert budget.left(9000.0) == pytest.approx(10.02 - 1)


def test_a_job_that_was_late_already_is_slowed_once():
    budget, late = SlowdownBudget({"a": 1}, 0.01), job("late")
    budget.submitted(late, 0.0)
    budget.started(late, 100.0)
    assert budget.left(100.0) == pytest.approx(10.01 - 1)
    budget.rate_changed(late, 150.0, 0.5)
    assert budget.left(200.0) == pytest.approx(10.01 - 1)
    budget.ended(late, 400.0)
    assert budget.left(5000.0) == pytest.approx(10.01 - 1)


def test_a_guest_that_is_sent_back_has_lost_nothing_but_its_place_in_time():
    budget, one = lone()
    budget.rate_changed(one, 0.0, 0.25)
    assert budget.left(100.0) == pytest.approx(10.01 - 1)
    budget.sent_back(one, 100.0)
    assert budget.left(101.0) == pytest.approx(10.01), "until it starts again, late"
    budget.started(one, 102.0)
    assert budget.left(102.0) == pytest.approx(10.01 - 1)


def test_a_suspect_that_goes_on_more_slowly_is_one_suspect():
    """As above `next` is late by the early reference alone, until `behind` has ended at 112 s."""
    budget, behind, following = SlowdownBudget({"a": 1}, 0.01), job("behind"), job("next")
    budget.submitted(behind, 0.0)
    budget.submitted(following, 0.0)
    budget.started(behind, 62.0)
    budget.started(following, 63.0)
    budget.rate_changed(following, 63.0, 0.5)
    assert budget.left(63.0) == pytest.approx(10.02 - 2)
    budget.ended(behind, 112.0)
    assert budget.left(113.0) == pytest.approx(10.02 - 1), "the reference starts it at 50 s"
    assert budget.left(157.0) == pytest.approx(10.02 - 1), "47 s are lost: it is 60 s late"
    assert budget.left(158.0) == pytest.approx(10.02 - 2)
