"""Intervals of shares whose hits come in clusters."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.bootstrap import blocks_of, bootstrap_bounds
from domain.shares import Share, clopper_pearson

DAY_S = 86_400.0


def test_jobs_are_counted_by_the_day_of_their_submit():
    submits_s = [0.0, DAY_S - 1.0, DAY_S, 3 * DAY_S]
    assert blocks_of(submits_s, [True, False, True, False]) == [Share(1, 2), Share(1, 1), Share(0, 1)]
    assert blocks_of([-1.0, 1.0], [True, False]) == [Share(1, 1), Share(0, 1)]
    with pytest.raises(ValueError, match="shorter"):
        blocks_of([1.0, 2.0], [True])


def test_without_a_hit_or_a_job():
    assert bootstrap_bounds([Share(0, 10), Share(0, 4)]) == (0.0, 0.0)
    assert bootstrap_bounds([]) == (0.0, 1.0)
    assert bootstrap_bounds([Share(0, 0)]) == (0.0, 1.0)


def test_one_block_says_nothing_of_others():
    assert bootstrap_bounds([Share(3, 10)]) == (0.3, 0.3)


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
def test_an_impossible_confidence_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_bounds([Share(1, 2)], confidence=confidence)
    with pytest.raises(ValueError, match="resamples"):
        bootstrap_bounds([Share(1, 2)], resamples=0)


def test_hits_of_a_single_day_spread_the_interval_more_than_the_same_number_over_all_days():
    one_day = [Share(30, 100)] + [Share(0, 100)] * 29
    every_day = [Share(1, 100)] * 30
    low, high = bootstrap_bounds(one_day)
    assert low == 0.0
    assert high == pytest.approx(0.03, abs=0.001), "up to three days like it in a month"
    assert bootstrap_bounds(every_day) == (0.01, 0.01)
    assert high > clopper_pearson(30, 3_000)[1]


def test_it_is_as_wide_as_the_spread_of_a_mean_for_many_alike_blocks():
    """40 blocks of one job, half of them hit: the standard error is sqrt(0.25 / 40)."""
    low, high = bootstrap_bounds([Share(k % 2, 1) for k in range(40)], resamples=4_000)
    error = math.sqrt(0.25 / 40)
    assert low == pytest.approx(0.5 - 1.96 * error, abs=0.02)
    assert high == pytest.approx(0.5 + 1.96 * error, abs=0.02)


shares = st.lists(
    st.integers(1, 50).flatmap(lambda total: st.builds(Share, st.integers(0, total), st.just(total))),
    min_size=1,
    max_size=20,
)


@settings(max_examples=40, deadline=None)
@given(shares, st.integers(0, 2**32 - 1))
def test_bounds_are_shares_of_days_that_were_seen_and_the_same_for_the_same_seed(blocks, seed):
    bounds = bootstrap_bounds(blocks, resamples=200, seed=seed)
    assert bounds == bootstrap_bounds(blocks, resamples=200, seed=seed)
    worst, best = (pick(block.value for block in blocks) for pick in (max, min))
    assert best - 1e-12 <= bounds[0] <= bounds[1] <= worst + 1e-12
