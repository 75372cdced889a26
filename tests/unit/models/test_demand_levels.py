"""Levels by the minute: pools that appear and disappear, causality, and how often one asks."""

import json
import math

import numpy as np
import pytest

from models.demand.levels import LevelDemand

MINUTE_S = 60.0
DAY_S = 86_400.0
Series = list[tuple[float, dict[str, tuple[float, float]]]]


def series(days: float, *, every_s: float = 600.0, seed: int = 0) -> Series:
    """Pool a: 8 GPUs in the first half of each six hours, else 2. Pool b: a walk. Pool c lives for a day."""
    rng = np.random.default_rng(seed)
    found: Series = []
    walk = 10
    for tick in range(int(days * DAY_S / every_s)):
        now_s = tick * every_s
        walk = int(np.clip(walk + rng.integers(-1, 2), 0, 30))
        levels = {"a": (8.0 if now_s % 21_600.0 < 10_800.0 else 2.0, 10.0), "b": (float(walk), 20.0)}
        if DAY_S <= now_s < 2 * DAY_S:
            levels["c"] = (5.0, 5.0)
        found.append((now_s, levels))
    return found


def shown(lived: Series, **options) -> LevelDemand:
    demand = LevelDemand(every_s=600.0, windows_s=(3600.0, 21_600.0), **options)
    for now_s, levels in lived:
        demand.observe(now_s, levels)
    return demand


def test_a_periodic_level_is_foreseen_and_quantiles_do_not_cross():
    demand = shown(series(8))
    demand.learn()
    said = demand.quantiles(21_600.0)
    assert said.pools == ("a", "b")  # c is gone
    assert (np.diff(said.gpus, axis=1) >= 0).all()
    assert (said.gpus >= 0).all()
    middle = said.gpus[:, said.levels.index(0.5)]
    now = series(8)[-1][1]
    assert middle[0] == now["a"][0]
    assert abs(middle[1] - now["b"][0]) <= 4
    spread = said.gpus[:, said.levels.index(0.9)] - said.gpus[:, said.levels.index(0.1)]
    assert spread[1] > spread[0]


def test_nothing_learned_is_the_most_possible_and_a_new_pool_is_forecast_at_once():
    demand = shown(series(0.2))
    assert (demand.quantiles(3600.0).gpus[0] == 20.0).all()  # twice its quota
    demand = shown(series(6))
    demand.learn()
    demand.observe(6 * DAY_S, {"a": (8.0, 10.0), "new": (40.0, 50.0)})
    said = demand.quantiles(3600.0)
    assert said.pools == ("a", "new")
    assert said.gpus[1, said.levels.index(0.5)] == pytest.approx(40.0, abs=2.0)
    assert said.gpus[1, -1] <= 100.0


def test_a_changed_quota_counts_from_then_on():
    demand = shown(series(0.2))
    demand.observe(DAY_S, {"a": (8.0, 100.0)})
    assert (demand.quantiles(3600.0).gpus[0] == 200.0).all()


def test_what_happens_later_changes_nothing():
    lived, other = series(6), series(6, seed=1)
    cut = int(5 * DAY_S / 600.0)

    def said(later: Series) -> list:
        demand = shown([*lived[:cut]], retrain_every_s=DAY_S)
        found = [demand.quantiles(window_s).gpus.tolist() for window_s in demand.windows_s]
        for now_s, levels in later:
            demand.observe(now_s, levels)
        return [found, demand.quantiles(3600.0).gpus.tolist()]

    mine, theirs = said(lived[cut:]), said(other[cut:])
    assert mine[0] == theirs[0]
    assert mine[1] != theirs[1]


def test_it_makes_no_difference_how_often_one_asks():
    lived = series(7)
    quiet, curious = shown(lived[:720]), shown(lived[:720])
    for demand in (quiet, curious):
        demand.learn()
    for now_s, levels in lived[720:]:
        quiet.observe(now_s, levels)
        curious.observe(now_s, levels)
        curious.quantiles(3600.0)
    assert (quiet.quantiles(3600.0).gpus == curious.quantiles(3600.0).gpus).all()
    again = shown(lived)
    again.restore(json.loads(json.dumps(quiet.state())))
    assert (again.quantiles(3600.0).gpus == quiet.quantiles(3600.0).gpus).all()


def test_questions_and_observations_that_make_no_sense_are_refused():
    demand = LevelDemand()
    with pytest.raises(ValueError, match="after an observation"):
        demand.quantiles(300.0)
    demand.observe(120.0, {"a": (1.0, 2.0)})
    for now_s in (120.0, 60.0, 150.0):
        with pytest.raises(ValueError, match="multiple of"):
            demand.observe(now_s, {})
    with pytest.raises(ValueError, match="must be one of"):
        demand.quantiles(600.0)
    with pytest.raises(ValueError, match="positive lengths"):
        LevelDemand(windows_s=(math.nan,))
