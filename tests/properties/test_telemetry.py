"""Of any series: their order and repetitions change nothing, and whose the time was adds up to all of it."""

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telemetry_support import END_S, ENGINE, FREE, USED, UTIL

from data.telemetry.allocations import Allocation
from data.telemetry.holding import holdings
from data.telemetry.idle import Thresholds, Verdict, judge
from data.telemetry.tracks import DeviceId, Gathering, Metric, Series

LIMITS = Thresholds(window_s=600.0)
DEVICES = [DeviceId("a", "0"), DeviceId("a", "1", "1"), DeviceId("a", "1", "2"), DeviceId("b", "0")]
PROFILES = {"1": "1g.10gb", "2": "2g.20gb", "": ""}

values = st.sampled_from([0.0, 0.02, 1.0, math.nan])
instants = st.lists(st.integers(0, 20), min_size=1, max_size=12)


@st.composite
def one_series(draw) -> Series:
    device = draw(st.sampled_from(DEVICES))
    times = array("d", [END_S - 60.0 * back for back in draw(instants)])
    told = array("d", [draw(values) for _ in times])
    metric = Metric(draw(st.sampled_from([UTIL, ENGINE, USED, FREE])))
    pod = draw(st.sampled_from([None, "p", "q", "r"]))
    return Series(metric, device, "", PROFILES[device.instance], pod, draw(st.booleans()), times, told)


allocations = st.none() | st.lists(
    st.builds(
        Allocation,
        st.sampled_from(["j", "k"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["0", "1", "1/2", "7", None]),
        st.sampled_from([1, 2, None]),
        st.sampled_from([None, END_S - 7200.0, END_S - 120.0]),
    ),
    max_size=4,
)


def judged(series, given_out):
    gathering = Gathering()
    for one in series:
        gathering.add(one)
    telemetry = gathering.telemetry()
    return judge(telemetry, holdings(telemetry, given_out), LIMITS)


@given(st.lists(one_series(), min_size=1, max_size=12), allocations, st.randoms(use_true_random=False))
def test_the_order_of_series_and_their_repetition_change_nothing(series, given_out, random):
    shuffled = [*series, random.choice(series)]
    random.shuffle(shuffled)
    assert judged(shuffled, given_out) == judged(series, given_out)


@given(st.lists(one_series(), min_size=1, max_size=12), allocations)
def test_shares_of_holders_and_of_nobody_add_up_to_the_whole(series, given_out):
    findings = judged(series, given_out)
    gpus = {(one.device.node, one.device.gpu) for one in findings.gpus}
    whole = len(gpus) * LIMITS.window_s / 3600.0
    assert sum(findings.attributed.values()) + findings.unattributed == pytest.approx(whole)
    assert sum(findings.gpu_hours.values()) == pytest.approx(whole)
    assert set(findings.gpu_hours) == set(Verdict)
    assert all(hours >= 0.0 for hours in (findings.unattributed, *findings.attributed.values()))


@given(st.lists(one_series(), min_size=1, max_size=12), allocations)
def test_what_is_free_was_measured_and_is_held_by_nobody(series, given_out):
    for one in judged(series, given_out).gpus:
        if one.verdict is Verdict.FREE:
            assert not one.held.holders
            assert one.util_pct is not None
            assert one.util_pct < LIMITS.low_util_pct
            assert one.memory_pct is not None
            assert one.memory_pct < LIMITS.low_memory_pct
        if one.since_s is not None:
            assert one.since_s <= END_S
