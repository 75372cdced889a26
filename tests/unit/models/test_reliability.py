"""Reliability tables by hand, their intervals, Brier's parts, and transforms of lives that have not ended."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from models.calibration.pits import ProductLimit, pit_histogram, pit_reliability
from models.calibration.reliability import (
    ALL,
    brier_score,
    chance_reliability,
    quantile_reliability,
    share_interval,
)

fixed = settings(max_examples=100, deadline=None, derandomize=True)


@pytest.mark.parametrize(("count", "number"), [(0, 5), (3, 20), (20, 20), (1, 1), (450, 500)])
def test_the_interval_is_the_exact_one(count, number):
    other = binomtest(count, number).proportion_ci(0.95, method="exact")
    assert share_interval(count, number) == pytest.approx((other.low, other.high))


def test_without_trials_anything_is_possible_and_nonsense_is_refused():
    assert share_interval(0, 0) == (0.0, 1.0)
    for count, number in ((2, 1), (-1, 1), (math.nan, 1)):
        with pytest.raises(ValueError, match="count"):
            share_interval(count, number)
    with pytest.raises(ValueError, match="confidence"):
        share_interval(1, 2, 1.0)


def test_levels_by_hand_and_by_group():
    observed = np.array([1.0, 2.0, 3.0, 4.0])
    quantiles = np.array([[1.0, 3.0]] * 4)
    rows = quantile_reliability(observed, quantiles, (0.5, 0.75), ["a", "a", "b", "b"])
    seen = {(row.group, row.level): (row.number, row.seen_below, row.seen) for row in rows}
    assert seen == {
        (ALL, 0.5): (4, 0.0, 0.25),
        (ALL, 0.75): (4, 0.5, 0.75),
        ("a", 0.5): (2, 0.0, 0.5),
        ("a", 0.75): (2, 1.0, 1.0),
        ("b", 0.5): (2, 0.0, 0.0),
        ("b", 0.75): (2, 0.0, 0.5),
    }
    assert not any(row.is_off for row in rows)
    assert json.loads(json.dumps(rows[0].to_dict()))["group"] == ALL


def test_counts_with_ties_are_not_off_and_a_wrong_level_is():
    nothing = np.zeros(1_000)
    nothing[:100] = 5.0
    calm, wrong = quantile_reliability(nothing, np.zeros((1_000, 2)), (0.5, 0.95))
    assert (calm.seen_below, calm.seen, calm.is_off) == (0.0, 0.9, False)
    assert wrong.is_off


def test_few_jobs_are_not_called_off():
    observed = np.array([2.0] * 3)
    (few,) = quantile_reliability(observed, np.ones((3, 1)), (0.5,))
    (many,) = quantile_reliability(np.repeat(observed, 10), np.ones((30, 1)), (0.5,))
    assert few.seen == many.seen == 0.0
    assert (few.is_off, many.is_off) == (False, True)


def test_chances_by_hand():
    said = np.array([0.05, 0.15, 0.15, 1.0, 0.999])
    happened = np.array([False, True, False, True, True])
    rows = chance_reliability(said, happened)
    assert [(row.from_chance, row.number, row.said, row.seen) for row in rows] == [
        (0.0, 1, pytest.approx(0.05), 0.0),
        (0.1, 2, pytest.approx(0.15), 0.5),
        (0.9, 2, pytest.approx(0.9995), 1.0),
    ]
    said, happened = np.full(200, 0.05), np.zeros(200, bool)
    happened[:60] = True
    assert [row.is_off for row in chance_reliability(said, happened)] == [True]


@fixed
@given(
    rows=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=80),
    num_bins=st.integers(1, 20),
)
def test_the_parts_of_a_brier_score_sum_to_it(rows, num_bins):
    said, happened = np.array([p for p, _ in rows]), np.array([y for _, y in rows])
    parts = brier_score(said, happened, num_bins=num_bins)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert parts.score == pytest.approx(total, abs=1e-12)
    assert parts.score == pytest.approx(float(np.mean((said - happened) ** 2)))
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= 0.0


def test_a_sharp_calibrated_forecast_has_resolution_and_no_fault():
    happened = np.array([True] * 50 + [False] * 50)
    sharp, flat = brier_score(happened.astype(float), happened), brier_score(np.full(100, 0.5), happened)
    assert (sharp.score, sharp.reliability, sharp.resolution) == (0.0, 0.0, 0.25)
    assert (flat.score, flat.reliability, flat.resolution, flat.within) == (0.25, 0.0, 0.0, 0.0)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="shape"):
        quantile_reliability(np.ones(2), np.ones((2, 1)), (0.1, 0.9))
    with pytest.raises(ValueError, match="not a number"):
        quantile_reliability(np.array([math.nan]), np.ones((1, 1)), (0.1,))
    with pytest.raises(ValueError, match="groups"):
        quantile_reliability(np.ones(2), np.ones((2, 1)), (0.1,), ["a"])
    with pytest.raises(ValueError, match="chance"):
        chance_reliability(np.array([1.1]), np.array([True]))
    with pytest.raises(ValueError, match="shape"):
        chance_reliability(np.array([0.5]), np.array([True, False]))
    with pytest.raises(ValueError, match="at least one"):
        brier_score(np.empty(0), np.empty(0, bool))
    with pytest.raises(ValueError, match="leaves"):
        pit_histogram(np.array([-0.1]), np.array([True]))
    with pytest.raises(ValueError, match="shape"):
        ProductLimit(np.ones(2), np.ones(1, bool))
    assert pit_reliability(np.empty(0), np.empty(0, bool), (0.9,)) == []


def test_the_product_limit_by_hand():
    # Four at risk at 0.2, one ends; at 0.5 two are left (one was censored at 0.3), one ends.
    estimate = ProductLimit(np.array([0.2, 0.3, 0.5, 0.8]), np.array([True, False, True, False]))
    assert [estimate.above(u) for u in (0.1, 0.2, 0.4, 0.5, 0.9)] == [1.0, 0.75, 0.75, 0.375, 0.375]


def test_without_censoring_rows_are_plain_shares_with_exact_intervals():
    pits = np.arange(100) / 100 + 0.005
    (row,) = pit_reliability(pits, np.ones(100, bool), (0.9,))
    assert (row.number, row.number_ended) == (100, 100)
    assert row.seen == pytest.approx(0.9)
    assert (row.low, row.high) == pytest.approx(share_interval(90, 100))


def test_lives_that_have_not_ended_do_not_make_the_others_look_frequent():
    rng = np.random.default_rng(6)
    true, seen_until = rng.random(20_000), rng.random(20_000)
    pits, has_ended = np.minimum(true, seen_until), true <= seen_until
    for row in pit_reliability(pits, has_ended, (0.1, 0.5, 0.9)):
        assert row.seen == pytest.approx(row.level, abs=0.02)
        assert not row.is_off
        assert row.low < row.seen < row.high
    blind = pit_reliability(pits[has_ended], has_ended[has_ended], (0.5,))[0]
    assert blind.is_off
    assert [one.share for one in pit_histogram(pits, has_ended)] == pytest.approx([0.1] * 10, abs=0.025)


@fixed
@given(rows=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60))
def test_a_histogram_of_transforms_is_a_distribution(rows):
    pits, has_ended = np.array([u for u, _ in rows]), np.array([e for _, e in rows])
    bins = pit_histogram(pits, has_ended)
    assert sum(one.share for one in bins) == pytest.approx(1.0)
    assert min(one.share for one in bins) >= -1e-12
    for row in pit_reliability(pits, has_ended, (0.1, 0.5, 0.9)):
        assert 0.0 <= row.low <= row.seen + 1e-9
        assert row.seen - 1e-9 <= row.high <= 1.0
