"""The timeline against a list of spans that is searched instant by instant."""

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.oracle.timeline import Timeline

times = st.integers(0, 12)
spans = st.lists(st.tuples(times, times, st.integers(1, 4)), max_size=40)


def filled(spans):
    timeline = Timeline()
    for start_s, end_s, gpus in spans:
        timeline.add(float(start_s), float(end_s), gpus)
    return timeline


def in_use(spans, at_s):
    return sum(gpus for start_s, end_s, gpus in spans if start_s <= at_s < end_s)


@settings(max_examples=100, deadline=None)
@given(spans, times, times)
def test_peak(spans, start_s, end_s):
    timeline = filled(spans)
    expected = max(in_use(spans, at_s) for at_s in range(start_s, max(end_s, start_s + 1)))
    assert timeline.peak(float(start_s), float(end_s)) == expected
    timeline.tidy()
    assert timeline.peak(float(start_s), float(end_s)) == expected


@settings(max_examples=200, deadline=None)
@given(spans, times, times, st.integers(0, 6), st.integers(0, 6))
def test_earliest(spans, from_s, latest_s, length_s, limit_gpus):
    def is_room(at_s):
        return all(in_use(spans, k) <= limit_gpus for k in range(at_s, at_s + max(length_s, 1)))

    latest_s = max(latest_s, from_s)
    expected = next((at_s for at_s in range(from_s, latest_s + 1) if is_room(at_s)), None)
    assert filled(spans).earliest(float(from_s), float(latest_s), float(length_s), limit_gpus) == expected


def test_what_is_given_back_leaves_nothing_behind():
    timeline = filled([(k, k + 5, 1) for k in range(100)])
    assert len(timeline) > 100
    for k in range(100):
        timeline.add(float(k), k + 5.0, -1)
    timeline.tidy()
    assert len(timeline) == 1
    assert timeline.peak(0.0, 200.0) == 0
