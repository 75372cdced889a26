"""Demand that is watched: off where forecasts do not keep what they say, on again when they do."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.timegrid import default_grid
from models.calibration.monitor import ForecastMonitor, StreamKey
from models.demand.pools import PoolDemand
from models.demand.watched import ARRIVALS, LEVEL, SLOT_S, WATCHED_S, WatchedDemand

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
EDGES_S = np.array(default_grid().edges_s)
NUM_SCENARIOS = 100


@cache
def drawn(rates_per_h: tuple[float, ...], minute_of_day: int) -> np.ndarray:
    """Jobs that come by chance in each cell, up to 16 h ahead, in a hundred scenarios."""
    means = np.outer(rates_per_h, np.diff(EDGES_S) * (EDGES_S[1:] <= WATCHED_S[-1])) / HOUR_S
    rng = np.random.default_rng([7, minute_of_day])
    return rng.poisson(means, (100, *means.shape)).astype(float)


class PoissonDemand(PoolDemand):
    """Says for ever that jobs come by chance at the same rates; each holds a GPU until the cell is over."""

    def __init__(self, rates_per_h: dict[str, float]) -> None:
        super().__init__(dict.fromkeys(rates_per_h, 50), has_quantiles=False)
        self._rates_per_h = tuple(rates_per_h.values())

    def arrivals(self, now_s):
        self._pass_time(now_s)
        return drawn(self._rates_per_h, math.floor(now_s % DAY_S / 60.0))

    def peaks(self, now_s):
        return self.arrivals(now_s)

    def new_load_gpus(self, window_s, now_s):  # noqa: ARG002
        return dict.fromkeys(self.pools, 1.0)


class Recorder(ForecastMonitor):
    """Remembers what it is told."""

    def __init__(self):
        super().__init__()
        self.told = []

    def observe(self, key, level, is_miss, now_s, weight=1.0):
        self.told.append((key, level, is_miss, now_s, weight))
        super().observe(key, level, is_miss, now_s, weight)


def come(pool: str, per_h: float, from_s: float, until_s: float, seed: int) -> list:
    rng = np.random.default_rng(seed)
    number = rng.poisson(per_h * (until_s - from_s) / HOUR_S)
    return [job(f"{pool}{at:.9f}", at, 1, pool) for at in rng.uniform(from_s, until_s, number).tolist()]


def tell(demand, jobs: list) -> None:
    for one in sorted(jobs, key=lambda one: one.submit_s):
        demand.submitted(one, one.submit_s)


def is_off_by_slot(demand: WatchedDemand, jobs: list, until_s: float) -> np.ndarray:
    """(slots, pools, windows) told all jobs, and looked at just after each slot begins."""
    waiting, found = sorted(jobs, key=lambda one: one.submit_s), []
    for slot in range(int(until_s / SLOT_S)):
        at_s = slot * SLOT_S + 1.0
        while waiting and waiting[0].submit_s <= at_s:
            demand.submitted(waiting[0], waiting.pop(0).submit_s)
        demand.bursts(at_s)
        found.append(demand.is_off)
    return np.array(found)


def test_the_windows_are_the_edges_of_the_grid_nearest_to_those_of_sia():
    nearest = [
        EDGES_S[1:][np.abs(np.log(EDGES_S[1:] / wanted_s)).argmin()] for wanted_s in (300, 3600, 43_200)
    ]
    assert list(WATCHED_S) == nearest


def test_a_pool_whose_arrivals_jump_is_off_until_they_are_as_said_again():
    """Off within a day; two days of six times as much are forgiven in two weeks, 16 h ahead much later."""
    jobs = come("steady", 2.0, 0.0, 40 * DAY_S, 1)
    for per_h, from_d, until_d in ((1.0, 0, 2), (6.0, 2, 4), (1.0, 4, 40)):
        jobs += come("jumps", per_h, from_d * DAY_S, until_d * DAY_S, from_d)
    is_off = is_off_by_slot(WatchedDemand(PoissonDemand({"steady": 2.0, "jumps": 1.0})), jobs, 40 * DAY_S)
    days = np.arange(len(is_off)) * SLOT_S / DAY_S
    assert not is_off[:, 0].any()
    assert not is_off[days < 2].any()
    soon = is_off[:, 1, :2]
    assert soon[(days > 3) & (days < 4)].all()
    assert not soon[days > 20].any()


def test_what_is_off_is_answered_for_with_the_whole_quota_as_far_as_the_window_reaches():
    inside = PoissonDemand({"a": 1.0, "b": 1.0})
    demand = WatchedDemand(inside)
    for key in (StreamKey(ARRIVALS, "b", WATCHED_S[1]), StreamKey("life", "a", 1.0)):
        for k in range(20):
            demand.monitor.observe(key, 0.95, True, float(k))
    demand.bursts(0.0)
    demand.bursts(1.0)
    assert demand.is_off.tolist() == [[False] * 3, [False, True, False]]
    within = (EDGES_S[1:] <= WATCHED_S[1]) & (EDGES_S[1:] > WATCHED_S[0])
    for ours, theirs in ((demand.peaks, inside.peaks), (demand.arrivals, inside.arrivals)):
        said, plain = ours(1.0), theirs(1.0)
        assert not said.flags.writeable
        np.testing.assert_array_equal(said[:, 0], plain[:, 0])
        np.testing.assert_array_equal(said[:, 1, ~within], plain[:, 1, ~within])
        np.testing.assert_array_equal(said[:, 1, within], np.maximum(plain[:, 1, within], 50.0))
    ((key, words),) = demand.reasons_off().items()
    assert key == ("b", WATCHED_S[1])
    assert "arrival forecasts of pool b over 3840 s miss 100.0% lately" in words[0]
    for window_s, wanted_gpus in ((300.0, 1.0), (3600.0, 50.0), (43_200.0, 1.0)):
        assert demand.new_load_gpus(window_s, 1.0) == {"a": 1.0, "b": wanted_gpus}


def test_pools_that_are_forecast_well_are_hardly_ever_off():
    """Eight pools from one job in four days to 40 an hour, 12 days."""
    rates = dict(zip("abcdefgh", np.geomspace(0.01, 40.0, 8).tolist(), strict=True))
    jobs = [
        one for k, (pool, per_h) in enumerate(rates.items()) for one in come(pool, per_h, 0, 12 * DAY_S, k)
    ]
    is_off = is_off_by_slot(WatchedDemand(PoissonDemand(rates)), jobs, 12 * DAY_S)
    assert is_off.any(axis=2).mean() < 0.02


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 24 * 30), max_size=60),
    st.lists(st.integers(0, 24 * 30), max_size=10),
)
def test_each_window_is_settled_once_with_what_came_in_it(arrived, asked):
    """Instants are multiples of two minutes, so that many lie on the edges of windows."""
    inside, monitor = PoissonDemand({"a": 1.0, "quiet": 0.1}), Recorder()
    demand = WatchedDemand(inside, monitor)
    demand.fit([], [(job("old", 0.0, 1, "a"), 0.0)], 0.0)
    submits = sorted(120.0 * at for at in arrived)
    events = sorted([(at, False) for at in submits] + [(120.0 * at, True) for at in asked])
    for place, (at_s, is_asked) in enumerate(events):
        if is_asked:
            demand.peaks(at_s)
            continue
        for one in (job(f"j{place}", at_s, 1, "a"), job("old", 0.0, 1, "a"), job(f"x{place}", at_s, 1, "x")):
            demand.submitted(one, at_s)
            demand.started(one, at_s)
    end_s = 2 * DAY_S
    demand.peaks(end_s)
    wanted = []
    for window_s in WATCHED_S:
        cells = EDGES_S[1:] <= window_s
        for begin_s in np.arange(0.0, end_s - window_s, SLOT_S).tolist():
            over_s = math.ceil((begin_s + window_s) / SLOT_S) * SLOT_S
            if over_s >= end_s:
                continue
            came = {"a": sum(begin_s < at < begin_s + window_s for at in submits), "quiet": 0}
            jobs = np.sort(drawn((1.0, 0.1), int(begin_s % DAY_S / 60.0))[:, :, cells].sum(axis=2), axis=0)
            for pool, said in zip(came, jobs.T, strict=True):
                most = said[math.ceil(LEVEL * 101) - 1]
                level = float((said <= most).sum()) / 101
                wanted.append((StreamKey(ARRIVALS, pool, window_s), level, bool(came[pool] > most), over_s))
    assert sorted(told[:4] for told in monitor.told) == sorted(wanted)
    assert {told[0].window_s: told[4] for told in monitor.told} == {
        240.0: 1.0,
        3840.0: 1800 / 3840,
        57_600.0: 1 / 32,
    }


def corrected() -> PoolDemand:
    return PoolDemand({"a": 8, "b": 5}, scenarios="corrected", num_scenarios=20, has_quantiles=False)


def lived(from_d: float, until_d: float) -> list:
    """Bursts of three every four hours in one pool, now and then a job in the other; each runs 20 min."""
    starts = np.arange(from_d * DAY_S + HOUR_S, until_d * DAY_S, 4 * HOUR_S).tolist()
    bursts = [job(f"a{at:g}-{k}", at + 20.0 * k, 2, "a") for at in starts for k in range(3)]
    return bursts + come("b", 0.3, from_d * DAY_S, until_d * DAY_S, int(from_d))


def test_while_it_is_trusted_it_says_what_the_model_inside_says():
    plain, watched = corrected(), WatchedDemand(corrected())
    past = [(one, 1200.0) for one in lived(0, 4) if one.submit_s + 1200.0 <= 4 * DAY_S]
    for each in (plain, watched):
        each.fit(past, [], 4 * DAY_S)
    events = [(one.submit_s, 0, one.job_id, one) for one in lived(4, 6)]
    events += [(at_s + 1200.0, 1, job_id, one) for at_s, _, job_id, one in events]
    for at_s, kind, _, one in sorted(events, key=lambda event: event[:3]):
        for each in (plain, watched):
            if kind:
                each.ended(one, at_s, 1200.0)
            else:
                each.submitted(one, at_s)
                each.started(one, at_s)
        if kind == 0:
            np.testing.assert_array_equal(watched.peaks(at_s), plain.peaks(at_s))
            np.testing.assert_array_equal(watched.arrivals(at_s), plain.arrivals(at_s))
            assert watched.bursts(at_s) == plain.bursts(at_s)
            assert watched.new_load_gpus(3600.0, at_s) == plain.new_load_gpus(3600.0, at_s)
    assert not watched.is_off.any()
    assert watched.reasons_off() == {}
    assert len(watched.monitor.report()) == 6
    with pytest.raises(ValueError, match="backwards"):
        watched.peaks(0.0)


def test_guests_sent_back_and_jobs_withdrawn_are_arrivals_like_any_other():
    monitor = Recorder()
    demand = WatchedDemand(PoissonDemand({"a": 0.001}), monitor)
    demand.bursts(0.0)
    demand.sent_back(job("s", 60.0, 1, "a"), 60.0)
    demand.cancelled(job("c", 120.0, 1, "a"), 120.0)
    demand.ended(job("e", 180.0, 1, "a"), 180.0, 60.0)
    demand.bursts(HOUR_S + 1.0)
    assert [told[2] for told in monitor.told if told[0].window_s == WATCHED_S[0]] == [True, False]


def test_rates_of_running_jobs_are_passed_on():
    """The watch passes them to the demand, and that to its facts and its stretches."""
    demand = PoolDemand({"a": 8})
    demand.fit([], [], 0.0)
    watched, one = WatchedDemand(demand), job("j")
    watched.started(one, 0.0)
    watched.rate_changed(one, 100.0, 0.5)
    assert demand._facts._running.age_s(one, 300.0) == 200.0
    assert demand._stretches._logs["a"].known(0.0, 300.0).life_s.tolist() == [200.0]
