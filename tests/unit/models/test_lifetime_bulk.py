import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.forecasts import LIFE_EDGES_S
from models.lifetime.bulk import alive_shares
from models.lifetime.hazard import quantile_of

LAST_S = LIFE_EDGES_S[-1]
fixed = settings(max_examples=200, deadline=None, derandomize=True)

hazards = st.lists(st.floats(0.0, 0.97), min_size=len(LIFE_EDGES_S), max_size=len(LIFE_EDGES_S))
times = st.floats(0.0, 1e7)


def curve_of(each: list[float]) -> np.ndarray:
    return np.cumprod(1.0 - np.array(each))


def survival_by_definition(curve: np.ndarray, time_s: float) -> float:
    """ln S linear in ln t between edges, in t up to the first one, constant beyond the last."""
    if time_s <= LIFE_EDGES_S[0]:
        return math.exp(math.log(curve[0]) * time_s / LIFE_EDGES_S[0])
    if time_s >= LAST_S:
        return float(curve[-1])
    place = next(k for k, edge in enumerate(LIFE_EDGES_S) if edge >= time_s)
    before_s, after_s = LIFE_EDGES_S[place - 1], LIFE_EDGES_S[place]
    share = math.log(time_s / before_s) / math.log(after_s / before_s)
    return math.exp((1.0 - share) * math.log(curve[place - 1]) + share * math.log(curve[place]))


@fixed
@given(each=hazards, age_s=times, ahead_s=st.lists(times, min_size=1, max_size=6))
def test_each_share_is_that_of_the_definition(each, age_s, ahead_s):
    curve = curve_of(each)
    said = alive_shares(curve[None], [age_s], ahead_s)
    assert said.shape == (1, len(ahead_s))
    now = survival_by_definition(curve, age_s)
    for share, time_s in zip(said[0], ahead_s, strict=True):
        assert share == pytest.approx(survival_by_definition(curve, age_s + time_s) / now, rel=1e-6)


@fixed
@given(each=st.lists(hazards, min_size=1, max_size=4), age_s=times, ahead_s=st.lists(times, min_size=2))
def test_shares_lie_in_zero_to_one_and_do_not_rise_with_time(each, age_s, ahead_s):
    curves = np.array([curve_of(one) for one in each])
    said = alive_shares(curves, np.full(len(curves), age_s), sorted(ahead_s))
    assert ((said >= 0.0) & (said <= 1.0)).all()
    assert (np.diff(said, axis=1) <= 1e-12).all()


@fixed
@given(each=hazards, level=st.floats(0.001, 0.999))
def test_it_is_the_inverse_of_the_quantile(each, level):
    curve = curve_of([max(0.001, hazard) for hazard in each])
    time_s = quantile_of(curve.tolist(), level)
    if time_s < LAST_S:
        assert alive_shares(curve[None], [0.0], [time_s])[0, 0] == pytest.approx(1.0 - level, rel=1e-6)


def test_jobs_do_not_see_each_other():
    rng = np.random.default_rng(0)
    curves = np.cumprod(1.0 - 0.2 * rng.random((50, len(LIFE_EDGES_S))), axis=1)
    ages_s, ahead_s = rng.exponential(1e4, 50), [60.0 * 2.0**k for k in range(12)]
    together = alive_shares(curves, ages_s, ahead_s)
    for k in range(50):
        np.testing.assert_allclose(
            together[k], alive_shares(curves[k : k + 1], ages_s[k : k + 1], ahead_s)[0]
        )


def test_a_curve_that_reaches_nothing_leaves_nobody():
    curve = np.zeros((1, len(LIFE_EDGES_S)))
    curve[0, :3] = (1.0, 0.5, 0.25)
    said = alive_shares(curve, [LIFE_EDGES_S[1]], [LIFE_EDGES_S[2] - LIFE_EDGES_S[1], LIFE_EDGES_S[3], 1e9])
    assert said[0] == pytest.approx([0.5, 0.0, 0.0])
    assert alive_shares(curve, [1e5], [0.0, 1.0])[0].tolist() == [0.0, 0.0]
