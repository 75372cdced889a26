import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.forecasts import LIFE_EDGES_S
from models.lifetime.hazard import quantile_of
from models.lifetime.shape import EVEN_LIVES, HALF_WIDTH, time_within_s

fixed = settings(max_examples=200, deadline=None, derandomize=True)
LOW_S, HIGH_S = LIFE_EDGES_S[20], LIFE_EDGES_S[21]
atoms = st.lists(st.floats(0.0, 16.0), max_size=32)


@fixed
@given(
    place=st.integers(0, 57),
    shares=st.lists(st.floats(0.0, 1.0), min_size=2),
    ln_ratio=st.floats(-4.0, 0.0),
    lives=atoms,
)
def test_times_lie_within_the_bin_and_rise_with_the_share(place, shares, ln_ratio, lives):
    times_s = [time_within_s(place, share, ln_ratio, lives) for share in sorted(shares)]
    low_s = LIFE_EDGES_S[place - 1] if place else 0.0
    assert all(low_s * (1 - 1e-9) <= time_s <= LIFE_EDGES_S[place] * (1 + 1e-9) for time_s in times_s)
    assert all(b >= a * (1 - 1e-12) for a, b in pairwise(times_s))


def test_without_recent_lives_in_the_bin_the_course_is_even():
    elsewhere = [math.log(LOW_S) - 1.0, math.log(HIGH_S) + 1.0]
    assert time_within_s(21, 0.25, 0.0, elsewhere) == pytest.approx(LOW_S**0.75 * HIGH_S**0.25)
    assert time_within_s(0, 0.25, 0.0, []) == pytest.approx(0.25 * LIFE_EDGES_S[0])
    # Half of them end while ln S falls from 0 to ln 0.55, of ln 0.1 in all.
    place = math.log(0.55) / math.log(0.1)
    assert time_within_s(0, 0.5, math.log(0.1), []) == pytest.approx(place * LIFE_EDGES_S[0])


def test_most_of_the_bin_ends_where_the_recent_lives_did():
    life_s = LOW_S * 1.1
    lives = [math.log(life_s)] * 14
    even = EVEN_LIVES / (EVEN_LIVES + 14.0)
    below = even * math.log(1.1) / math.log(HIGH_S / LOW_S)
    inside = (1.0 - even) + even * 2.0 * HALF_WIDTH / math.log(HIGH_S / LOW_S)
    for share in (below + 0.1 * inside, below + 0.5 * inside, below + 0.9 * inside):
        assert time_within_s(21, share, 0.0, lives) == pytest.approx(life_s, rel=1.1 * HALF_WIDTH)


def test_a_regular_job_has_a_sharp_forecast():
    curve = tuple(0.98 if edge < 300.0 else 0.01 for edge in LIFE_EDGES_S)
    lives = [math.log(300.0)] * 16
    blunt_s = quantile_of(curve, 0.8) - quantile_of(curve, 0.2)
    sharp_s = quantile_of(curve, 0.8, lives) - quantile_of(curve, 0.2, lives)
    assert quantile_of(curve, 0.5, lives) == pytest.approx(300.0, rel=HALF_WIDTH)
    assert sharp_s < 0.65 * blunt_s


def test_seconds_are_told_apart_in_the_first_bin():
    curve = tuple(0.01 for _ in LIFE_EDGES_S)
    assert quantile_of(curve, 0.5, [math.log(2.0)] * 16) == pytest.approx(2.0, rel=0.02)
