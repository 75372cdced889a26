"""Quantile forecasts and survival curves."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.forecasts import LIFE_EDGES_S, QuantileForecast, SurvivalCurve

fixed = settings(max_examples=200, deadline=None, derandomize=True)


def test_a_forecast_is_linear_between_its_levels_and_constant_beyond():
    forecast = QuantileForecast((0.2, 0.4, 0.8), (10.0, 20.0, 60.0))
    levels = (0.01, 0.2, 0.3, 0.4, 0.5, 0.8, 0.99)
    assert [forecast.at(level) for level in levels] == pytest.approx([10, 10, 15, 20, 30, 60, 60])


@pytest.mark.parametrize(
    ("levels", "values", "message"),
    [
        ((), (), "at least one"),
        ((0.5,), (1.0, 2.0), "as many values as levels"),
        ((0.0,), (1.0,), r"\(0, 1\)"),
        ((0.5, 1.0), (1.0, 2.0), r"\(0, 1\)"),
        ((0.5, 0.5), (1.0, 2.0), "must increase"),
        ((0.1, 0.5), (2.0, 1.0), "quantiles cross"),
    ],
)
def test_a_forecast_that_contradicts_itself_is_refused(levels, values, message):
    with pytest.raises(ValueError, match=message):
        QuantileForecast(levels, values)


@st.composite
def forecasts(draw):
    levels = draw(st.lists(st.integers(1, 999), min_size=1, max_size=8, unique=True))
    values = draw(st.lists(st.integers(0, 10**6), min_size=len(levels), max_size=len(levels)))
    return QuantileForecast(
        tuple(level / 1000 for level in sorted(levels)), tuple(map(float, sorted(values)))
    )


@fixed
@given(forecasts(), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_a_forecast_never_decreases_and_keeps_to_its_range(forecast, one, other):
    low, high = sorted((one, other))
    assert forecast.values[0] <= forecast.at(low) <= forecast.at(high) <= forecast.values[-1]


CURVE = SurvivalCurve((10.0, 20.0, 40.0), (0.75, 0.5, 0.0))


def test_a_curve_steps_down_at_its_times():
    assert [CURVE.at(time_s) for time_s in (0.0, 9.9, 10.0, 19.9, 20.0, 40.0, 99.0)] == [
        *(1.0, 1.0, 0.75, 0.75, 0.5, 0.0, 0.0)
    ]


def test_what_has_lived_so_long_lives_on_with_the_odds_of_those_left():
    assert CURVE.beyond(0.0, 10.0) == 0.75
    assert CURVE.beyond(10.0, 10.0) == pytest.approx(0.5 / 0.75)
    assert CURVE.beyond(20.0, 5.0) == 1.0
    assert CURVE.beyond(40.0, 0.0) == 0.0, "nobody lives that long"


def test_the_quantile_is_the_first_time_by_which_so_many_have_ended():
    assert [CURVE.quantile_s(level) for level in (0.1, 0.25, 0.26, 0.5, 0.51, 1.0)] == [
        10,
        10,
        20,
        20,
        40,
        40,
    ]
    assert SurvivalCurve((10.0,), (0.3,)).quantile_s(0.9) == math.inf


@pytest.mark.parametrize(
    ("times_s", "survival", "message"),
    [
        ((), (), "at least one"),
        ((1.0,), (0.5, 0.4), "as many values as times"),
        ((1.0, 1.0), (0.5, 0.4), "must increase"),
        ((1.0, 2.0), (0.4, 0.5), "does not increase"),
        ((1.0,), (1.1,), r"in \[0, 1\]"),
        ((1.0,), (-0.1,), r"in \[0, 1\]"),
    ],
)
def test_a_curve_that_is_none_is_refused(times_s, survival, message):
    with pytest.raises(ValueError, match=message):
        SurvivalCurve(times_s, survival)


@fixed
@given(st.floats(0, 60), st.floats(0, 60), st.floats(0, 60))
def test_to_live_on_in_two_steps_is_as_likely_as_in_one(age_s, first_s, second_s):
    in_two = CURVE.beyond(age_s, first_s) * CURVE.beyond(age_s + first_s, second_s)
    assert in_two == pytest.approx(CURVE.beyond(age_s, first_s + second_s))


def test_the_common_grid_of_lives_has_three_edges_per_doubling():
    assert LIFE_EDGES_S[0] == 8.0
    assert all(b / a == pytest.approx(2 ** (1 / 3)) for a, b in pairwise(LIFE_EDGES_S))
    assert 40 * 86_400 < LIFE_EDGES_S[-1] < 60 * 86_400
