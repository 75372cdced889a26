"""Rates of bursts, by hand."""

import math

import numpy as np
import pytest

from models.scenarios.bursts import BIN_S, MEMORY_S, burst_rates

DAY_S = 86_400.0
SINCE_S, NOW_S = 0.0, 20 * DAY_S
SIZES = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0]
PRIOR_PER_S = 0.5 / MEMORY_S


def arrivals(*bursts, width=1):
    """Bursts as (instant, GPUs)."""
    submit_s = np.concatenate([np.full(gpus // width, at_s) for at_s, gpus in bursts] or [np.empty(0)])
    return np.sort(submit_s), np.full(submit_s.size, width, dtype=np.int64)


def rates(*pools, now_s=NOW_S):
    """By pool, how often at least each of the sizes is asked for."""
    found = burst_rates(pools, SINCE_S, now_s)
    per_s = np.array([one.per_s for one in found]).reshape(len(pools), -1)
    return per_s[:, ::-1].cumsum(axis=1)[:, ::-1]


def test_a_pool_without_a_burst_has_the_prior():
    (often,) = rates(arrivals((DAY_S, 7), (2 * DAY_S, 3)))
    assert often[0] == pytest.approx(PRIOR_PER_S)
    assert often == pytest.approx(PRIOR_PER_S / np.array([1, 2, 4, 8, 16, 32])), "Pareto's exponent 1"


def test_an_empty_pool_is_asked_for_in_jobs_of_one_gpu():
    found = burst_rates([arrivals()], SINCE_S, NOW_S)
    assert [one.num_gpus for one in found] == pytest.approx([math.sqrt(2) * size for size in SIZES])
    assert [one.num_jobs for one in found] == [one.num_gpus for one in found]


def test_larger_ones_are_rarer_and_larger_than_any_seen_are_possible():
    pool = arrivals(*((k * DAY_S, 12) for k in range(1, 19)))
    (often,) = rates(pool)
    assert np.all(np.diff(often) < 0)
    assert often[-1] > 0.0
    assert all(one.per_s > 0.0 for one in burst_rates([pool], SINCE_S, NOW_S))


def test_the_rate_of_steady_bursts_is_what_it_is():
    """Two a day for three weeks, and one in two months that is always reckoned with."""
    pool = arrivals(*((k * DAY_S / 2 + 1.0, 8) for k in range(40)))
    (often,) = rates(pool)
    assert often[0] == pytest.approx(2 / DAY_S + PRIOR_PER_S, rel=0.03)


def test_what_arrives_within_ten_minutes_is_one_burst():
    once = arrivals((DAY_S, 4), (DAY_S + 0.9 * BIN_S, 4))
    twice = arrivals((DAY_S, 4), (DAY_S + 1.1 * BIN_S, 4))
    assert rates(once)[0, 0] > rates(twice)[0, 0] == pytest.approx(PRIOR_PER_S)


def test_recent_ones_count_more():
    recent, old = arrivals((19 * DAY_S, 40)), arrivals((9 * DAY_S, 40))
    (now,), (then,) = rates(recent), rates(old)
    assert now[0] - PRIOR_PER_S == pytest.approx(2.0 * (then[0] - PRIOR_PER_S)), "half as much after ten days"


def test_seen_sizes_count_as_they_were_where_that_was_more():
    """All bursts are of 64: at least so much is asked for as often as anything."""
    (often,) = rates(arrivals(*((k * DAY_S, 64) for k in range(1, 19))))
    assert often[3] == pytest.approx(often[0], rel=0.05)
    assert often[4] < 0.7 * often[3]


def test_the_exponent_is_shared_so_one_pool_learns_from_another():
    small = arrivals(*((k * DAY_S, 8) for k in range(1, 19)))
    large = arrivals(*((k * DAY_S, 100) for k in range(1, 19)))
    alone, together = rates(small)[0], rates(small, large)[0]
    assert together[0] == pytest.approx(alone[0])
    assert together[-1] > 3.0 * alone[-1]


def test_bursts_are_of_jobs_as_wide_as_those_of_the_pool():
    found = burst_rates([arrivals((DAY_S, 16), (DAY_S, 16), width=4)], SINCE_S, NOW_S)
    assert [one.num_gpus / one.num_jobs for one in found] == pytest.approx([4.0] * 6)


def test_what_arrives_now_or_later_does_not_count():
    before = arrivals((3 * DAY_S, 20))
    after = arrivals((3 * DAY_S, 20), (NOW_S, 500), (NOW_S + 1.0, 500))
    assert burst_rates([before], SINCE_S, NOW_S) == burst_rates([after], SINCE_S, NOW_S)
