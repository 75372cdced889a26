"""The demand forecasts: features by hand, causality, recall where there is something to find."""

import math

import numpy as np
import pytest
from support import job

from models.demand.features import (
    ENDED,
    FEATURE_NAMES,
    STARTED,
    SUBMITTED,
    WINDOWS_S,
    LearningRows,
    PoolFacts,
    history_facts,
)
from models.demand.pools import RECALLS, PoolDemand, fit_arrival_model

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
QUOTAS = {"a": 8, "b": 5}


def named(facts: PoolFacts, window_s: float, now_s: float) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, facts.features(window_s, now_s), strict=True))


def pool_with_arrivals(*instants_s: float, gpus: int = 1) -> PoolFacts:
    facts = PoolFacts(8, 0.0)
    for at in instants_s:
        facts.arrived(gpus, at)
    return facts


def bursts(days: float, *, pool: str = "a", width: int = 2) -> list[tuple]:
    """Every four hours on the hour three jobs, each of which runs for 20 minutes."""
    starts = np.arange(HOUR_S, days * DAY_S, 4 * HOUR_S).tolist()
    return [
        (job(f"{pool}{start:g}-{k}", start + 20.0 * k, width, pool), 1200.0)
        for start in starts
        for k in range(3)
    ]


def fitted(days: float, **settings) -> PoolDemand:
    demand = PoolDemand(QUOTAS, **settings)
    demand.fit(bursts(days), [], days * DAY_S)
    return demand


def tell(demand: PoolDemand, lived: list[tuple], until_s: float) -> None:
    for at, kind, one, duration_s in history_facts(lived, [], math.inf):
        if at <= until_s:
            told = {SUBMITTED: demand.submitted, STARTED: demand.started}
            told[kind](one, at) if kind != ENDED else demand.ended(one, at, duration_s)


# features


def test_arrivals_in_the_same_window_of_earlier_hours_and_days():
    now = 4 * DAY_S
    day_ago, hour_ago = now - DAY_S, now - HOUR_S
    facts = pool_with_arrivals(
        now - 2 * DAY_S + 300, day_ago, day_ago + 1, day_ago + 300, day_ago + 301, hour_ago + 5, now
    )
    row = named(facts, 300.0, now)
    assert row["arrivals_86400s_ago"] == 2  # (a day ago, + 300]: neither its first instant nor 301
    assert row["arrivals_172800s_ago"] == 1
    assert row["arrivals_259200s_ago"] == 0
    assert row["arrivals_3600s_ago"] == 1
    assert row["quota_gpus"] == 8


def test_a_window_that_reaches_past_now_is_cut_and_one_before_the_record_is_unknown():
    now = 1.5 * DAY_S
    row = named(pool_with_arrivals(now - 5400.0, now - 1800.0, now), 43_200.0, now)
    assert row["arrivals_3600s_ago"] == 2
    assert row["arrivals_7200s_ago"] == 3
    assert row["arrivals_86400s_ago"] == 0
    assert math.isnan(row["arrivals_172800s_ago"])


def test_recent_counts_are_scaled_up_where_the_record_is_too_short():
    facts = pool_with_arrivals(100.0, 2900.0, 5700.0, 5701.0, 6000.0)
    row = named(facts, 300.0, 6000.0)
    assert row["arrivals_last_1k"] == 2
    assert row["arrivals_last_10k"] == 3
    assert row["arrivals_last_100k"] == 5 * 30_000 / 6000
    facts.ended("x", 6000.0, 10.0)
    assert named(facts, 300.0, 6000.0)["completions_last_1k"] == 1


def test_running_jobs_are_expected_to_end_at_the_median_life_above_their_age():
    facts = PoolFacts(8, 0.0)
    for k, life in enumerate((100.0, 200.0, 2000.0)):
        facts.ended(f"past{k}", 10.0, life)
    facts.started("one", 1000.0)  # expected to end at 1200
    facts.started("two", 1050.0, age_s=150.0)  # the median above 150 is 2000: it ends at 2900
    soon, later = "expected_to_finish_within_k", "expected_to_finish_later"
    assert [named(facts, 300.0, 1100.0)[name] for name in (soon, later)] == [1, 1]
    assert [named(facts, 3600.0, 1100.0)[name] for name in (soon, later)] == [2, 0]
    # at 1200 "one" has outlived its expectation: 2000 is the median above 200
    assert [named(facts, 300.0, 1250.0)[name] for name in (soon, later)] == [0, 2]
    # at 2900 and 3000 both are older than any life: twice the age
    assert [named(facts, 300.0, 3500.0)[name] for name in (soon, later)] == [0, 2]
    facts.stopped("one", 3500.0)
    facts.ended("two", 3600.0, 2700.0)
    assert [named(facts, 300.0, 3600.0)[name] for name in (soon, later)] == [0, 0]


def test_an_expectation_is_renewed_as_of_the_instant_it_passed():
    facts = PoolFacts(8, 0.0)
    for k, life in enumerate((100.0, 200.0, 2000.0)):
        facts.ended(f"past{k}", 10.0, life)
    facts.started("one", 1000.0)  # expected at 1200, then 3000, then at twice the age of 2000: 5000
    assert named(facts, 300.0, 4800.0)["expected_to_finish_within_k"] == 1


def test_running_jobs_of_which_nothing_is_told_again_leave_when_expected():
    facts = PoolFacts(8, 0.0)
    facts.ended("past", 10.0, 500.0)
    facts.started("silent", 1000.0)
    facts.started("told", 1000.0)
    facts.leave_untold()
    facts.started("told", 1100.0)
    assert named(facts, 300.0, 1499.0)["expected_to_finish_within_k"] == 2
    assert named(facts, 3600.0, 1700.0)["expected_to_finish_within_k"] == 1


def test_load_estimate_is_the_largest_sliding_window_of_the_last_three_busy_ones():
    facts = PoolFacts(8, 0.0)
    assert facts.load_estimate(300.0, 0.0) == 0
    facts.arrived(3, 290.0)
    facts.arrived(4, 310.0)  # within 300 s of the other, though in the next window of the clock
    assert facts.load_estimate(300.0, 320.0) == 7
    assert facts.load_estimate(300.0, 1e6) == 7
    assert facts.load_estimate(300.0, 1199.0, count_quiet=True) == 7
    assert facts.load_estimate(300.0, 1200.0, count_quiet=True) == 0
    for k in range(2):
        facts.arrived(1, 10_000.0 + 1000 * k)
    assert facts.load_estimate(300.0, 15_000.0) == 7
    facts.arrived(2, 16_000.0)
    assert facts.load_estimate(300.0, 16_000.0) == 2


def test_rows_to_learn_from_lie_on_the_raster_and_know_whether_a_job_arrived():
    rows, pools = LearningRows(), [pool_with_arrivals(500.0, 1800.0), pool_with_arrivals()]
    rows.keep(pools, 0.0, 1800.0)  # instants 0, 600 and 1200 for the 5-min window
    features, labels = rows.labelled(pools, 300.0, 1800.0)
    assert features.shape == (3, 2, len(FEATURE_NAMES))
    assert labels.tolist() == [[False, False], [False, False], [False, False]]
    rows.keep(pools, 1800.0, 1801.0)
    assert len(rows.labelled(pools, 300.0, 2099.0)[0]) == 3  # the window of 1800 is not over
    assert len(rows.labelled(pools, 300.0, 2100.0)[0]) == 4
    assert rows.labelled(pools, 3600.0, 3600.0)[1].tolist() == [[True, False]]


# WillJobsArrive


def test_the_threshold_reaches_the_recall_on_each_held_out_part():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(1500, 2, 1))
    labels = (signal[..., 0] + rng.normal(size=(1500, 2))) > 1.2
    for recall in (0.6, 0.95):
        model = fit_arrival_model(signal, labels, recall=recall, gap=1, seed=0)
        assert model is not None
        found = model.will_arrive(signal[labels]).mean()
        assert found >= recall - 0.02
        assert model.will_arrive(signal[~labels]).mean() < found - 0.3
    assert fit_arrival_model(signal, np.zeros_like(labels), recall=0.9, gap=1, seed=0) is None
    assert fit_arrival_model(signal[:20], labels[:20], recall=0.9, gap=1, seed=0) is None
    assert fit_arrival_model(signal, labels, recall=0.9, gap=1500, seed=0) is None


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
    assert said[came].mean() >= RECALLS[window_s]
    assert said.mean() <= came.mean() + 0.35


def test_answers_stand_for_a_slot_of_the_clock():
    demand = fitted(10)
    now = 10 * DAY_S
    kept = len(demand._rows._kept[300.0])
    before = demand.new_load_gpus(3600.0, now + 10.0)
    demand.submitted(job("wide", now + 20.0, 50, "a"), now + 20.0)
    assert demand.new_load_gpus(3600.0, now + 290.0) == before
    demand._models[3600.0] = None  # too little to learn from: the quota
    assert demand.new_load_gpus(3600.0, now + 290.0) == before
    assert demand.new_load_gpus(3600.0, now + 900.0) == {"a": 8.0, "b": 5.0}
    assert len(demand._rows._kept[300.0]) == kept  # nobody will learn from more


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
    return [loads, demand.peaks(now_s).tolist(), demand.arrivals(now_s).tolist()]


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
    facts = demand._facts["a"]
    assert len(facts._expected) == 1
    assert demand._stretches._logs["a"].known(0.0, 6 * DAY_S).life_s[-1] == 0.0
    assert demand.peaks(6 * DAY_S).max() >= 7.0
    assert DAY_S in demand._stretches._logs["a"].known(0.0, 30 * DAY_S).life_s  # nothing more was told
    demand.sent_back(old, 6 * DAY_S + 5.0)
    assert not facts._expected
    demand.started(waiting, 6 * DAY_S + 6.0)
    demand.ended(waiting, 6 * DAY_S + 16.0, 10.0)
    assert demand._stretches._logs["a"].known(0.0, 7 * DAY_S).life_s[-1] == 10.0


def test_a_job_of_the_history_of_which_nothing_is_told_leaves_when_expected():
    demand = PoolDemand({"a": 8})
    demand.fit(bursts(6), [(job("old", 6 * DAY_S - 600.0, 7, "a"), 600.0)], 6 * DAY_S)
    facts = demand._facts["a"]
    assert named(facts, 3600.0, 6 * DAY_S)["expected_to_finish_within_k"] == 1
    assert named(facts, 3600.0, 6 * DAY_S + 601.0)["expected_to_finish_within_k"] == 0
    assert not facts._expected


def test_questions_and_histories_that_make_no_sense_are_refused():
    demand = fitted(6)
    with pytest.raises(ValueError, match="must be one of"):
        demand.new_load_gpus(600.0, 6 * DAY_S)
    with pytest.raises(ValueError, match="backwards"):
        demand.peaks(6 * DAY_S - 1.0)
    with pytest.raises(ValueError, match="late-one"):
        demand.fit([(job("late-one", 10.0), 5.0)], [], 14.0)
    with pytest.raises(ValueError, match="unborn"):
        demand.fit([], [(job("unborn", 15.0), 0.0)], 14.0)
