"""What a job keeps when it is sent back."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.checkpoints import KeptWork, added_s, saved_s
from domain.jobs import Job


def saving(checkpoint_s):
    return Job("j", "a", 0.0, 1, checkpoint_s=checkpoint_s)


@pytest.mark.parametrize(
    ("checkpoint_s", "ran_s", "kept_s"),
    [
        (None, 1e9, 0.0),
        (10.0, 0.0, 0.0),
        (10.0, 9.999, 0.0),
        (10.0, 10.0, 10.0),
        (10.0, 29.0, 20.0),
        (2.5, 8.0, 7.5),
        (1e300, 1e9, 0.0),
    ],
)
def test_whole_intervals_are_saved(checkpoint_s, ran_s, kept_s):
    assert saved_s(saving(checkpoint_s), ran_s) == kept_s


@settings(max_examples=200, derandomize=True)
@given(st.floats(1e-3, 1e6), st.floats(0.0, 1e9))
def test_never_more_than_it_ran_is_saved_and_less_than_an_interval_is_at_risk(checkpoint_s, ran_s):
    kept_s = saved_s(saving(checkpoint_s), ran_s)
    assert 0.0 <= kept_s <= ran_s
    assert ran_s - kept_s <= checkpoint_s * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize("interval_s", [0.0, -1.0, math.nan])
def test_an_interval_is_positive(interval_s):
    with pytest.raises(ValueError, match="checkpoint_s"):
        saving(interval_s)


def test_attempts_add_up_until_the_job_is_gone():
    job, kept = saving(10.0), KeptWork()
    kept.started(job, 100.0)
    assert kept.at_risk_s(job, 125.0) == 5.0
    assert kept.sent_back(job, 125.0) == 20.0
    kept.started(job, 200.0)
    assert kept.at_risk_s(job, 204.0) == 4.0
    assert kept.sent_back(job, 204.0) == 0.0
    kept.started(job, 300.0)
    assert kept.sent_back(job, 311.0) == 10.0
    assert kept.kept_s(job) == 30.0
    kept.ended(job)
    assert kept.kept_s(job) == 0.0


# Time to be back: what was saved has to be loaded.


@pytest.mark.parametrize(
    ("ran_s", "kept_s", "more_s"),
    [
        (29.0, 0.0, 0.0),  # 20 s saved, 25 s to load them: it starts from zero
        (30.0, 0.0, 5.0),
        (47.0, 0.0, 15.0),
        (24.0, 5.0, 0.0),  # still loading
        (34.0, 5.0, 0.0),  # loaded, and 9 s of work
        (35.0, 5.0, 10.0),
        (60.0, 5.0, 30.0),
    ],
)
def test_loading_is_taken_off_once_and_no_work_is_saved_meanwhile(ran_s, kept_s, more_s):
    job = Job("j", "a", 0.0, 1, checkpoint_s=10.0, restart_s=25.0)
    assert added_s(job, ran_s, kept_s) == more_s


def test_what_is_at_risk_holds_the_time_to_be_back():
    job, kept = Job("j", "a", 0.0, 1, checkpoint_s=10.0, restart_s=3.0), KeptWork()
    kept.started(job, 0.0)
    assert kept.at_risk_s(job, 9.0) == 9.0
    assert kept.at_risk_s(job, 11.0) == 1.0 + 3.0
    assert kept.sent_back(job, 25.0) == 17.0
    assert (kept.kept_s(job), kept.done_s(job)) == (17.0, 20.0)
    kept.started(job, 40.0)
    assert kept.at_risk_s(job, 42.0) == 2.0
    assert kept.at_risk_s(job, 54.0) == 1.0 + 3.0
    assert kept.sent_back(job, 54.0) == 10.0
    assert (kept.kept_s(job), kept.done_s(job)) == (27.0, 30.0)


def test_without_a_checkpoint_there_is_nothing_to_load():
    job, kept = Job("j", "a", 0.0, 1, restart_s=3.0), KeptWork()
    kept.started(job, 0.0)
    assert kept.at_risk_s(job, 50.0) == 50.0
    assert (kept.sent_back(job, 50.0), kept.done_s(job)) == (0.0, 0.0)


@pytest.mark.parametrize("restart_s", [-1.0, math.nan, math.inf])
def test_a_time_to_restart_is_no_less_than_nothing_and_finite(restart_s):
    with pytest.raises(ValueError, match="restart_s"):
        Job("j", "a", 0.0, 1, restart_s=restart_s)


def test_an_attempt_that_was_slower_than_alone_saves_nothing():
    job, kept = Job("j", "a", 0.0, 1, checkpoint_s=10.0), KeptWork()
    with pytest.raises(ValueError, match=r"job j goes on at rate 0\.5, but it does not run"):
        kept.rate_changed(job, 0.5)
    kept.started(job, 0.0)
    assert kept.sent_back(job, 25.0) == 20.0
    kept.started(job, 30.0)
    kept.rate_changed(job, 0.5)
    kept.rate_changed(job, 1.0)
    assert kept.at_risk_s(job, 60.0) == 30.0
    assert (kept.sent_back(job, 60.0), kept.kept_s(job)) == (0.0, 20.0), "what it had before stays"
    kept.started(job, 100.0)
    assert kept.sent_back(job, 115.0) == 10.0, "the next attempt is a new one"
