"""Distributions over bins of GPUs, and their correction on the way."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.demand.bins import BinModel, Distribution, Rows
from models.demand.calibrated import LEVELS, CalibratedBins, Samples
from models.demand.quantiles import ladder


def distribution(edges: list[float], shares: list[float], least: float = 0.0) -> Distribution:
    cumulated = np.minimum(1.0, np.cumsum(shares))
    return Distribution(np.array([edges]), np.array([cumulated]), np.array([least]))


def rows_of(signal: np.ndarray, quota: float = 16.0) -> Rows:
    number = len(signal)
    edges = np.tile(np.minimum(ladder(quota), quota), (number, 1))
    return Rows(signal[:, None], edges, np.full((number, 1), np.nan), np.zeros(number))


def test_the_ladder_bounds_every_quota():
    assert ladder(1.0).tolist() == [0, 1, 2, 3, 4]
    assert ladder(20.0).tolist() == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24]


def test_quantiles_and_places_by_hand():
    said = distribution([0.0, 1.0, 4.0, 8.0], [0.5, 0.2, 0.3, 0.0])  # 2, 3 and 4 are equally likely
    levels = np.array([[0.2, 0.5, 0.6, 0.75, 0.85, 0.95, 1.0]])
    assert said.quantiles(levels)[0].tolist() == [0, 0, 1, 2, 3, 4, 8]
    for value, upto in ((0.0, 0.5), (1.0, 0.7), (2.0, 0.8), (4.0, 1.0), (8.0, 1.0)):
        assert said.up_to(np.array([value]))[0] == pytest.approx(upto)
    low, high = said.places(np.array([3.0]))
    assert (low[0], high[0]) == pytest.approx((0.8, 0.9))
    assert said.places(np.array([0.0]))[0][0] == 0.0


@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=8, max_size=8).filter(lambda s: sum(s) > 0.01),
    quota=st.integers(1, 40),
)
def test_the_quantile_is_the_least_value_that_reaches_the_level(shares, quota):
    edges = np.minimum(np.array([0, 1, 2, 3, 4, 8, 20, 40]), quota).astype(float)
    masses = np.where(np.diff(np.concatenate([[-1.0], edges])) > 0, shares, 0.0)
    masses[-1] = max(masses[-1], 1e-3) if edges[-1] > edges[-2] else masses[-1]
    masses[np.argmax(edges == quota)] += 0.1
    said = distribution(edges.tolist(), (masses / masses.sum()).tolist())
    levels = np.linspace(0.01, 0.99, 23)
    values = said.quantiles(levels[None])[0]
    assert (np.diff(values) >= 0).all()
    assert values[0] >= 0
    assert values[-1] <= quota
    for level, value in zip(levels.tolist(), values.tolist(), strict=True):
        assert said.up_to(np.array([value]))[0] >= level - 1e-6
        assert value == 0 or said.up_to(np.array([value - 1.0]))[0] < level + 1e-6


def test_a_model_learns_both_whether_and_how_much():
    rng = np.random.default_rng(0)
    signal = rng.integers(0, 2, 6000).astype(float)
    came = np.where(
        signal > 0, rng.choice([4.0, 8.0], 6000), np.where(rng.uniform(size=6000) < 0.8, 0.0, 2.0)
    )
    model = BinModel.fit(rows_of(signal), came, seed=0)
    assert model is not None
    said = model.distribution(rows_of(np.array([0.0, 1.0])))
    assert said.up_to(np.array([0.0, 0.0])) == pytest.approx([0.8, 0.0], abs=0.15)
    assert said.up_to(np.array([2.0, 4.0])) == pytest.approx([1.0, 0.5], abs=0.15)
    assert (said.cumulated[:, -1] == 1.0).all()
    again = BinModel.from_text(model.text())
    assert (
        again.distribution(rows_of(signal[:50])).cumulated
        == model.distribution(rows_of(signal[:50])).cumulated
    ).all()


def test_too_little_or_nothing_to_tell_apart_is_no_model():
    assert BinModel.fit(rows_of(np.zeros(50)), np.zeros(50), seed=0) is None
    assert BinModel.fit(rows_of(np.zeros(500)), np.zeros(500), seed=0) is None


def samples(first: int, number: int, scale: float, seed: int) -> Samples:
    """Two units whose outcomes are uniform up to `scale`; the second does not exist at first."""
    rng = np.random.default_rng(seed)
    observed = np.floor(rng.uniform(0, scale, (number, 2)))
    observed[: number // 4, 1] = np.nan
    instants_s = (first + np.arange(number)) * 60.0
    return Samples(instants_s, rows_of(rng.uniform(size=2 * number), 64.0), observed)


def test_after_a_shift_the_upper_levels_cover_again():
    bins = CalibratedBins(2, 300.0, 60.0, 0)
    bins.learn(samples(0, 800, 16.0, 0), 800 * 60.0 + 300.0)
    asked = rows_of(np.array([0.5, 0.5]), 64.0)
    at = LEVELS.index(0.95)
    before = bins.quantiles(asked)[:, at]
    assert (np.abs(before - 15.0) <= 1.0).all()
    shifted = samples(800, 1500, 32.0, 1)  # twice as much is asked for
    bins.catch_up(shifted, 2300 * 60.0 + 300.0)
    after = bins.quantiles(asked)
    assert (after[:, at] > before).all()
    assert (np.diff(after, axis=1) >= 0).all()
    restored = CalibratedBins(2, 300.0, 60.0, 0)
    restored.restore(json.loads(json.dumps(bins.state())))
    assert (restored.quantiles(asked) == after).all()


def test_nothing_learned_is_the_most_possible():
    bins = CalibratedBins(1, 300.0, 60.0, 0)
    assert not bins.is_learned
    assert (bins.quantiles(rows_of(np.array([0.5]))) == 16.0).all()
    bins.learn(Samples(np.empty(0), rows_of(np.empty(0)), np.empty((0, 1))), 0.0)
    assert not bins.is_learned


def test_it_makes_no_difference_how_often_outcomes_are_taken_in():
    often, once = CalibratedBins(2, 300.0, 60.0, 0), CalibratedBins(2, 300.0, 60.0, 0)
    later = samples(400, 200, 40.0, 1)
    for bins in (often, once):
        bins.learn(samples(0, 400, 16.0, 0), 400 * 60.0)
    for number in range(1, 201, 7):
        known = later.part(np.arange(200) < number)
        often.catch_up(known, float(known.instants_s[-1]) + 300.0)
    for bins in (often, once):
        bins.catch_up(later, 600 * 60.0 + 300.0)
    assert often.state() == once.state()
