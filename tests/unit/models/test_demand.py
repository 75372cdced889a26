"""The demand forecasts: features by hand, causality, recall where there is something to find."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from models.demand.arrivals import ArrivalForecaster, recall_target
from models.demand.facts import KeptRow, row_every_s
from models.demand.features import ENDED, FEATURE_NAMES, STARTED, SUBMITTED, WINDOWS_S, history_facts
from models.demand.pools import PoolDemand

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
QUOTAS = {"a": 8, "b": 5}


def bursts(days: float, *, pool: str = "a", width: int = 2) -> list[tuple]:
    """Every four hours on the hour three jobs, each of which runs for 20 minutes."""
    starts = np.arange(HOUR_S, days * DAY_S, 4 * HOUR_S).tolist()
    return [
        (job(f"{pool}{start:g}-{k}", start + 20.0 * k, width, pool), 1200.0)
        for start in starts
        for k in range(3)
    ]


def fitted(days: float, **options) -> PoolDemand:
    demand = PoolDemand(QUOTAS, **options)
    demand.fit(bursts(days), [], days * DAY_S)
    return demand


def tell(demand: PoolDemand, lived: list[tuple], until_s: float) -> None:
    for at, kind, one, duration_s in history_facts(lived, [], math.inf):
        if at <= until_s:
            told = {SUBMITTED: demand.submitted, STARTED: demand.started}
            told[kind](one, at) if kind != ENDED else demand.ended(one, at, duration_s)


# WillJobsArrive


def rows_with_signal(number: int, *, shift: float = 0.0, seed: int = 0) -> list[KeptRow]:
    """Two pools in which something comes the likelier, the larger the first feature."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(number):
        features = np.full((2, len(FEATURE_NAMES)), np.nan)
        features[:, -1] = rng.normal(size=2)
        came = features[:, -1] + rng.normal(size=2) > 1.2
        features[:, -1] -= shift
        rows.append(KeptRow(k * 660.0, features, np.stack([came, came]).astype(float)))
    return rows


def test_the_threshold_reaches_the_recall_and_follows_a_drift():
    rows = rows_with_signal(1500)
    forecaster = ArrivalForecaster(300.0, 0)
    assert forecaster.will_arrive(rows[0].features).all()  # nothing learned: yes
    forecaster.learn(rows)
    later = rows_with_signal(3000, shift=1.0, seed=1)
    came = np.array([row.outcomes[0] > 0 for row in later])

    def recall(part: slice) -> float:
        said = np.array([forecaster.will_arrive(row.features) for row in later[part]])
        return float(said[came[part]].mean())

    before = recall(slice(2000, 3000))
    moved = [KeptRow(row.instant_s + 1e7, row.features, row.outcomes) for row in later[:2000]]
    forecaster.catch_up(moved)
    assert before < 0.7
    assert recall(slice(2000, 3000)) >= recall_target(300.0) - 0.05
    said = np.array([forecaster.will_arrive(row.features) for row in later[2000:]])
    assert said[~came[2000:]].mean() < 0.6
    again = ArrivalForecaster(300.0, 0)
    again.restore(json.loads(json.dumps(forecaster.state())))
    assert (again.probability(later[0].features) == forecaster.probability(later[0].features)).all()
    assert again.state() == forecaster.state()


def test_too_little_to_learn_from_is_a_yes():
    for rows in (
        [],
        rows_with_signal(20),
        [row._replace(outcomes=row.outcomes * 0) for row in rows_with_signal(500)],
    ):
        forecaster = ArrivalForecaster(300.0, 0)
        forecaster.learn(rows)
        assert not forecaster.is_learned
        assert forecaster.will_arrive(np.zeros((2, len(FEATURE_NAMES)))).all()
        assert forecaster.probability(np.zeros((2, len(FEATURE_NAMES)))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_a_periodic_pool_is_foreseen_and_a_silent_one_is_not(window_s):
    demand, later = fitted(10), bursts(12)
    arrivals = np.array([one.submit_s for one, _ in later])
    said, came = [], []
    for now in np.arange(10 * DAY_S, 12 * DAY_S - window_s, 900.0).tolist():
        fresh = [(one, life) for one, life in later if now - 900.0 < one.submit_s <= now and now > 10 * DAY_S]
        for one, _ in fresh:
            demand.submitted(one, one.submit_s)
        will = demand.will_jobs_arrive(window_s, now)
        said.append(will["a"])
        came.append(bool(((arrivals > now) & (arrivals <= now + window_s)).any()))
        assert not will["b"]
        expected = 6.0 if will["a"] else 0.0
        assert window_s != 300.0 or demand.new_load_gpus(window_s, now) == {"a": expected, "b": 0.0}
    said, came = np.array(said), np.array(came)
    assert said[came].mean() >= recall_target(window_s)
    assert said.mean() <= came.mean() + 0.35


def test_answers_stand_for_a_slot_of_the_clock():
    demand = fitted(10)
    now = 10 * DAY_S
    before = demand.new_load_gpus(3600.0, now + 10.0)
    demand.submitted(job("wide", now + 20.0, 50, "a"), now + 20.0)
    assert demand.new_load_gpus(3600.0, now + 290.0) == before
    demand._arrivals[3600.0]._booster = None  # too little to learn from: the quota
    assert demand.new_load_gpus(3600.0, now + 290.0) == before
    assert demand.new_load_gpus(3600.0, now + 900.0) == {"a": 8.0, "b": 5.0}


# the whole


def test_nothing_learned_is_the_whole_quota():
    for demand in (PoolDemand(QUOTAS), PoolDemand(QUOTAS, num_scenarios=3)):
        if demand.peaks(0.0).shape[0] == 3:
            demand.fit([], [], 0.0)
        for window_s in WINDOWS_S:
            assert demand.new_load_gpus(window_s, 5.0) == {"a": 8.0, "b": 5.0}
            assert demand.will_jobs_arrive(window_s, 5.0) == {"a": True, "b": True}
        assert (demand.peaks(5.0) == np.array([8.0, 5.0])[:, None]).all()
        assert (demand.arrivals(5.0) == np.array([8.0, 5.0])[:, None]).all()
        assert demand.pools == ("a", "b")


def test_what_is_learned_on_the_way_replaces_the_safe_answer():
    demand = PoolDemand(QUOTAS, retrain_every_s=DAY_S, num_scenarios=20)
    tell(demand, bursts(9), 9 * DAY_S)
    assert demand.new_load_gpus(300.0, 9 * DAY_S)["b"] == 0.0
    peaks = demand.peaks(9 * DAY_S)
    assert peaks.shape == (20, 2, 15)
    assert not peaks[:, 1].any()
    assert peaks[:, 0].max() == 6.0
    only_once = PoolDemand(QUOTAS)
    tell(only_once, bursts(9), 9 * DAY_S)
    assert only_once.new_load_gpus(300.0, 9 * DAY_S)["b"] == 5.0


def answers(demand: PoolDemand, now_s: float) -> list:
    loads = [demand.new_load_gpus(window_s, now_s) for window_s in WINDOWS_S]
    said = [demand.quantiles(window_s, now_s) for window_s in demand.windows_s]
    quantiles = [(one.requested.tolist(), one.held.tolist()) for one in said]
    return [loads, quantiles, demand.peaks(now_s).tolist(), demand.arrivals(now_s).tolist()]


def test_same_facts_same_answers_whatever_is_asked_or_happens_later():
    def told(lived: list[tuple], *, curious: bool) -> list:
        demand = PoolDemand(QUOTAS, retrain_every_s=2 * DAY_S, num_scenarios=10)
        demand.fit(bursts(6), [], 6 * DAY_S)
        seen = []
        for day in (7, 8, 9):
            tell(demand, [one for one in lived if (day - 1) * DAY_S < one[0].submit_s], (day - 0.5) * DAY_S)
            if curious:
                demand.peaks((day - 0.5) * DAY_S)
            tell(demand, [one for one in lived if (day - 0.5) * DAY_S < one[0].submit_s], day * DAY_S)
            seen.append(answers(demand, day * DAY_S))
        return seen

    lived = bursts(9)
    changed = [(one, life if one.submit_s <= 7 * DAY_S - 1200.0 else 5.0) for one, life in lived]
    changed = [one for one in changed if not 8 * DAY_S < one[0].submit_s < 8.6 * DAY_S]
    first = told(lived, curious=False)
    assert told(lived, curious=True) == first
    other = told(changed, curious=False)
    assert other[0] == first[0]
    assert other[2] != first[2]


def test_a_job_told_twice_counts_once_and_other_pools_do_not_count():
    demand, twice = fitted(6), fitted(6)
    now = 6 * DAY_S
    one = job("new", now + 1.0, 4, "a")
    for told, times in ((demand, 1), (twice, 2)):
        for _ in range(times):
            told.submitted(one, now + 1.0)
            told.started(one, now + 1.0)
        for _ in range(times):
            told.ended(one, now + 50.0, 49.0)
    twice.submitted(job("elsewhere", now + 60.0, 4, "z"), now + 60.0)
    twice.ended(job("elsewhere", now + 60.0, 4, "z"), now + 61.0, 1.0)
    assert answers(demand, now + DAY_S) == answers(twice, now + DAY_S)


def test_a_job_of_the_history_that_has_not_ended_counts_with_its_age():
    demand = PoolDemand({"a": 8})
    old = job("old", 5 * DAY_S, 7, "a")
    waiting = job("waiting", 6 * DAY_S - 10.0, 3, "a")
    demand.fit(bursts(6), [(old, DAY_S), (waiting, 0.0)], 6 * DAY_S)
    facts = demand._facts
    assert dict(zip(FEATURE_NAMES, facts.features(300.0, 6 * DAY_S)[0], strict=True))["running"] == 1
    assert demand._stretches._logs["a"].known(0.0, 6 * DAY_S).life_s[-1] == 0.0
    assert demand.peaks(6 * DAY_S).max() >= 7.0
    assert DAY_S in demand._stretches._logs["a"].known(0.0, 30 * DAY_S).life_s  # nothing more was told
    demand.sent_back(old, 6 * DAY_S + 5.0)
    assert dict(zip(FEATURE_NAMES, facts.features(300.0, 6 * DAY_S + 5.0)[0], strict=True))["running"] == 0
    demand.started(waiting, 6 * DAY_S + 6.0)
    demand.ended(waiting, 6 * DAY_S + 16.0, 10.0)
    assert demand._stretches._logs["a"].known(0.0, 7 * DAY_S).life_s[-1] == 10.0


def test_a_job_of_the_history_of_which_nothing_is_told_leaves_when_expected():
    demand = PoolDemand({"a": 8})
    demand.fit(bursts(6), [(job("old", 6 * DAY_S - 600.0, 7, "a"), 600.0)], 6 * DAY_S)
    assert dict(zip(FEATURE_NAMES, demand._facts.features(3600.0, 6 * DAY_S)[0], strict=True))["running"] == 1
    assert (
        dict(zip(FEATURE_NAMES, demand._facts.features(3600.0, 6 * DAY_S + 3600.0)[0], strict=True))[
            "running"
        ]
        == 0
    )


def test_questions_and_histories_that_make_no_sense_are_refused():
    demand = fitted(6)
    with pytest.raises(ValueError, match="must be one of"):
        demand.new_load_gpus(600.0, 6 * DAY_S)
    with pytest.raises(ValueError, match="without quantiles"):
        PoolDemand(QUOTAS, has_quantiles=False).quantiles(300.0, 0.0)
    for windows_s in ((), (0.0,), (math.inf,)):
        with pytest.raises(ValueError, match="positive lengths"):
            PoolDemand(QUOTAS, windows_s=windows_s)
    with pytest.raises(ValueError, match="backwards"):
        demand.peaks(6 * DAY_S - 1.0)
    with pytest.raises(ValueError, match="late-one"):
        demand.fit([(job("late-one", 10.0), 5.0)], [], 14.0)
    with pytest.raises(ValueError, match="unborn"):
        demand.fit([], [(job("unborn", 15.0), 0.0)], 14.0)


# quantiles


def test_a_periodic_pool_has_its_bursts_in_the_quantiles_and_a_silent_one_has_none():
    demand = fitted(10)
    before = demand.quantiles(3600.0, 10 * DAY_S)  # the next burst comes after an hour, by a second
    assert before.levels[1:10] == pytest.approx([k / 10 for k in range(1, 10)])
    median = before.levels.index(0.5)
    assert before.requested[1].max() == 0.0
    whole = demand.quantiles(43_200.0, 10 * DAY_S)  # three bursts of six GPUs: the quota
    assert whole.requested[0, median] > 6.0
    assert whole.held[0, median] == 0.0  # each is over after 20 minutes


def test_other_windows_than_the_default_ones():
    demand = PoolDemand(QUOTAS, windows_s=(86_400.0, 1800.0), has_quantiles=True)
    demand.fit(bursts(8), [], 8 * DAY_S)
    assert demand.windows_s == (1800.0, 86_400.0)
    assert demand.new_load_gpus(86_400.0, 8 * DAY_S)["a"] > 0.0
    assert demand.quantiles(86_400.0, 8 * DAY_S).requested[0, 5] > 6.0
    with pytest.raises(ValueError, match="must be one of"):
        demand.quantiles(300.0, 8 * DAY_S)
    assert 0.85 > recall_target(1800.0) > 0.80
    assert recall_target(1.0) == 0.85
    assert recall_target(1e9) == 0.95


def test_a_pool_works_on_its_first_day():
    demand = PoolDemand({"a": 8, "new": 4}, num_scenarios=3)
    demand.fit(bursts(10), [], 10 * DAY_S)
    silent = demand.quantiles(3600.0, 10 * DAY_S).requested[1]
    now = 10 * DAY_S
    for k in range(12):
        now += 120.0
        demand.submitted(job(f"first{k}", now, 1, "new"), now)
    said = demand.quantiles(3600.0, now).requested[1]
    assert silent.max() <= said.max() <= 4.0
    assert said[-1] >= 1.0  # it has asked for 12 within the last half hour


@pytest.fixture(scope="module")
def busy() -> PoolDemand:
    demand = PoolDemand(QUOTAS, num_scenarios=2)
    demand.fit(bursts(5) + bursts(5, pool="b", width=1), [], 5 * DAY_S)
    return demand


@pytest.mark.parametrize("scenarios", ["bootstrap", "nearest", "corrected"])
@pytest.mark.parametrize("quotas", [{"a": 0, "b": 0}, {"a": 0, "b": 5}])
def test_a_pool_whose_nodes_are_all_gone_has_a_record_all_the_same(quotas, scenarios):
    """With its last node a pool loses its quota, not its history."""
    demand = PoolDemand(quotas, scenarios=scenarios, num_scenarios=4)
    demand.fit(bursts(4) + bursts(4, pool="b"), [], 4 * DAY_S)
    now_s = 4 * DAY_S + 600.0
    tell(demand, [(job("late", 4 * DAY_S + 60.0, 1, "a"), 60.0)], now_s)
    for window_s in WINDOWS_S:
        assert demand.new_load_gpus(window_s, now_s)["a"] == 0.0, "nobody is owed what is not there"
        assert np.isfinite(demand.quantiles(window_s, now_s).held).all()
    assert np.isfinite(demand.peaks(now_s)).all()


@settings(max_examples=50, deadline=None)
@given(
    window_s=st.sampled_from(WINDOWS_S),
    values=st.lists(st.floats(0, 1e6) | st.just(math.nan), min_size=2 * len(FEATURE_NAMES)),
)
def test_quantiles_do_not_decrease_and_stay_within_the_quota(busy, window_s, values):
    features = np.array(values[: 2 * len(FEATURE_NAMES)]).reshape(2, -1)
    for said in busy._forecasters[window_s].quantiles(features).values():
        assert (np.diff(said, axis=1) >= 0).all()
        assert (said >= 0).all()
        assert (said <= np.array([[8.0], [5.0]])).all()
        assert (said == np.round(said)).all()


# causality


def test_no_feature_and_no_forecast_sees_what_happens_later():
    now = 4 * DAY_S + 7000.0

    def seen(lived: list[tuple]) -> list:
        demand = fitted(4, retrain_every_s=DAY_S / 16)
        tell(demand, lived, now)
        found: list = []
        for window_s in WINDOWS_S:
            said = demand.quantiles(window_s, now)
            row = demand._rows.over(window_s)[-1]
            found += [
                demand._facts.features(window_s, now),
                said.requested,
                said.held,
                row.features,
                row.outcomes,
            ]
        return found

    rng = np.random.default_rng(0)
    known = [(job(f"x{k}", 4 * DAY_S + 500.0 * k, 1, "ab"[k % 2]), 700.0) for k in range(14)]
    arrivals = (now + 1.0 + rng.uniform(0, DAY_S, 50)).tolist()
    later = [(job(f"y{k}", at, 3, "a"), 5.0) for k, at in enumerate(arrivals)]
    whole = seen(known + later)
    # what ends after now may live as long as it likes
    longer = [(one, 9e5 if one.submit_s + life_s > now else life_s) for one, life_s in known]
    for changed in (known, longer + later[::2]):
        for mine, other in zip(whole, seen(changed), strict=True):
            np.testing.assert_equal(mine, other)
    # and the test would notice: a job of the past that is missing changes the features
    assert not np.array_equal(whole[0], seen(known[:-3])[0], equal_nan=True)


def test_a_planted_leak_is_caught():
    def features(told_until_s: float) -> np.ndarray:
        demand = fitted(6)
        # the leak: a job of the next hour is told of as if it had already come
        if told_until_s > 6 * DAY_S:
            demand._facts.arrived(job("leak", told_until_s, 2), 6 * DAY_S)
        return demand._facts.features(3600.0, 6 * DAY_S)

    assert not np.array_equal(features(6 * DAY_S), features(6 * DAY_S + HOUR_S), equal_nan=True)


def test_outcomes_are_taken_in_late_and_in_order():
    demand = fitted(8)
    bins = demand._forecasters[43_200.0]._of["requested"]
    settled = []
    for hours in (0.0, 1.0, 6.0, 13.0, 30.0):
        now = 8 * DAY_S + hours * HOUR_S
        demand.quantiles(43_200.0, now)
        settled.append(bins.settled_s)
        assert bins.settled_s + 43_200.0 <= now
        assert bins._adaptive.next_due_s() >= now - row_every_s(43_200.0)
    assert settled == sorted(settled)
    assert settled[-1] > settled[0]


def test_what_was_learned_can_be_stored_as_text_and_numbers():
    demand = fitted(8)
    demand.quantiles(3600.0, 8 * DAY_S)
    forecaster = demand._forecasters[3600.0]
    again = fitted(6)._forecasters[3600.0]
    again.restore(json.loads(json.dumps(forecaster.state())))
    features = demand._facts.features(3600.0, 8 * DAY_S)
    for target, said in forecaster.quantiles(features).items():
        assert (again.quantiles(features)[target] == said).all()
    assert again.state() == forecaster.state()
