"""Scores of demand forecasts by hand, and the finder of change points."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import job

from models.demand.changes import DAY_S, daily_gpu_hours, largest_change
from models.demand.levels import LevelDemand
from models.demand.pools import PoolDemand
from models.demand.scoring import BASELINES, coverage_parts, score_demand, score_levels

HOUR_S = 3600.0
LEVELS = (0.1, 0.5, 0.9, 0.95, 0.99)


# change points


def test_gpu_hours_are_spread_over_the_days_a_job_runs():
    submit, end = np.array([DAY_S - HOUR_S, 0.0, 2.5 * DAY_S]), np.array([DAY_S + 2 * HOUR_S, 60.0, np.inf])
    assert daily_gpu_hours(submit, end, np.array([4.0, 60.0, 1.0]), 3).tolist() == pytest.approx(
        [5.0, 8.0, 12.0]
    )


def test_a_shift_that_was_built_in_is_found():
    rng = np.random.default_rng(0)
    daily = np.concatenate([rng.normal(100, 5, 9), rng.normal(160, 5, 12)])
    assert largest_change(daily) == 9
    assert largest_change(daily, first=12) != 9
    assert largest_change(daily[::-1]) == 12
    assert largest_change(np.full(10, 3.0)) is None
    assert largest_change(daily, first=30) is None


@given(st.integers(2, 12), st.integers(2, 12), st.floats(1, 1e3), st.floats(1.5, 100))
def test_a_single_step_is_found_where_it_is(before, after, level, times):
    assert largest_change(np.array([level] * before + [level * times] * after)) == before


# coverage


def test_a_forecast_that_knows_the_truth_covers_its_level_however_large_the_atom():
    rng = np.random.default_rng(0)
    for quiet in (0.3, 0.92, 0.97):
        observed = np.where(rng.uniform(size=100_000) < quiet, 0.0, rng.integers(1, 41, 100_000))
        grid = np.concatenate([[0.0], np.arange(1, 41)])
        cumulated = np.concatenate([[quiet], quiet + (1 - quiet) * np.arange(1, 41) / 40])
        said = grid[np.searchsorted(cumulated, np.array(LEVELS) - 1e-9)]
        parts = coverage_parts(observed, np.tile(said, (len(observed), 1)), LEVELS, 0.95)
        assert parts.mean() == pytest.approx(0.95, abs=0.015)


def test_without_ties_coverage_is_the_share_below():
    observed = np.array([0.5, 1.5, 2.5, 3.5])
    said = np.tile([0.0, 1.0, 2.0, 3.0, 4.0], (4, 1))
    assert coverage_parts(observed, said, LEVELS, 0.9).tolist() == [1.0, 1.0, 0.0, 0.0]


# whole scores


def lived(days: float) -> list[tuple]:
    """Pool a: two GPUs for ten minutes every hour; pool b starts to ask on day 5."""
    found = [(job(f"a{k}", k * HOUR_S + 90.0, 2, "a"), 600.0) for k in range(int(24 * days))]
    found += [(job(f"b{k}", 5 * DAY_S + k * 900.0, 1, "b"), 3000.0) for k in range(int(96 * (days - 5)))]
    return found


@pytest.fixture(scope="module")
def scores() -> dict:
    from_s, until_s = 4 * DAY_S, 7 * DAY_S
    jobs = lived(7)
    demand = PoolDemand({"a": 4, "b": 8}, windows_s=(3600.0, 7200.0), num_scenarios=2)
    early = [one for one in jobs if one[0].submit_s < from_s]
    past = [one for one in early if one[0].submit_s + one[1] <= from_s]
    demand.fit(
        past, [(one, from_s - one.submit_s) for one, life in early if one.submit_s + life > from_s], from_s
    )
    return score_demand(demand, jobs, from_s=from_s, until_s=until_s)


def test_every_score_is_there_and_lies_where_it_must(scores):
    assert list(scores) == [3600.0, 7200.0]
    for own in scores.values():
        for target in (own, own["held"]):
            assert set(target["baselines"]) == set(BASELINES)
            assert target["pinball_best_baseline"] == min(target["baselines"].values())
            assert target["coverage_95_below"] <= target["coverage_95"] <= target["coverage_95_at_or_below"]
            assert 0.0 < target["coverage_95_after_change"] <= 1.0
            assert target["cells"] > 800
        assert 0.0 <= own["precision"] <= 1.0
        assert own["recall"] > 0.8


def test_baselines_by_hand(scores):
    # pool a asks for 2 GPUs in every hour, b for nothing and then for 4: a day before b asked for nothing
    own = scores[3600.0]["baselines"]
    last_day = 1 / 3  # of the three days scored, b had begun on the first day of the last two
    assert own["seasonal_naive"] == pytest.approx(0.5 * last_day * 0.5 * 4, abs=0.1)
    assert own["last_hour_mean"] < 0.05
    assert scores[3600.0]["arrivals_in"] == pytest.approx((1 + 2 / 3) / 2, abs=0.01)


def test_levels_are_scored_the_same_way():
    series = []
    rng = np.random.default_rng(0)
    level = 5.0
    for tick in range(int(6 * DAY_S / 600.0) + 1):
        level = float(np.clip(level + rng.integers(-1, 2), 0, 12))
        series.append((tick * 600.0, {"a": (level, 10.0), "b": (3.0, 4.0)}))
    demand = LevelDemand(windows_s=(3600.0,), every_s=600.0)
    own = score_levels(demand, series, from_s=4 * DAY_S, until_s=6 * DAY_S)[3600.0]
    assert own["cells"] == 2 * (2 * 48 - 1)
    assert own["pinball"] < 0.9 * own["pinball_best_baseline"]
    assert own["pinball_last_value"] == pytest.approx(own["baselines"]["last_hour_mean"], rel=0.5)
    assert own["coverage_95"] == pytest.approx(0.95, abs=0.04)
    assert not math.isnan(own["coverage_95_after_change"])
