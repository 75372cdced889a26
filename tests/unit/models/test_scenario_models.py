"""What every generator of scenarios has to do, and what the conditional ones do beyond the bootstrap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from models.scenarios import SCENARIO_MODELS, scenario_model
from models.scenarios.corrected import CorrectedStretches
from models.scenarios.nearest import FEATURES, NearestStretches, _places, pool_states, states_at
from models.scenarios.stretches import PastStretches, PoolLog

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
CONDITIONAL = ("nearest", "corrected")


def made(name, quotas, *, num_scenarios=40, begin_s=0.0):
    return SCENARIO_MODELS[name](quotas, 0, num_scenarios, since_s=0.0, begin_s=begin_s)


def random_history(seed, until_s, pools=("a", "b"), number=400, ln_life=6.0):
    """(submit, end, width, pool) of jobs that come in bursts."""
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.uniform(0, until_s, number)).tolist()
    rows = []
    for start in starts:
        pool = pools[int(rng.integers(len(pools)))]
        for k in range(int(rng.geometric(0.4))):
            submit = start + 30.0 * k
            if submit < until_s:
                rows.append(
                    (submit, submit + float(rng.lognormal(ln_life, 1.5)), int(rng.integers(1, 5)), pool)
                )
    return rows


def facts_of(rows):
    facts = []
    for k, (submit, end, width, pool) in enumerate(rows):
        one = job(f"{k}", submit, width, pool)
        facts += [(submit, 0, k, one, 0.0), (submit, 1, k, one, 0.0), (end, 2, k, one, end - submit)]
    return sorted(facts, key=lambda fact: fact[:3])


def tell(stretches, facts, until_s=np.inf, ask_every_s=None):
    """Tell all facts before `until_s`, asking on the way where wanted."""
    asked_s = 0.0
    for at_s, kind, _, one, life_s in facts:
        if at_s >= until_s:
            break
        while ask_every_s is not None and asked_s < at_s:
            if asked_s >= stretches._begin_s:
                stretches.draw(asked_s)
            asked_s += ask_every_s
        if kind == 2:
            stretches.ended(one, at_s, life_s)
        else:
            (stretches.arrived, stretches.started)[kind](one, at_s)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_an_unknown_generator_is_refused():
    assert scenario_model("bootstrap") is PastStretches
    with pytest.raises(ValueError, match="must be one of bootstrap, nearest, corrected"):
        scenario_model("crystal ball")


@pytest.mark.parametrize("name", SCENARIO_MODELS)
@given(st.integers(0, 10_000), st.floats(0.2, 4.0))
@settings(max_examples=8, deadline=None)
def test_draws_are_whole_numbers_of_gpus_that_something_past_has_held(name, seed, days):
    rows = random_history(seed, days * DAY_S)
    stretches = made(name, {"a": 8, "b": 5})
    tell(stretches, facts_of(rows), days * DAY_S)
    peaks, arrivals = stretches.draw(days * DAY_S)
    assert peaks.shape == arrivals.shape == (40, 2, 15)
    assert (peaks >= 0).all()
    assert (peaks == np.round(peaks)).all()
    assert (arrivals >= 0).all()
    need = stretches.need(days * DAY_S)
    assert np.array_equal(need, np.minimum(peaks, [[8], [5]]))
    for values in (peaks, arrivals):
        with pytest.raises(ValueError, match="read-only"):
            values[0, 0, 0] = 1.0


@pytest.mark.parametrize("name", SCENARIO_MODELS)
def test_a_draw_is_the_same_however_often_it_was_asked_for(name):
    facts = facts_of(random_history(1, 6 * DAY_S))
    often, once = (
        made(name, {"a": 8, "b": 8}, begin_s=2 * DAY_S),
        made(name, {"a": 8, "b": 8}, begin_s=2 * DAY_S),
    )
    now_s = 6 * DAY_S + 705.0
    tell(often, facts, now_s, ask_every_s=1800.0)
    tell(once, facts, now_s)
    first = once.draw(now_s)
    assert same(often.draw(now_s), first)
    assert same(once.draw(now_s + 14.0), first)
    assert not same(once.draw(now_s + HOUR_S), first)


@pytest.mark.parametrize("name", SCENARIO_MODELS)
def test_a_fresh_draw_is_another_one_of_the_same_kind_and_changes_no_usual_one(name):
    now_s, facts = 6 * DAY_S + 705.0, facts_of(random_history(1, 6 * DAY_S))
    asked, silent = (made(name, {"a": 8, "b": 8}, begin_s=2 * DAY_S) for _ in range(2))
    for stretches in (asked, silent):
        tell(stretches, facts, now_s)
    fresh = asked.fresh(now_s)
    assert same(asked.fresh(now_s), fresh)
    assert not same(fresh, silent.draw(now_s))
    assert same(asked.draw(now_s), silent.draw(now_s))
    assert [table.shape for table in fresh] == [table.shape for table in silent.draw(now_s)]


@pytest.mark.parametrize("name", SCENARIO_MODELS)
def test_the_whole_quota_before_anything_is_known(name):
    stretches = made(name, {"a": 8, "b": 3})
    peaks, arrivals = stretches.draw(0.0)
    assert (peaks[:, 0] == 8).all()
    assert (arrivals[:, 1] == 3).all()
    one = job("j", 600.0, 2)
    stretches.arrived(one, 600.0)
    assert (stretches.draw(3 * HOUR_S)[0][:, 0] == 8).all()


def forecasts(name, facts, cut_s, told_ahead_s=0.0):
    """All draws up to the cut, asked hourly, of one who is told everything in its time, or ahead of it."""
    stretches, place, seen = made(name, {"a": 8, "b": 8}, begin_s=DAY_S), 0, []
    for now_s in np.arange(DAY_S, cut_s + 1.0, HOUR_S).tolist():
        while place < len(facts) and facts[place][0] <= now_s + told_ahead_s:
            tell(stretches, facts[place : place + 1])
            place += 1
        seen += [stretches.draw(now_s), stretches.fresh(now_s)]
    return seen


def future_versions(seed, cut_s):
    """A history, and two others that differ from it after the cut only: nothing comes, or something else."""
    rows = random_history(seed, 5 * DAY_S, ln_life=9.0)
    kept = [row for row in rows if row[0] <= cut_s]
    rng = np.random.default_rng(seed + 1)
    longer = [(s, e if e <= cut_s else e + float(rng.uniform(1, 9e4)), w, p) for s, e, w, p in kept]
    other = [(s + cut_s, e + cut_s, w, p) for s, e, w, p in random_history(seed + 1, DAY_S)]
    return [facts_of(kept), facts_of(longer + other)], facts_of(rows)


@pytest.mark.parametrize("name", SCENARIO_MODELS)
def test_deleting_or_rewriting_the_future_changes_no_past_draw(name):
    for seed in range(2):
        cut_s = (3.05 + 0.7 * seed) * DAY_S
        others, facts = future_versions(seed, cut_s)
        seen = forecasts(name, facts, cut_s)
        for other in others:
            assert all(same(a, b) for a, b in zip(seen, forecasts(name, other, cut_s), strict=True))


@pytest.mark.parametrize("name", SCENARIO_MODELS)
def test_a_leak_planted_on_purpose_is_caught(name, monkeypatch):
    """Told a day ahead, a generator still keeps to what lies before its slot; one that does not is seen."""
    cut_s = 2.55 * DAY_S
    others, facts = future_versions(0, cut_s)
    assert all(
        same(a, b) for a, b in zip(*(forecasts(name, facts, cut_s, s) for s in (0.0, DAY_S)), strict=True)
    )
    intake = PastStretches._refresh_until
    monkeypatch.setattr(PastStretches, "_refresh_until", lambda self, until_s: intake(self, until_s + DAY_S))
    honest, other = (forecasts(name, version, cut_s, DAY_S) for version in (facts, others[1]))
    assert not all(same(a, b) for a, b in zip(honest, other, strict=True))


def test_a_state_is_what_arrived_before_the_instant_and_not_at_it():
    log = PoolLog()
    for at_s, width in ((0.0, 4), (900.0, 1), (1000.0, 2), (1200.0, 8)):
        log.add(width, 0.5, at_s)
    states = np.expm1(pool_states(log, np.array([1200.0, 1300.0, 1300.0 + 8 * HOUR_S])))
    assert [what for what, _ in FEATURES] == ["jobs", "gpus", "gpus", "gpus", "gpus"]
    assert np.allclose(states, [[2, 3, 7, 7, 7], [2, 10, 15, 15, 15], [0, 0, 0, 0, 0]])
    assert np.array_equal(pool_states(PoolLog(), np.array([5.0])), np.zeros((1, 5)))
    for at_s in (0.0, 1200.0, 1300.0, 1300.0 + 8 * HOUR_S):
        one_by_one = [pool_states(one, np.array([at_s]))[0] for one in (log, PoolLog())]
        assert np.array_equal(states_at([log, PoolLog()], at_s), one_by_one)


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_places_are_those_of_a_weighted_quantile(seed):
    rng = np.random.default_rng(seed)
    chances = rng.uniform(0.01, 1.0, (3, 7))
    levels = np.sort(rng.uniform(0, 1, 11))
    places = _places(chances, levels)
    for row, weights in enumerate(chances):
        reached = np.cumsum(weights) / weights.sum()
        for place, level in zip(places[row], levels, strict=True):
            assert reached[place] >= level - 1e-9
            assert place == 0 or reached[place - 1] < level + 1e-9


def bursts_that_go_on(days, pools=("a",)):
    """Each day at a few odd times ten jobs a minute apart of 2 GPUs; else nothing."""
    rng = np.random.default_rng(7)
    rows = []
    for start in np.sort(rng.uniform(0, days * DAY_S, 8 * days)).tolist():
        for pool in pools:
            rows += [(start + 60.0 * k, start + 60.0 * k + 600.0, 2, pool) for k in range(40)]
    return rows


@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_burst_under_way_is_expected_to_go_on_and_silence_to_last(name):
    facts = facts_of(bursts_that_go_on(12))
    now_s = 12 * DAY_S + 12 * HOUR_S
    drawn = {}
    for is_burst in (True, False):
        stretches = made(name, {"a": 40}, begin_s=12 * DAY_S)
        tell(stretches, [fact for fact in facts if fact[0] < 12 * DAY_S])
        if is_burst:
            for k in range(10):
                at_s = now_s - 600.0 + 60.0 * k
                stretches.arrived(job(f"new{k}", at_s, 2), at_s)
        drawn[is_burst] = stretches.draw(now_s)[0][:, 0, :4].mean()
    assert drawn[True] > 1.0 > 10 * drawn[False]


@pytest.mark.parametrize("name", CONDITIONAL)
def test_pools_that_have_peaked_together_do_so_in_the_scenarios(name):
    twins = facts_of(bursts_that_go_on(12, ("a", "b")))
    stretches = made(name, {"a": 80, "b": 80, "c": 80}, num_scenarios=200, begin_s=12 * DAY_S)
    tell(stretches, twins, 12 * DAY_S)
    peaks = stretches.draw(12 * DAY_S)[0]
    for cell in range(6, 12):
        assert peaks[:, 0, cell].std() > 0
        assert np.corrcoef(peaks[:, 0, cell], peaks[:, 1, cell])[0, 1] > 0.8
    assert not peaks[:, 2].any()  # a pool that never had a job wants nothing


def test_pools_that_have_nothing_to_do_with_each_other_stay_apart():
    rows = random_history(3, 12 * DAY_S, ("a", "b"), 2000)
    stretches = made("nearest", {"a": 80, "b": 80}, num_scenarios=200, begin_s=12 * DAY_S)
    tell(stretches, facts_of(rows), 12 * DAY_S)
    peaks = stretches.draw(12 * DAY_S)[0]
    assert abs(np.corrcoef(peaks[:, 0, 8], peaks[:, 1, 8])[0, 1]) < 0.4


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_scenarios_keep_the_ranks_of_the_stretches_they_follow(seed):
    """Schaake shuffle: where a stretch held more than another, its scenario holds no less."""
    rows = random_history(seed, 4 * DAY_S, number=200)
    stretches = made("nearest", {"a": 9, "b": 9}, begin_s=4 * DAY_S)
    tell(stretches, facts_of(rows), 4 * DAY_S)
    peaks = stretches.draw(4 * DAY_S)[0]
    followed = PastStretches._draw(stretches, 4 * DAY_S)[0]
    for pool in range(2):
        for cell in range(15):
            order = np.lexsort((peaks[:, pool, cell], followed[:, pool, cell]))
            by_stretch, by_scenario = followed[order, pool, cell], peaks[order, pool, cell]
            tops = np.maximum.accumulate(by_scenario)
            is_next = by_stretch[1:] > by_stretch[:-1]
            assert (by_scenario[1:][is_next] >= tops[:-1][is_next]).all()


def test_a_pool_whose_first_job_came_today_wants_its_quota_until_tomorrow():
    stretches = made("nearest", {"a": 8, "b": 6}, begin_s=3 * DAY_S)
    tell(stretches, facts_of(random_history(4, 3 * DAY_S, ("a",))), 3 * DAY_S)
    assert not stretches.draw(3 * DAY_S)[0][:, 1].any()
    stretches.arrived(job("first", 3.1 * DAY_S, 2, "b"), 3.1 * DAY_S)
    peaks, arrivals = stretches.draw(3.2 * DAY_S)
    assert (peaks[:, 1] == 6).all()
    assert (arrivals[:, 1] == 6).all()
    assert (stretches.draw(4.2 * DAY_S)[0][:, 1] < 6).any()


def growing(days):
    """One job an hour, wider every day: a library of the past is always behind it."""
    return [(h * HOUR_S + 600.0, h * HOUR_S + 2400.0, 1 + h // 24, "a") for h in range(24 * days)]


def test_levels_rise_where_the_sum_is_missed_and_fall_back_where_it_is_not():
    stretches = made("corrected", {"a": 100}, begin_s=2 * DAY_S)
    tell(stretches, facts_of(growing(8)), 8 * DAY_S)
    stretches.draw(8 * DAY_S)
    raised = stretches.tilts
    assert raised[4] > 0.3
    assert (raised <= 1.5).all()
    assert raised[0] == 0.0  # ten past is never within a minute of the hour
    for hour in range(8 * 24, 16 * 24):
        at_s = hour * HOUR_S + 600.0
        one = job(f"late{hour}", at_s, 1)
        stretches.arrived(one, at_s)
        stretches.started(one, at_s)
        stretches.ended(one, at_s, 60.0)
    stretches.draw(16 * DAY_S)
    assert stretches.tilts[4] < raised[4] - 0.3
    assert (stretches.tilts >= 0.0).all()


def test_raised_levels_raise_the_draws_and_no_tilt_changes_nothing():
    facts = facts_of(random_history(5, 6 * DAY_S))
    plain, corrected = (made(name, {"a": 50, "b": 50}, begin_s=6 * DAY_S) for name in CONDITIONAL)
    for stretches in (plain, corrected):
        tell(stretches, facts, 6 * DAY_S)
        stretches.draw(6 * DAY_S)
    assert isinstance(corrected, CorrectedStretches)
    assert isinstance(plain, NearestStretches)
    state = np.zeros((2, len(FEATURES)))
    ranks = plain._ranks(6 * DAY_S)
    corrected._tilts[:] = 0.0
    assert np.array_equal(
        corrected._condition(6 * DAY_S, state, ranks), plain._condition(6 * DAY_S, state, ranks)
    )
    corrected._tilts[:] = 1.0
    higher, lower = (one._condition(6 * DAY_S, state, ranks)[0] for one in (corrected, plain))
    assert (higher >= lower).all()
    assert higher.mean() > 1.1 * lower.mean()


def test_what_was_forecast_is_compared_with_what_came_cell_by_cell():
    stretches = made("corrected", {"a": 100}, begin_s=0.0)
    tell(stretches, facts_of(growing(3)), 2 * DAY_S)
    stretches.draw(2 * DAY_S)
    hours = [one.row * 1800.0 / HOUR_S for one in stretches._open]
    assert hours == list(range(12, 48))  # from the first intake that knew something, to now
    assert [one.settled for one in stretches._open][:1] == [int(stretches._known[24])]
    assert stretches._open[-1].settled == 6  # its cells up to 32 min are over, an hour later


def test_a_draw_stands_until_somebody_has_arrived_or_for_five_minutes():
    """Arrivals at 1,000 s and 1,030 s: seen in the slots that begin at 1,020 s and 1,080 s; then 1,200 s."""
    generator = NearestStretches({"a": 8}, 1, 4, since_s=0.0, begin_s=0.0)
    for k in range(200):
        generator.arrived(job(f"early{k}"), 4.0 * k)
    generator.arrived(job("one"), 1000.0)
    generator.arrived(job("two"), 1030.0)
    asked = (900.0, 1019.0, 1020.0, 1079.0, 1080.0, 1199.0, 1200.0, 1499.0, 1500.0)
    begins = [generator._slot_begin_s(now_s) for now_s in asked]
    assert begins == [900.0, 900.0, 1020.0, 1020.0, 1080.0, 1080.0, 1200.0, 1200.0, 1500.0]
    assert generator.draw(1081.0)[0] is generator.draw(1199.0)[0]
