"""Work done at changing rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.work import WorkDone, started_at

instants = st.floats(0.0, 1e7)


def test_work_grows_at_the_rate():
    run = started_at(100.0).at_rate(0.5, 300.0)
    assert run.work_at(300.0) == 200.0
    assert run.work_at(400.0) == 250.0
    assert run.reaches_s(275.0) == 450.0
    assert run.alone_since_s(400.0) == 150.0, "50 s are lost"
    assert run.at_rate(1.0, 400.0) == WorkDone(250.0, 1.0, 400.0)
    assert run.at_rate(0.5, 400.0) is run, "told again nothing changes"


@given(instants, instants, instants)
def test_at_rate_1_it_is_the_time_since_the_start_bit_by_bit(start_s, now_s, edge_s):
    run = started_at(start_s)
    assert run.work_at(now_s) == now_s - start_s
    assert run.reaches_s(edge_s) == start_s + edge_s
    assert run.alone_since_s(now_s) == start_s


@given(instants, st.lists(st.tuples(st.floats(0.0, 1e5), st.floats(0.05, 1.0)), max_size=8))
def test_work_and_what_is_lost_are_the_time_since_the_start(start_s, changes):
    run, now_s = started_at(start_s), start_s
    for after_s, rate in changes:
        now_s += after_s
        run = run.at_rate(rate, now_s)
    lost_s = run.alone_since_s(now_s) - start_s
    assert run.work_at(now_s) + lost_s == pytest.approx(now_s - start_s, abs=1e-6)
