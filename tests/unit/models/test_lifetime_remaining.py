"""Lives given what has been lived: never crossing, monotone in the age, and the chances fit the quantiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.remaining import Remaining

LEVELS = (0.05, 0.1, 0.5, 0.9, 0.99)
HAZARDS = st.lists(
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, 1.0)), min_size=58, max_size=len(LIFE_EDGES_S)
)
AGES = st.floats(0.0, 1e8)


def curve(hazards):
    return np.cumprod(1.0 - np.array(hazards))[None]


@settings(max_examples=60)
@given(HAZARDS, AGES, AGES)
def test_quantiles_never_cross_and_grow_with_what_was_lived(hazards, one_s, other_s):
    young, old = sorted((one_s, other_s))
    totals = [Remaining(curve(hazards), [age]).totals_s(LEVELS)[0] for age in (young, old)]
    for age, total in zip((young, old), totals, strict=True):
        assert (np.diff(total) >= 0.0).all()
        assert (total >= age).all()
        assert np.isfinite(total).all()
    assert (totals[1] >= totals[0] * (1.0 - 1e-9)).all()


@settings(max_examples=60)
@given(HAZARDS, AGES)
def test_a_share_of_the_level_has_ended_by_the_quantile(hazards, age_s):
    of = Remaining(curve(hazards), [age_s])
    left_s = of.left_s(LEVELS)[0]
    chances = of.chances(np.maximum(left_s, 1e-6))[0]
    assert (chances >= np.array(LEVELS) - 1e-6).all()
    assert (of.chances(left_s * (1.0 - 1e-6) - 1e-6)[0] <= np.array(LEVELS) + 1e-4).all()
    assert of.chances([0.0, -5.0])[0].tolist() == [0.0, 0.0]


def test_an_exponential_life_forgets_what_it_has_lived():
    """S = exp(-t / h): what is left is the same at any age, as far as straight lines in ln t can say it."""
    edges = np.array(LIFE_EDGES_S)
    of = Remaining(np.tile(np.exp(-edges / 36_000.0), (2, 1)), [0.0, 36_000.0])
    young, old = of.left_s([0.5])[:, 0]
    assert young == pytest.approx(36_000.0 * np.log(2.0), rel=0.03)
    assert old == pytest.approx(young, rel=0.05)


def test_beyond_what_a_curve_tells_chances_halve_with_every_doubling():
    edges = np.array(LIFE_EDGES_S)
    step = (edges < 3600.0).astype(float)[None]
    assert Remaining(step, [10_000.0]).totals_s([0.5])[0, 0] == pytest.approx(20_000.0)
    assert Remaining(np.ones((1, len(edges))), [0.0]).totals_s([0.5])[0, 0] == pytest.approx(2 * edges[-1])


def test_a_wrong_level_or_age_is_refused():
    with pytest.raises(ValueError, match="levels"):
        Remaining(curve([0.1] * 58), [0.0]).totals_s([1.0])
    with pytest.raises(ValueError, match="age"):
        Remaining(curve([0.1] * 58), [-1.0])


def test_asking_about_jobs_changes_nothing_that_is_said_later():
    """Asked of as if submitted now, alone; the next jobs' forecasts are as if nobody had asked."""
    asked, plain = (HazardLifetimes(), HazardLifetimes())
    for model in (asked, plain):
        for k in range(40):
            one = Job(f"j{k}", "a", 60.0 * k, 1 + k % 2, user="u", name=f"train-{k % 3}")
            model.started(one, 60.0 * k)
            model.ended(one, 60.0 * k + 30.0, 30.0)
    new = [Job(f"n{k}", "a", 5000.0, 1, user="u", name=f"new-{k}") for k in range(3)]
    alone = [asked.foreseen([one], 5000.0)[0] for one in new]
    together = asked.foreseen(new, 5000.0)
    assert np.array_equal(together, alone)
    for model in (asked, plain):
        model.submitted(new[1], 5000.0)
    assert asked.survival(new[1]) == plain.survival(new[1]) == tuple(alone[1].tolist())
    assert np.array_equal(asked.foreseen([new[1]], 9000.0)[0], plain.survival(new[1]))
