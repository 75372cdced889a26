"""The level of own use that is usual, as the least that is expected far ahead."""

import numpy as np

from solver.usual import UsualUse

HOUR_S = 3600.0
BEGINS_S = np.array([0.0, 4 * HOUR_S, 8 * HOUR_S, 24 * HOUR_S])


def seen(levels):
    usual = UsualUse(BEGINS_S)
    for k, gpus in enumerate(levels):
        usual.note(1800.0 * k, gpus)
    return usual


def test_nothing_is_usual_before_a_day_was_seen():
    assert not seen([7] * 47).floor(4).any()
    assert seen([7] * 48).floor(4).any()


def test_near_cells_have_no_floor_and_scenarios_spread_over_the_levels_seen():
    floor = seen(range(50)).floor(50)
    assert not floor[:, :2].any()
    assert sorted(floor[:, 2]) == list(range(50))
    assert (floor[:, 2] == floor[:, 3]).all(), "a scenario keeps its level"
    assert list(floor[:, 2]) != list(range(50)), "and levels do not follow the order of the scenarios"


def test_a_single_scenario_is_what_will_happen():
    assert not seen([7] * 100).floor(1).any()


def test_one_look_in_half_an_hour_and_two_weeks_of_them():
    usual = seen([7] * 48)
    usual.note(1800.0 * 47 + 1.0, 1000)
    assert usual.floor(9).max() == 7.0
    assert seen([9] + [7] * 14 * 48).floor(9).max() == 7.0
