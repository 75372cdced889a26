"""GPUs taken over time."""

from hypothesis import given
from hypothesis import strategies as st

from solver.profile import UseProfile

takings = st.lists(st.tuples(st.integers(-5, 20), st.integers(0, 10), st.integers(1, 4)), max_size=15)


@given(takings, st.integers(0, 25), st.integers(1, 10))
def test_the_peak_is_that_of_a_walk_second_by_second(taken, start, length):
    profile = UseProfile(0.0)
    seconds = [0] * 60
    for begin, lasts, gpus in taken:
        profile.add(float(begin), float(begin + lasts), gpus)
        for second in range(max(begin, 0), begin + lasts):
            seconds[second] += gpus
    assert profile.peak(float(start), float(start + length)) == max(seconds[start : start + length])


def test_an_instant_has_the_peak_that_holds_there():
    profile = UseProfile(0.0)
    profile.add(0.0, 5.0, 2)
    assert profile.peak(0.0, 0.0) == 2
    assert profile.peak(5.0, 5.0) == 0
