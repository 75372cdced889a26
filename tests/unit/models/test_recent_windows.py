"""The baseline of demand: quantiles of last week's windows, by hand and without the future."""

import numpy as np
import pytest
from support import job

from models.demand.calibrated import LEVELS
from models.demand.recent_windows import LOOK_BACK_S, RecentWindows

HOUR_S = 3600.0


def told(*arrivals: tuple[float, int]) -> RecentWindows:
    """A baseline of one pool with a quota of 8 that was told of (instant, GPUs)."""
    model = RecentWindows({"a": 8, "quiet": 4})
    for k, (at_s, gpus) in enumerate(arrivals):
        model.submitted(job(f"j{k}", at_s, gpus), at_s)
    return model


def test_nothing_asked_for_is_nothing_forecast():
    assert (told().requested(HOUR_S, 0.0) == 0).all()
    assert told().requested(HOUR_S, 0.0).shape == (2, len(LEVELS))


def test_shares_of_last_weeks_windows_are_the_quantiles():
    """Two GPUs in the second half of every other hour: a quarter of the half-hourly windows holds them."""
    now_s = LOOK_BACK_S
    model = told(*((at + 2700.0, 2) for at in np.arange(-4 * HOUR_S, now_s, 2 * HOUR_S)))
    said = model.requested(1800.0, now_s)[0]
    for level, gpus in zip(LEVELS, said, strict=True):
        if level < 0.74:
            assert gpus == 0
        if level > 0.76:
            assert gpus == 2


def test_windows_are_capped_by_the_quota_and_pools_kept_apart():
    said = told(*((HOUR_S * k, 30) for k in range(168))).requested(12 * HOUR_S, LOOK_BACK_S)
    assert said.max() == 8
    assert said[1].max() == 0


def test_what_is_older_than_a_week_is_forgotten():
    model = told(*((HOUR_S * k, 5) for k in range(24)))
    assert model.requested(HOUR_S, 24 * HOUR_S).max() == 5
    assert model.requested(HOUR_S, LOOK_BACK_S + 26 * HOUR_S).max() == 0


def test_jobs_of_pools_without_a_quota_are_left_out():
    model = told()
    model.submitted(job("x", 0.0, 3, pool="other"), 0.0)
    assert model.requested(HOUR_S, 1.0).max() == 0


@pytest.mark.parametrize("window_s", [300.0, HOUR_S, 12 * HOUR_S])
def test_quantiles_do_not_cross(window_s):
    rng = np.random.default_rng(0)
    arrivals = np.sort(rng.uniform(0, LOOK_BACK_S, 300))
    said = told(*((float(at), 1) for at in arrivals)).requested(window_s, LOOK_BACK_S)
    assert (np.diff(said, axis=1) >= 0).all()
