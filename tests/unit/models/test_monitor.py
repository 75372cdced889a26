"""The monitor: its stated design by simulation, bursts, hysteresis, states; lives held against forecasts."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.calibration.monitor import LIFE, ForecastMonitor, StreamKey
from models.calibration.reliability import share_interval
from models.calibration.track import MonitorDesign, Track
from models.scores import longest_run

fixed = settings(max_examples=60, deadline=None, derandomize=True)
KEY = StreamKey(LIFE, "a")
DESIGN = MonitorDesign()


def told(
    misses, *, level: float = 0.9, key: StreamKey = KEY, monitor: ForecastMonitor | None = None, at_s=0.0
):
    monitor = monitor or ForecastMonitor()
    for k, is_miss in enumerate(misses):
        monitor.observe(key, level, bool(is_miss), at_s + k)
    return monitor


def until_off(rate: float, level: float, seed: int, most: int, *, drift_only: bool = False) -> int:
    """Observations until the stream is switched off, or until its drift alarms; `most` where it never is."""
    track = Track()
    for k, is_miss in enumerate(np.random.default_rng(seed).random(most) < rate):
        track.observe(DESIGN, level, bool(is_miss), float(k))
        if track.is_drifting(DESIGN) if drift_only else track.is_off:
            return k + 1
    return most


# the design


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_drift_alarms_are_as_far_apart_as_stated(level):
    lengths = [until_off(1.0 - level, level, seed, 3_000, drift_only=True) for seed in range(25)]
    # Cut off at 3,000, so the true mean is larger still.
    assert np.mean(lengths) > 2.0 * DESIGN.run_length


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_a_doubled_miss_rate_is_noticed_within_the_stated_delay(level):
    delays = [until_off(2.0 * (1.0 - level), level, seed, 5_000, drift_only=True) for seed in range(60)]
    assert np.mean(delays) < DESIGN.delay_bound(level)
    assert np.mean(delays) > 0.4 * DESIGN.delay_bound(level)


def test_a_calibrated_stream_is_left_alone_and_one_off_by_half_is_not():
    calm = [until_off(0.1, 0.9, seed, 2_000) for seed in range(25)]
    assert sum(length < 2_000 for length in calm) <= 6
    off = [until_off(0.15, 0.9, seed, 2_000) for seed in range(25)]
    assert sum(length < 2_000 for length in off) >= 23


def test_misses_that_depend_on_the_past_are_covered_by_the_same_bound():
    # Each miss is no likelier than said, and never follows two hits: a stream of pairs.
    rng, track, lengths, begin = np.random.default_rng(3), Track(), [], 0
    for k in range(6_000):
        chance = 0.1 if track.run or k % 3 else 0.02
        track.observe(DESIGN, 0.9, bool(rng.random() < chance), float(k))
        if track.is_drifting(DESIGN):
            lengths.append(k - begin)
            track, begin = Track(), k
    assert len(lengths) <= 6_000 / DESIGN.run_length


# bursts, runs, hysteresis


def test_a_burst_of_misses_switches_off_within_ten():
    calm = np.zeros(300, bool)
    calm[::10] = True
    monitor = told(calm)
    assert monitor.may_lend("a")
    for k in range(10):
        monitor.observe(KEY, 0.9, True, 300.0 + k)
    assert not monitor.may_lend("a")
    (reason,) = monitor.reasons_off("a")
    assert "pool a" in reason
    assert "10 misses in a row" in reason


def test_it_stays_off_until_recovered_and_does_not_flap():
    monitor = told([True] * 15)
    assert not monitor.may_lend("a")
    states = []
    for k in range(600):
        monitor.observe(KEY, 0.9, k % 10 == 0, 100.0 + k)
        states.append(monitor.may_lend("a"))
    back = states.index(True)
    assert 40 < back < 400
    assert all(states[back:])
    row = monitor.stream(KEY)
    assert row is not None
    assert row.times_off == 1
    assert row.since_s == 100.0 + back
    assert row.miss_rate <= 1.25 * 0.1


def test_after_a_burst_in_calm_times_the_drift_has_to_fall_too():
    track = Track()
    for k in range(1_010):
        track.observe(DESIGN, 0.9, k >= 1_000, float(k))
    assert track.is_off
    assert track.miss_rate < 0.1
    back = 0
    while track.is_off:
        track.observe(DESIGN, 0.9, False, 2_000.0 + back)
        back += 1
    assert back == math.ceil(0.5 * DESIGN.threshold / math.log(0.9 / 0.8))


def test_a_long_bad_time_is_not_held_against_it_for_ever():
    track = Track()
    for k in range(400):
        track.observe(DESIGN, 0.9, True, float(k))
    assert track.drift == DESIGN.threshold
    back = 0
    while track.is_off:
        track.observe(DESIGN, 0.9, False, 400.0 + back)
        back += 1
    assert back <= DESIGN.memory * math.log(1.0 / (1.25 * 0.1)) + 1


def test_a_small_excess_that_lasts_is_noticed_without_any_drift():
    patient, track = MonitorDesign(memory=2_000.0), Track()
    for k in range(6_000):
        track.observe(patient, 0.9, k % 7 == 0, float(k))
    assert track.is_off
    assert track.drift < 0.5 * patient.threshold
    assert track.is_exceeding(patient)


def test_a_rate_that_stays_too_high_keeps_it_off():
    rng = np.random.default_rng(0)
    monitor = told(rng.random(3_000) < 0.25)
    off = []
    for k in range(2_000):
        monitor.observe(KEY, 0.9, bool(rng.random() < 0.25), 3_000.0 + k)
        off.append(not monitor.may_lend("a"))
    assert np.mean(off) > 0.99


def test_little_data_switches_nothing_off():
    assert ForecastMonitor().may_lend("never seen")
    assert told([True] * 3).may_lend("a")
    assert told([False] * 500).may_lend("a")


def test_only_what_concerns_pool_and_window_counts():
    monitor = told([True] * 30, key=StreamKey("load", "a", 300.0))
    told([False] * 30, key=StreamKey("load", "a", 3600.0), monitor=monitor)
    told([False] * 30, key=StreamKey(LIFE, "a"), monitor=monitor)
    assert [monitor.may_lend("a", window_s) for window_s in (None, 300.0, 3600.0)] == [False, False, True]
    assert monitor.may_lend("b", 300.0)
    told([True] * 30, key=StreamKey(LIFE, "a"), monitor=monitor, at_s=100.0)
    assert not monitor.may_lend("a", 3600.0)
    assert [(row.kind, row.window_s) for row in monitor.report()] == [
        ("life", None),
        ("load", 300.0),
        ("load", 3600.0),
    ]


@fixed
@given(misses=st.lists(st.booleans(), min_size=1, max_size=200), level=st.floats(0.05, 0.999))
def test_counts_runs_and_rates_are_those_of_the_stream(misses, level):
    row = told(misses, level=level).stream(KEY)
    assert row is not None
    assert (row.observed, row.missed) == (len(misses), sum(misses))
    assert row.longest_run == longest_run(np.array(misses))
    assert row.said_rate == pytest.approx(1.0 - level)
    weights = (1.0 - 1.0 / DESIGN.memory) ** np.arange(len(misses))[::-1]
    number = weights.sum() ** 2 / (weights**2).sum()
    assert (row.low, row.high) == pytest.approx(share_interval(row.miss_rate * number, number, 0.9), abs=1e-9)
    assert row.miss_rate == pytest.approx(np.average(misses, weights=weights))
    assert row.low - 1e-9 <= row.miss_rate <= row.high + 1e-9
    assert 0.0 <= row.drift <= 1.0
    assert json.loads(json.dumps(row.to_dict()))["pool"] == "a"


def test_of_too_many_streams_the_silent_one_is_forgotten():
    monitor = ForecastMonitor(most_streams=2)
    for at_s, pool in enumerate("abac"):
        monitor.observe(StreamKey(LIFE, pool), 0.9, False, float(at_s))
    assert [row.pool for row in monitor.report()] == ["a", "c"]


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan])
def test_a_level_outside_is_refused(level):
    with pytest.raises(ValueError, match="level"):
        ForecastMonitor().observe(KEY, level, False, 0.0)


@pytest.mark.parametrize("weight", [0.0, 1.1, -1.0, math.nan])
def test_a_weight_outside_is_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        ForecastMonitor().observe(KEY, 0.9, False, 0.0, weight)


def test_parts_of_an_outcome_count_as_one():
    whole, parts = Track(), Track()
    for k, is_miss in enumerate(np.random.default_rng(1).random(400) < 0.2):
        whole.observe(DESIGN, 0.9, bool(is_miss), float(k))
        for _ in range(4):
            parts.observe(DESIGN, 0.9, bool(is_miss), float(k), 0.25)
    assert parts.miss_rate == pytest.approx(whole.miss_rate, rel=0.01)
    assert parts.effective_number == pytest.approx(whole.effective_number, rel=0.01)
    assert parts.drift == pytest.approx(whole.drift)


def test_time_does_not_run_backwards():
    monitor = told([False])
    monitor.observe(KEY, 0.9, False, 0.0)
    for now_s in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="instant"):
            monitor.observe(KEY, 0.9, False, now_s)
    assert monitor.stream(KEY).observed == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 1.0),
        ("least_observed", 0),
        ("margin", -0.1),
        ("confidence", 1.0),
        ("resume_margin", 0.3),
        ("run_length", math.inf),
        ("resume_drift", 1.0),
    ],
)
def test_a_design_out_of_range_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        MonitorDesign(**{name: value})


# states


@fixed
@given(
    before=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=80),
    after=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=80),
)
def test_a_monitor_read_back_goes_on_the_same(before, after):
    one = ForecastMonitor(MonitorDesign(memory=20.0, least_observed=5), most_streams=2)
    for k, (pool, is_miss) in enumerate(before):
        one.observe(StreamKey("load", pool, 300.0), 0.9, is_miss, float(k))
    other = ForecastMonitor.from_state(json.loads(json.dumps(one.to_state())))
    for k, (pool, is_miss) in enumerate(after):
        for monitor in (one, other):
            monitor.observe(StreamKey("load", pool, 300.0), 0.9, is_miss, 1e3 + k)
    assert one.report() == other.report()
    assert one.to_state() == other.to_state()


def broken(path: tuple[str | int, ...], value) -> dict:
    state = json.loads(json.dumps(told([True] * 20).to_state()))
    inner = state
    for name in path[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return state


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("version",), ...),
        (("more",), 1),
        (("tracks",), {}),
        (("most_streams",), True),
        (("most_streams",), 0),
        (("design",), None),
        (("design", "margin"), ...),
        (("design", "run_length"), 0.5),
        (("design", "least_observed"), "3"),
        (("tracks", 0), []),
        (("tracks", 0, "pool"), 7),
        (("tracks", 0, "pool"), ...),
        (("tracks", 0, "window_s"), "5 min"),
        (("tracks", 0, "window_s"), math.nan),
        (("tracks", 0, "missed"), 21),
        (("tracks", 0, "missed"), -1),
        (("tracks", 0, "run"), 21),
        (("tracks", 0, "drift"), 1e6),
        (("tracks", 0, "drift"), math.nan),
        (("tracks", 0, "is_off"), 1),
        (("tracks", 0, "times_off"), 0),
        (("tracks", 0, "weight_squared"), 0.0),
        (("tracks", 0, "missed_weight"), 100.0),
        (("tracks", 0, "observed"), "20"),
        (("tracks", 0, "since_s"), 1e9),
    ],
)
def test_a_bad_state_is_refused(path, value):
    with pytest.raises(ValueError, match=r"."):
        ForecastMonitor.from_state(broken(path, value))


def test_states_that_are_no_states_are_refused():
    twice = told([True]).to_state()
    twice["tracks"] = twice["tracks"] * 2
    crowded = told([True]).to_state()
    crowded["tracks"] = [crowded["tracks"][0] | {"pool": str(k)} for k in range(3)]
    crowded["most_streams"] = 2
    for state in (None, [], "", {}, twice, crowded):
        with pytest.raises(ValueError, match=r"state|stream"):
            ForecastMonitor.from_state(state)
