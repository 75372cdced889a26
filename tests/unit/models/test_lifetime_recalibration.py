import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.lifetime.recalibration import (
    KEPT_LIVES,
    LEVELS,
    PRIOR_LIVES,
    REFRESH_LIVES,
    Recalibration,
    correction,
)

fixed = settings(max_examples=100, deadline=None, derandomize=True)
shares = st.lists(st.floats(0.0, 1.0), max_size=300)


@fixed
@given(ended=shares, running=shares)
def test_a_correction_is_a_survival_function_that_falls_everywhere(ended, running):
    alive = correction(np.array(ended), np.array(running))
    assert alive[0] == 1.0
    assert alive[-1] == pytest.approx(0.0, abs=1e-9)
    assert (np.diff(alive) < 0.0).all()


@fixed
@given(ended=shares, curve=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=58))
def test_a_corrected_curve_is_proper(ended, curve):
    recalibration = Recalibration()
    recalibration.refresh(ended)
    recalibration.ended.extend(ended)
    recalibration.refresh([])
    recalibration.balance = 10.0
    said = recalibration.apply(np.array(sorted(curve, reverse=True)))
    assert ((said >= 0.0) & (said <= 1.0)).all()
    assert (np.diff(said) <= 0.0).all()


def test_it_changes_nothing_while_nothing_is_known():
    curve = np.linspace(1.0, 0.0, 58)
    np.testing.assert_allclose(Recalibration().apply(curve), curve, atol=1e-12)
    np.testing.assert_allclose(correction(np.zeros(0), np.zeros(0)), 1.0 - LEVELS, atol=1e-12)


def test_few_lives_move_it_little():
    alive = correction(np.full(10, 0.01), np.zeros(0))
    assert np.abs(alive - (1.0 - LEVELS)).max() <= 10 / (10 + PRIOR_LIVES)


def followed(shares: np.ndarray) -> Recalibration:
    """Told of lives as they end, estimated anew whenever due."""
    recalibration = Recalibration()
    for share in shares.tolist():
        recalibration.add(share, recalibration.alive)
        if recalibration.is_due:
            recalibration.refresh([])
    return recalibration


def test_a_known_distortion_is_undone():
    """Lives that were said to be too short by half: S true is the root of S said."""
    recalibration = followed(1.0 - np.random.default_rng(0).random(KEPT_LIVES) ** 2)
    said = np.array([0.04, 0.25, 0.64])
    kept = KEPT_LIVES / (KEPT_LIVES + PRIOR_LIVES)
    wanted = kept * np.sqrt(said) + (1.0 - kept) * said
    assert recalibration.weight > 0.95
    np.testing.assert_allclose(recalibration.apply(said), wanted, atol=0.03)


def test_calibrated_forecasts_stay_as_they_are():
    said = np.linspace(0.05, 0.95, 10)
    recalibration = followed(np.random.default_rng(0).random(3 * KEPT_LIVES))
    np.testing.assert_allclose(recalibration.apply(said), said, atol=0.02)


def test_a_correction_that_would_have_made_it_worse_is_not_applied():
    """Bursts: each is the opposite of the one before, so what was learned of one is wrong for the next."""
    rng = np.random.default_rng(0)
    bursts = [rng.random(500) ** 3 if k % 2 else 1.0 - rng.random(500) ** 3 for k in range(10)]
    recalibration = Recalibration()
    worst = 0.0
    for burst in bursts:
        for share in burst.tolist():
            recalibration.add(share, recalibration.alive)
        worst = max(worst, recalibration.weight)
        recalibration.ended.clear()
        recalibration.ended.extend(burst.tolist())
        recalibration.refresh([])
    assert np.abs(recalibration.alive - (1.0 - LEVELS)).max() > 0.05
    assert worst == 0.0
    said = np.linspace(0.05, 0.95, 10)
    np.testing.assert_array_equal(recalibration.apply(said), said)


def test_jobs_that_still_run_do_not_make_lives_look_short():
    """Calibrated forecasts, half of the lives seen only up to some age."""
    rng = np.random.default_rng(1)
    lives, seen = rng.random(20_000), rng.random(20_000)
    is_ended = lives <= seen
    informed = correction(lives[is_ended], seen[~is_ended])
    blind = correction(lives[is_ended], np.zeros(0))
    np.testing.assert_allclose(informed, 1.0 - LEVELS, atol=0.03)
    assert np.abs(blind - (1.0 - LEVELS)).max() > 0.1


def test_it_forgets_and_says_when_it_is_due():
    recalibration = Recalibration()
    for k in range(KEPT_LIVES + 10):
        recalibration.add(float(k >= 10), recalibration.alive)
        assert recalibration.is_due == (k + 1 >= REFRESH_LIVES)
    assert set(recalibration.ended) == {1.0}
    recalibration.refresh([])
    assert not recalibration.is_due
