"""What demand forecasts are made of, by hand."""

import math

import numpy as np
import pytest
from support import job

from models.demand.facts import DemandFacts, LearningRows, row_every_s
from models.demand.features import FEATURE_NAMES

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
QUOTAS = {"a": 8, "b": 5}


def named(facts: DemandFacts, window_s: float, now_s: float, pool: int = 0) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, facts.features(window_s, now_s)[pool].tolist(), strict=True))


def facts_with_arrivals(*instants_s: float, gpus: int = 1, since_s: float = 0.0) -> DemandFacts:
    facts = DemandFacts(QUOTAS, since_s)
    for number, at in enumerate(instants_s):
        facts.arrived(job(f"{number}", at, gpus), at)
    return facts


def test_arrivals_in_the_same_window_of_earlier_hours_and_days():
    now = 4 * DAY_S
    day_ago, hour_ago = now - DAY_S, now - HOUR_S
    facts = facts_with_arrivals(
        now - 2 * DAY_S + 300, day_ago, day_ago + 1, day_ago + 300, day_ago + 301, hour_ago + 5, now
    )
    row = named(facts, 300.0, now)
    assert row["arrivals_86400s_ago"] == 2  # (a day ago, + 300]: neither its first instant nor 301
    assert row["arrivals_172800s_ago"] == 1
    assert row["arrivals_259200s_ago"] == 0
    assert row["arrivals_3600s_ago"] == 1
    assert row["days_with_arrivals"] == pytest.approx(2 / 3)  # of the three that lie in the record
    assert row["load_day_ago_of_quota"] == 2 / 8
    assert row["ln_quota"] == pytest.approx(math.log(8))
    assert row["since_arrival_1"] == 0.0
    assert row["since_arrival_2"] == pytest.approx(math.log1p(HOUR_S - 5))
    assert math.isnan(row["since_arrival_10"])


def test_a_window_that_reaches_past_now_is_cut_and_one_before_the_record_is_unknown():
    now = 1.5 * DAY_S
    row = named(facts_with_arrivals(now - 5400.0, now - 1800.0, now), 43_200.0, now)
    assert row["arrivals_3600s_ago"] == 2
    assert row["arrivals_7200s_ago"] == 3
    assert row["arrivals_86400s_ago"] == 0
    assert math.isnan(row["arrivals_172800s_ago"])


def test_recent_counts_are_scaled_up_where_the_record_is_too_short():
    facts = facts_with_arrivals(100.0, 2900.0, 5700.0, 5701.0, 6000.0)
    row = named(facts, 300.0, 6000.0)
    assert row["arrivals_last_300s"] == 2
    assert row["arrivals_last_3600s"] == 4
    assert row["arrivals_last_14400s"] == 5 * 14_400 / 6000
    facts.ended(job("0"), 6000.0, 10.0)
    assert named(facts, 300.0, 6000.0)["ends_last_60s"] == 1


def test_running_jobs_end_as_the_lives_of_their_like_say():
    facts = DemandFacts(QUOTAS, 0.0)
    for number in range(200):  # all live for 100 s or for 10,000 s
        one = job(f"past{number}", 10.0)
        facts.arrived(one, 10.0)
        facts.ended(one, 20_000.0, 100.0 if number % 2 else 10_000.0)
    for number, pool in enumerate("aab"):
        one = job(f"now{number}", 20_000.0, 2, pool)
        facts.arrived(one, 20_000.0)
        facts.started(one, 20_000.0)
    row = named(facts, 300.0, 20_000.0)
    assert row["running"] == 2
    assert row["running_of_quota"] == 4 / 8
    fresh = row["expected_to_finish_within_k"]
    assert 0.5 < fresh < 1.5  # about half of two
    assert row["expected_to_finish_within_k_of_quota"] == pytest.approx(fresh * 2 / 8)
    late = named(facts, 300.0, 21_000.0)["expected_to_finish_within_k"]
    assert late < 0.4 * fresh  # who outlived the short ones stays
    facts.ended(job("now0", 0.0, 2), 21_000.0, 1000.0)
    assert named(facts, 300.0, 21_000.0)["running"] == 1


def test_running_jobs_of_which_nothing_is_told_again_leave_when_expected():
    facts = DemandFacts(QUOTAS, 0.0)
    for name in ("silent", "told"):
        one = job(name, 1000.0)
        facts.arrived(one, 1000.0)
        facts.started(one, 1000.0)
    facts.leave_untold(2000.0)
    facts.started(job("told", 1000.0), 2000.0)
    assert named(facts, 300.0, 2001.0)["running"] == 2
    assert named(facts, 300.0, 50 * DAY_S)["running"] == 1


def test_load_estimate_is_the_largest_sliding_window_of_the_last_three_busy_ones():
    facts = facts_with_arrivals()
    pool = facts.pools[0]
    assert pool.load_estimate(300.0, 0.0) == 0
    pool.arrived(3, 290.0)
    pool.arrived(4, 310.0)  # within 300 s of the other, though in the next window of the clock
    assert pool.load_estimate(300.0, 320.0) == 7
    assert pool.load_estimate(300.0, 1e6) == 7
    assert pool.load_estimate(300.0, 1199.0, count_quiet=True) == 7
    assert pool.load_estimate(300.0, 1200.0, count_quiet=True) == 0
    for k in range(2):
        pool.arrived(1, 10_000.0 + 1000 * k)
    assert pool.load_estimate(300.0, 15_000.0) == 7
    pool.arrived(2, 16_000.0)
    assert pool.load_estimate(300.0, 16_000.0) == 2


def test_a_job_that_comes_by_the_clock_is_announced():
    beats = [117.0 + 600.0 * k for k in range(40)]
    others = [131.0 + 977.0 * k for k in range(20)]
    facts = facts_with_arrivals(*sorted(beats + others))
    next_s = beats[-1] + 600.0
    early, soon = named(facts, 300.0, next_s - 400.0), named(facts, 300.0, next_s - 200.0)
    assert (early["cadence_within_k"], early["cadence_later"]) == (0, 8)
    assert (soon["cadence_within_k"], soon["cadence_later"]) == (8, 0)
    assert soon["cadence_due_in"] == pytest.approx(200.0, abs=3.0)
    dense = np.sort(np.random.default_rng(0).uniform(0, 3600, 600)).tolist()
    burst = named(facts_with_arrivals(*dense), 300.0, 3601.0)
    assert burst["cadence_within_k"] < 8  # in a dense burst anything would fit


def test_a_quiet_pool_is_as_likely_to_stay_quiet_as_it_used_to_be():
    gaps = [60.0, 60.0, 7200.0] * 40
    instants = np.cumsum(gaps).tolist()
    facts = facts_with_arrivals(*instants[:-1])
    after_short = named(facts, 300.0, instants[-2] + 1.0)["arrival_soon"]
    waiting = named(facts, 300.0, instants[-2] + 1000.0)["arrival_soon"]
    assert after_short > 0.5 > waiting
    assert math.isnan(named(facts, 300.0, instants[-1], pool=1)["arrival_soon"])


# outcomes and rows


def test_what_came_of_a_window():
    facts = facts_with_arrivals()
    for name, at, gpus, life_s in (
        ("short", 100.0, 2, 50.0),
        ("long", 200.0, 3, 900.0),
        ("open", 250.0, 1, None),
    ):
        one = job(name, at, gpus)
        facts.arrived(one, at)
        facts.started(one, at)
        if life_s is not None and at + life_s <= 400.0:
            facts.ended(one, at + life_s, life_s)
    assert facts.outcomes(0.0, 300.0, 400.0)[:, 0].tolist() == [6.0, 4.0]  # the two that still run are held
    assert facts.outcomes(100.0, 300.0, 400.0)[0].tolist() == [4.0, 0.0]  # (100, 400]: not the one at 100
    facts.arrived(job("wide", 401.0, 8), 401.0)
    assert facts.outcomes(0.0, 500.0, 500.0)[0, 0] == 8.0  # no more than the quota
    facts.withdrawn(job("open", 250.0, 1), 410.0)
    assert facts.outcomes(0.0, 300.0, 500.0)[1, 0] == 4.0  # it had lived beyond the window's end
    assert facts.outcomes(200.0, 300.0, 500.0)[:, 0].tolist() == [
        8.0,
        8.0,
    ]  # 1 + 8, capped; held: the wide one


def test_a_job_that_waits_is_given_a_likely_life():
    facts = facts_with_arrivals()
    for number in range(100):
        one = job(f"past{number}", 0.0)
        facts.arrived(one, 0.0)
        facts.ended(one, 100.0, 100.0)
    facts.arrived(job("waits", 1000.0), 1000.0)
    assert facts.outcomes(900.0, 150.0, 1050.0)[:, 0].tolist() == [1.0, 1.0]  # 50 s into a life of 100
    assert facts.outcomes(900.0, 3600.0, 4500.0)[:, 0].tolist() == [1.0, 0.0]


def test_rows_lie_on_a_raster_and_learn_what_came_of_them_once_their_window_is_over():
    every = row_every_s(300.0)
    assert every % 600.0  # else a job that comes every ten minutes is always seen at the same distance
    rows, facts = LearningRows(), facts_with_arrivals()
    rows.keep(facts, 0.0, every + 1.0)
    facts.arrived(job("one", every + 30.0), every + 30.0)
    assert [row.instant_s for row in rows.over(300.0)] == [0.0]
    rows.keep(facts, every + 1.0, 2 * every + 1.0)
    over = rows.over(300.0)
    assert [row.instant_s for row in over] == [0.0, every]
    assert [row.outcomes[0].tolist() for row in over] == [[0.0, 0.0], [1.0, 0.0]]
    assert over[0].features.shape == (2, len(FEATURE_NAMES))
    assert [row.instant_s for row in rows.over(300.0, 0.0)] == [every]
    assert not rows.over(3600.0)


def test_a_running_job_is_as_old_as_its_work():
    """Half as fast from 100 s on it has done 200 s by 300 s, and does 150 s in the next 300."""
    slow, alone = DemandFacts(QUOTAS, 0.0, (150.0, 300.0)), DemandFacts(QUOTAS, 0.0, (150.0, 300.0))
    one = job("j", 0.0)
    for facts in (slow, alone):
        facts.arrived(one, 0.0)
        facts.started(one, 0.0)
    slow.rate_changed(one, 100.0, 0.5)
    ends = [
        facts.features(window_s, now_s)[0, -2]
        for facts, window_s, now_s in ((slow, 300.0, 300.0), (alone, 150.0, 200.0))
    ]
    assert ends[0] == pytest.approx(ends[1])
    slow.stopped(one, 300.0)
    slow.started(one, 1000.0)
    slow.withdrawn(one, 1050.0)
    assert slow._lives[0].life_s == [200.0], "the greatest age it has reached"


def test_a_slower_job_of_which_nothing_is_told_again_leaves_later():
    facts = DemandFacts(QUOTAS, 0.0)
    leaves_s = {}
    for name, rate in (("alone", 1.0), ("slow", 0.5)):
        facts.arrived(job(name), 0.0)
        facts.started(job(name), 0.0)
        facts.rate_changed(job(name), 0.0, rate)
    facts.leave_untold(0.0)
    for name in ("alone", "slow"):
        leaves_s[name] = facts._running._numbers[facts._running._places[name], 3]
    assert leaves_s["slow"] == pytest.approx(2 * leaves_s["alone"])
