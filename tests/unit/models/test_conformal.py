"""Split conformal: ranks by hand, the guarantee on exchangeable data, weights."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.calibration.conformal import (
    QuantileShifts,
    conformal_quantile,
    corrected_rank,
    interval_margin,
    level_to_ask,
    recency_weights,
)

fixed = settings(max_examples=100, deadline=None, derandomize=True)
levels = st.floats(0.01, 0.99)
scores = arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6))


@pytest.mark.parametrize(
    ("number", "level", "rank"),
    [(9, 0.9, 9), (9, 0.91, 10), (99, 0.9, 90), (1, 0.5, 1), (10, 0.5, 6), (0, 0.5, 1)],
)
def test_the_corrected_rank_by_hand(number, level, rank):
    assert corrected_rank(number, level) == rank


def test_too_few_scores_bound_nothing():
    assert conformal_quantile(np.arange(9.0), 0.9) == 8.0
    assert conformal_quantile(np.arange(8.0), 0.9) == math.inf
    assert conformal_quantile(np.empty(0), 0.5) == math.inf
    assert level_to_ask(np.array([0.2]), 0.9) == 1.0


@fixed
@given(scores=scores, level=levels)
def test_any_score_put_in_the_last_place_keeps_the_guarantee(scores, level):
    # Exchangeability: each of the n + 1 values is the new one as often as any other. Over these n + 1 cases
    # the share within the bound of the n others is at least the level, with no chance involved.
    kept = [scores[k] <= conformal_quantile(np.delete(scores, k), level) for k in range(len(scores))]
    assert np.mean(kept) >= level - 1e-9


@fixed
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(1, 60), level=levels)
def test_with_continuous_scores_it_is_no_wider_than_needed(seed, number, level):
    scores = np.random.default_rng(seed).normal(size=number)
    kept = [scores[k] <= conformal_quantile(np.delete(scores, k), level) for k in range(number)]
    assert level - 1e-9 <= np.mean(kept) < level + 1.0 / number + 1e-9


@fixed
@given(scores=scores, level=levels)
def test_equal_weights_say_the_same_as_none(scores, level):
    assert conformal_quantile(scores, level, np.ones(len(scores))) == conformal_quantile(scores, level)


def test_weights_follow_the_recent_scores():
    old, new = np.full(100, 1.0), np.full(100, 5.0)
    instants_s = np.concatenate((np.zeros(100), np.full(100, 1e5)))
    weights = recency_weights(instants_s, 1e5, 1e4)
    assert weights[-1] == 1.0
    assert weights[0] == pytest.approx(2.0**-10)
    both = np.concatenate((old, new))
    assert conformal_quantile(both, 0.4) == 1.0
    assert conformal_quantile(both, 0.4, weights) == 5.0


def test_the_future_and_nonsense_are_refused():
    with pytest.raises(ValueError, match="future"):
        recency_weights(np.array([2.0]), 1.0, 1.0)
    with pytest.raises(ValueError, match="half_life_s"):
        recency_weights(np.array([0.0]), 1.0, 0.0)
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="level"):
            conformal_quantile(np.ones(3), level)
        with pytest.raises(ValueError, match="level"):
            conformal_quantile(np.ones(3), level, np.ones(3))
    with pytest.raises(ValueError, match="not a number"):
        conformal_quantile(np.array([math.nan]), 0.5)
    for weights in (np.ones(2), np.array([1.0, -1.0, 1.0]), np.array([1.0, math.inf, 1.0])):
        with pytest.raises(ValueError, match="weights"):
            conformal_quantile(np.ones(3), 0.5, weights)
    with pytest.raises(ValueError, match="leaves"):
        level_to_ask(np.array([1.5]), 0.5)


def test_an_interval_that_is_too_narrow_is_widened_and_one_too_wide_narrowed():
    observed = np.arange(-50.0, 51.0)
    assert interval_margin(observed, np.full(101, -10.0), np.full(101, 10.0), 0.5) == 15.0
    assert interval_margin(observed, np.full(101, -40.0), np.full(101, 40.0), 0.5) == -15.0


def test_shifted_quantiles_cover_and_do_not_cross():
    rng = np.random.default_rng(1)
    said = np.array([-0.1, 0.0, 0.1])
    held_out, fresh = rng.normal(size=2_000), rng.normal(size=20_000)
    wanted = (0.1, 0.5, 0.9)
    shifts = QuantileShifts.fit(held_out, np.tile(said, (2_000, 1)), wanted)
    corrected = shifts.corrected(np.tile(said, (20_000, 1)))
    assert (fresh[:, None] <= corrected).mean(axis=0) == pytest.approx(wanted, abs=0.03)
    crossing = QuantileShifts((0.5, 0.9), (3.0, 0.0)).corrected(np.array([[0.0, 1.0]]))
    assert crossing.tolist() == [[3.0, 3.0]]


def test_a_level_is_asked_higher_where_lives_are_longer_than_said():
    pits = np.random.default_rng(2).beta(2.0, 1.0, 4_000)
    # P(pit <= u) = u^2, so a share 0.81 lies up to 0.9.
    assert level_to_ask(pits, 0.81) == pytest.approx(0.9, abs=0.01)
