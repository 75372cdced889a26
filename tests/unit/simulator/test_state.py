"""The cluster's state refuses what cannot be, and conserves GPUs whatever it is asked for."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.cluster import Gpu
from domain.errors import PlanError
from domain.jobs import Job
from domain.schedules import NOTHING_KEPT_RATE, Stretch, as_attempts
from simulator.state import ClusterState


def state_with(*jobs, capacity_gpus=4):
    state = ClusterState(capacity_gpus)
    for one in jobs:
        state.submit(one)
    return state


def test_a_started_job_takes_its_gpus_and_gives_them_back():
    one = job("one", num_gpus=3)
    state = state_with(one)
    state.start(one, 1.0, is_guest=False)
    assert state.idle_gpus == 1
    assert state.finish("one", 5.0) is one
    assert state.idle_gpus == 4
    assert state.stretches == [Stretch("one", 1.0, 5.0, own_from_s=1.0)]


def test_all_gpus_may_be_in_use_but_not_one_more():
    wide, narrow = job("wide", num_gpus=4), job("narrow")
    state = state_with(wide, narrow)
    state.start(wide, 0.0, is_guest=False)
    assert state.idle_gpus == 0
    with pytest.raises(PlanError, match=r"narrow .* on 1 GPUs, 0 are idle"):
        state.start(narrow, 0.0, is_guest=True)
    assert state.idle_gpus == 0
    assert list(state.running) == ["wide"]


def test_only_what_waits_can_start():
    one = job("one")
    state = state_with()
    with pytest.raises(PlanError, match=r"one is to start at 0.0 s, but it is not pending"):
        state.start(one, 0.0, is_guest=False)
    state.submit(one)
    state.start(one, 0.0, is_guest=False)
    with pytest.raises(PlanError, match="not pending"):
        state.start(one, 1.0, is_guest=False)
    state.finish("one", 2.0)
    with pytest.raises(PlanError, match="not pending"):
        state.start(one, 3.0, is_guest=False)
    assert state.idle_gpus == 4


def test_a_guest_sent_back_waits_again_and_its_work_is_lost():
    one = job("one", num_gpus=2)
    state = state_with(one)
    first = state.start(one, 0.0, is_guest=True)
    state.send_back(one, 3.0)
    assert state.idle_gpus == 4
    assert list(state.pending) == ["one"]
    second = state.start(one, 5.0, is_guest=False)
    assert second != first, "attempts can be told apart"
    state.finish("one", 9.0)
    assert state.stretches == [
        Stretch("one", 0.0, 3.0, is_guest=True, is_lost=True),
        Stretch("one", 5.0, 9.0, own_from_s=5.0),
    ]


def test_own_jobs_and_converted_guests_are_not_sent_back():
    own, guest = job("own"), job("guest")
    state = state_with(own, guest)
    state.start(own, 0.0, is_guest=False)
    state.start(guest, 0.0, is_guest=True)
    state.convert(guest, 1.0)
    for one in (own, guest):
        with pytest.raises(PlanError, match=r"is to be sent back at 2.0 s, but it does not run as a guest"):
            state.send_back(one, 2.0)
    assert state.idle_gpus == 2
    assert set(state.running) == {"own", "guest"}


def test_only_a_running_guest_is_converted_and_only_once():
    own, guest, waiting = job("own"), job("guest"), job("waiting")
    state = state_with(own, guest, waiting)
    state.start(own, 0.0, is_guest=False)
    state.start(guest, 0.0, is_guest=True)
    for one in (own, waiting):
        with pytest.raises(PlanError, match=r"is to become own at 1.0 s"):
            state.convert(one, 1.0)
    state.convert(guest, 1.0)
    with pytest.raises(PlanError, match=r"is to become own at 2.0 s"):
        state.convert(guest, 2.0)
    state.finish("guest", 3.0)
    assert state.stretches == [Stretch("guest", 0.0, 3.0, is_guest=True, own_from_s=1.0)]


requests = st.lists(
    st.tuples(
        st.sampled_from(("start", "start as guest", "send back", "convert", "finish")), st.integers(0, 7)
    )
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 8), st.lists(st.integers(1, 8), min_size=8, max_size=8), requests)
def test_gpus_are_conserved_whatever_is_asked_for(capacity_gpus, widths, asked):
    jobs = [job(f"j{k}", num_gpus=width) for k, width in enumerate(widths)]
    state = state_with(*jobs, capacity_gpus=capacity_gpus)
    for now, (what, number) in enumerate(asked):
        one = jobs[number]
        do = {
            "start": lambda one=one, now=now: state.start(one, float(now), is_guest=False),
            "start as guest": lambda one=one, now=now: state.start(one, float(now), is_guest=True),
            "send back": lambda one=one, now=now: state.send_back(one, float(now)),
            "convert": lambda one=one, now=now: state.convert(one, float(now)),
            "finish": lambda one=one, now=now: state.finish(one.job_id, float(now)),
        }[what]
        if what != "finish" or one.job_id in state.running:
            with suppress(PlanError):
                do()
        in_use = sum(attempt.job.num_gpus for attempt in state.running.values())
        assert in_use + state.idle_gpus == capacity_gpus
        assert state.idle_gpus >= 0
        assert not state.running.keys() & state.pending.keys()


# Stretches of one rate each.

ON = (Gpu("n", 0), Gpu("n", 1))


def shared_guest(checkpoint_s: float | None = None, *, kept_s: float = 0.0) -> tuple[ClusterState, Job]:
    """A guest of two GPUs that has been running since 0 s, with so much kept of an attempt before."""
    one = replace(job("one", num_gpus=2), checkpoint_s=checkpoint_s)
    state = state_with(one)
    if kept_s:
        state.start(one, -kept_s, is_guest=True, gpus=ON)
        state.send_back(one, 0.0)
        state.stretches.clear()
    state.start(one, 0.0, is_guest=True, gpus=ON)
    return state, one


def told(state: ClusterState) -> list[tuple[float, float, float, bool, bool]]:
    return [(one.start_s, one.end_s, one.rate, one.is_lost, one.is_stopped) for one in state.stretches]


def test_a_change_of_rate_begins_a_stretch_and_all_of_them_are_lost_together():
    state, one = shared_guest()
    first = state.running["one"].serial
    assert state.change_rate("one", 4.0, 0.5) > first
    assert state.running["one"].work_at(10.0) == 7.0
    state.send_back(one, 10.0)
    assert told(state) == [(0.0, 4.0, 1.0, True, False), (4.0, 10.0, 0.5, True, False)]
    assert [stretch.gpus for stretch in state.stretches] == [ON, ON]
    assert as_attempts(state.stretches) == (Stretch("one", 0.0, 10.0, True, True, 0.7, gpus=ON),)


def test_a_rate_that_is_told_at_the_start_is_that_of_the_only_stretch():
    state, _ = shared_guest()
    state.change_rate("one", 0.0, 0.5)
    state.finish("one", 8.0)
    assert told(state) == [(0.0, 8.0, 0.5, False, False)]


def test_one_that_saves_and_was_never_slower_keeps_what_it_has_saved_over_all_its_stretches():
    """Of 10 s the checkpoint at 6 s is kept: 0.6 of each second, whoever was beside it."""
    state, one = shared_guest(3.0)
    state.change_rate("one", 4.0, 1.0)
    state.send_back(one, 10.0)
    assert told(state) == [(0.0, 4.0, 0.9, False, False), (4.0, 10.0, 0.9, False, True)]
    assert state.kept_s(one) == 9.0


@pytest.mark.parametrize("is_at_once", [False, True])
def test_one_that_saves_and_was_slower_keeps_what_was_kept_before_and_no_more(is_at_once):
    state, one = shared_guest(3.0, kept_s=6.0)
    state.change_rate("one", 4.0, 0.5)
    end_s = 10.0
    if is_at_once:
        state.change_rate("one", end_s, 1.0)
    state.send_back(one, end_s)
    nothing = NOTHING_KEPT_RATE
    assert told(state) == [(0.0, 4.0, nothing, False, False), (4.0, 10.0, nothing, False, True)]
    assert state.kept_s(one) == 6.0
    state.start(one, 20.0, is_guest=False, gpus=ON)
    state.finish("one", 30.0)
    (attempt, _) = as_attempts(state.stretches)
    assert (attempt.start_s, attempt.end_s, attempt.is_stopped) == (0.0, 10.0, True)


def test_the_next_attempt_saves_again():
    state, one = shared_guest(3.0)
    state.change_rate("one", 0.0, 0.5)
    state.suspend(one, 4.0)
    state.start(one, 10.0, is_guest=True, gpus=ON)
    state.send_back(one, 17.0)
    assert state.kept_s(one) == 2.0 + 6.0


@pytest.mark.parametrize(("frees_now", "idle_gpus"), [(True, 3), (False, 2)])
def test_gpus_that_somebody_shares_are_not_free_when_one_of_both_is_sent_back(frees_now, idle_gpus):
    state, one = shared_guest()
    state.send_back(one, 5.0, frees_now=frees_now, frees_gpus=1)
    assert state.idle_gpus == idle_gpus
    if not frees_now:
        state.free(1)
    assert state.idle_gpus == 3
