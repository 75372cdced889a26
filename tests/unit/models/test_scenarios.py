"""Scenarios against brute force and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from models.scenarios.stretches import PastStretches, _Survival, cell_arrivals, cell_peaks

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
EDGES = np.array([0.0, 1.0, 2.0, 5.0, 12.0])

lives = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 15), st.integers(1, 4)), max_size=12)
instants = st.lists(st.integers(-3, 25), min_size=1, max_size=5, unique=True).map(sorted)


def columns(jobs):
    ordered = sorted(jobs)
    submit = np.array([float(submit_s) for submit_s, _, _ in ordered])
    life = np.array([float(life_s) for _, life_s, _ in ordered])
    return submit, submit + life, np.array([gpus for _, _, gpus in ordered], dtype=np.int64)


@pytest.mark.parametrize("look_s", [3, 1800])
@given(lives, instants)
@settings(max_examples=100, deadline=None)
def test_peaks_and_arrivals_are_those_of_a_second_by_second_sweep(look_s, jobs, instants):
    submit, end, gpus = columns(jobs)
    at = np.array(instants, dtype=float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("models.scenarios.stretches.LOOK_S", float(look_s))
        peaks = cell_peaks(submit, end, gpus, at, EDGES)
    arrivals = cell_arrivals(submit, at, EDGES)
    for row, instant in enumerate(instants):
        new = [(s, s + life, width) for s, life, width in jobs if s > instant]
        for cell in range(len(EDGES) - 1):
            seconds = range(instant + int(EDGES[cell]), instant + int(EDGES[cell + 1]))
            held = (sum(width for s, e, width in new if s <= second < e) for second in seconds[:look_s])
            assert peaks[row, cell] == max(held)
            assert arrivals[row, cell] == sum(s in seconds for s, _, _ in new)


def test_many_instants_are_swept_in_blocks_that_agree(monkeypatch):
    rng = np.random.default_rng(1)
    submit = np.sort(rng.integers(0, 200, 60)).astype(float)
    end = submit + rng.integers(0, 30, 60)
    gpus = rng.integers(1, 5, 60)
    at = np.arange(0.0, 200.0, 7.0)
    whole = cell_peaks(submit, end, gpus, at, EDGES)
    monkeypatch.setattr("models.scenarios.stretches._BLOCK_ELEMENTS", 1)
    assert np.array_equal(cell_peaks(submit, end, gpus, at, EDGES), whole)


def test_survival_by_hand():
    survival = _Survival(np.array([10.0, 20.0, 15.0, 40.0]), np.array([True, True, False, True]))
    # alive: 3/4 from 10 on, 3/4 x 1/2 from 20 on (15 is an age: it left the risk set), 0 from 40 on
    ages = np.array([0.0, 0.0, 0.0, 12.0, 12.0, 80.0])
    levels = np.array([0.8, 0.5, 0.1, 0.6, 0.4, 0.25])
    assert survival.draw_s(ages, levels).tolist() == [10.0, 20.0, 40.0, 20.0, 40.0, 320.0]


def test_survival_beyond_what_was_seen_to_its_end_is_a_pareto_tail():
    survival = _Survival(np.array([10.0, 100.0]), np.array([True, False]))
    assert survival.draw_s(np.array([0.0, 0.0]), np.array([0.25, 0.1])).tolist() == [20.0, 50.0]
    nothing = _Survival(np.empty(0), np.empty(0, dtype=bool))
    assert nothing.draw_s(np.array([0.0, 7200.0]), np.array([0.5, 0.5])).tolist() == [7200.0, 14_400.0]


def library(quotas, *, num_scenarios=40, begin_s=0.0):
    return PastStretches(quotas, 0, num_scenarios, since_s=0.0, begin_s=begin_s)


def tell_hourly(stretches, from_s, until_s, pool="a", width=3):
    """At ten past each hour a job of `width` GPUs that runs for five minutes."""
    for start in np.arange(from_s + 600.0, until_s, HOUR_S).tolist():
        one = job(f"{pool}{start:g}", start, width, pool)
        stretches.arrived(one, start)
        stretches.started(one, start)
        stretches.ended(one, start + 300.0, 300.0)


def test_scenarios_of_a_regular_pool_by_hand():
    stretches = library({"a": 8}, begin_s=20 * DAY_S)
    tell_hourly(stretches, 0.0, 20 * DAY_S)
    peaks, arrivals = stretches.draw(20 * DAY_S)
    assert peaks.shape == arrivals.shape == (40, 1, 15)
    # ten past, within half an hour of the beginnings of the cells, seen from the hour and from half past
    on_the_hour = [0, 0, 0, 0, 3, 0, 0, 3, 3, 0, 0]
    at_half_past = [0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 3]
    assert np.unique(peaks[:, 0, :11], axis=0).tolist() == [at_half_past, on_the_hour]
    # beyond 16 h the latest stretches are filled from others, which may lie on the other side of the hour
    assert 0 < (peaks[:, 0, 11:] == 3).mean() < 1
    assert (arrivals[:, 0, 14] == 96).all()  # 4 to 8 days
    assert (arrivals[:, 0, 11] == 8).all()  # 16 h to a day


def test_stretches_are_those_of_the_same_hour_of_the_day_if_there_are_enough():
    stretches = library({"a": 8}, begin_s=20 * DAY_S)
    for day in range(20):
        at = day * DAY_S + 10 * HOUR_S + 60.0
        one = job(f"j{day}", at, 2)
        stretches.arrived(one, at)
        stretches.ended(one, at + 100.0, 100.0)
    assert stretches.draw(20 * DAY_S + 10 * HOUR_S)[0][:, 0, :6].any()
    for hour in (3, 7, 12, 22):
        assert not stretches.draw(20 * DAY_S + hour * HOUR_S)[0][:, 0, :6].any()
    assert (stretches.draw(20 * DAY_S + 22 * HOUR_S)[1][:, 0, 10] == 1).all()  # 512 min to 16 h


def test_a_scenario_is_the_same_stretch_in_every_pool():
    stretches = library({"a": 8, "b": 8}, begin_s=20 * DAY_S)
    rng = np.random.default_rng(3)
    for k, at in enumerate(np.sort(rng.uniform(0, 20 * DAY_S, 400)).tolist()):
        for pool, width in (("a", 1), ("b", 2)):
            one = job(f"{pool}{k}", at, width, pool)
            stretches.arrived(one, at)
            stretches.started(one, at)
            stretches.ended(one, at + 1000.0 + k, 1000.0 + k)
    peaks, arrivals = stretches.draw(20.4 * DAY_S)
    assert np.array_equal(peaks[:, 1], 2 * peaks[:, 0])
    assert np.array_equal(arrivals[:, 1], arrivals[:, 0])
    assert len(np.unique(peaks[:, 0], axis=0)) > 10


def test_what_is_not_over_in_any_past_stretch_is_continued_from_what_is():
    stretches = library({"a": 8}, begin_s=12 * HOUR_S)
    tell_hourly(stretches, 0.0, 12 * HOUR_S)
    peaks, arrivals = stretches.draw(12 * HOUR_S)
    assert (peaks[:, 0, 10:] == peaks[:, 0, 9:10]).all()  # known up to 512 min
    assert peaks[:, 0, 9].any()
    assert np.allclose(arrivals[:, 0, 14] / arrivals[:, 0, 9], 4 * DAY_S / (256 * 60))


def test_a_job_that_has_not_ended_holds_its_gpus_at_least_for_its_age():
    stretches = library({"a": 8}, begin_s=2 * DAY_S)
    tell_hourly(stretches, 0.0, DAY_S)
    long_one = job("long", DAY_S, 5)
    stretches.arrived(long_one, DAY_S)
    stretches.started(long_one, DAY_S)
    peaks, _ = stretches.draw(2 * DAY_S)
    near = stretches._instants == DAY_S - 1800.0
    cells = stretches._tables[0, near, 0][0]
    assert (cells[6:12] == 5).all()
    assert peaks.max() >= 5


def test_a_job_that_was_sent_back_has_the_age_of_its_longest_run():
    stretches = library({"a": 8})
    one = job("one", 0.0, 5)
    stretches.arrived(one, 0.0)
    stretches.started(one, 100.0)
    stretches.stopped(one, 5000.0)
    stretches.started(one, 6000.0)
    log = stretches._logs["a"]
    assert log.known(0.0, 50.0).life_s.tolist() == [0.0]
    assert log.known(0.0, 2100.0).life_s.tolist() == [2000.0]
    assert log.known(0.0, 6100.0).life_s.tolist() == [4900.0]
    assert log.known(0.0, 60_000.0).life_s.tolist() == [54_000.0]
    stretches.ended(one, 70_000.0, 64_000.0)
    assert log.known(0.0, 60_000.0).life_s.tolist() == [54_000.0]
    assert log.known(0.0, 80_000.0).life_s.tolist() == [64_000.0]


def test_a_draw_does_not_depend_on_earlier_ones():
    often, once = library({"a": 8}), library({"a": 8})
    rng = np.random.default_rng(5)
    for k, at in enumerate(np.sort(rng.uniform(0, 5 * DAY_S, 300)).tolist()):
        for stretches in (often, once):
            one = job(f"j{k}", at, 1 + k % 3)
            stretches.arrived(one, at)
            stretches.started(one, at)
            if k % 4 == 0:
                stretches.stopped(one, at)
                stretches.started(one, at)
            if k % 5:
                stretches.ended(one, at, 500.0)
        often.draw(at)
    for now_s in (5 * DAY_S + 60.0, 5 * DAY_S + 3599.0):
        assert all(np.array_equal(a, b) for a, b in zip(often.draw(now_s), once.draw(now_s), strict=True))
    assert not np.array_equal(often.draw(5.5 * DAY_S)[0], once.draw(5.6 * DAY_S)[0])


def test_nothing_known_is_the_whole_quota():
    peaks, arrivals = library({"a": 8, "b": 3}).draw(0.0)
    assert peaks.shape == (40, 2, 15)
    assert (peaks[:, 0] == 8).all()
    assert (arrivals[:, 1] == 3).all()


def test_the_library_takes_in_nothing_of_the_future():
    """Asked within the first twelve hours, when no past stretch is known yet."""
    stretches = library({"a": 8})
    tell_hourly(stretches, 0.0, 3 * HOUR_S)
    for now_s in (3 * HOUR_S, 4 * HOUR_S):
        assert (stretches.draw(now_s)[0] == 8).all()
    assert stretches._next_s == 12 * HOUR_S


def test_draws_are_read_only():
    peaks, _ = library({"a": 8}).draw(0.0)
    with pytest.raises(ValueError, match="read-only"):
        peaks[0, 0, 0] = 1.0


def test_the_age_of_a_job_that_shared_its_gpus_is_its_work_as_of_any_instant():
    stretches = library({"a": 8})
    one = job("one", 0.0, 5)
    stretches.arrived(one, 0.0)
    stretches.started(one, 100.0)
    stretches.rate_changed(one, 1100.0, 0.5)
    stretches.rate_changed(one, 3100.0, 1.0)
    stretches.rate_changed(one, 4100.0, 0.25)
    log = stretches._logs["a"]
    ages_s = {600.0: 500.0, 2100.0: 1500.0, 3100.0: 2000.0, 4100.0: 3000.0, 8100.0: 4000.0}
    for as_of_s, age_s in ages_s.items():
        assert log.known(0.0, as_of_s).life_s.tolist() == [age_s]
    stretches.stopped(one, 8100.0)
    stretches.started(one, 9000.0)
    for as_of_s, age_s in (ages_s | {9100.0: 4000.0, 14_000.0: 5000.0}).items():
        assert log.known(0.0, as_of_s).life_s.tolist() == [age_s], "alone again, and told of later"
    stretches.ended(one, 20_000.0, 7000.0)
    assert log.known(0.0, 30_000.0).life_s.tolist() == [7000.0]
