"""The cluster's state refuses what cannot be, and conserves GPUs whatever it is asked for."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.errors import PlanError
from domain.schedules import Stretch
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
