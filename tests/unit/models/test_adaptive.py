"""Levels corrected on the way: the long-run guarantee, the order of delayed outcomes, ties."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.calibration.adaptive import (
    MOST_LOG_ODDS,
    AdaptiveLevels,
    conformal_start,
    log_odds,
    tie_coverage,
)

LEVELS = (0.5, 0.9, 0.95)


def missed(adaptive: AdaptiveLevels, places: list[tuple[float, float]], delay: int) -> np.ndarray:
    """Mean miss of the one unit and each level; outcomes are known `delay` forecasts later."""
    covered = []
    for number in range(len(places) + delay):
        if number >= delay:
            low, high = places[number - delay]
            covered.append(adaptive.settle(np.array([low]), np.array([high]))[0])
        if number < len(places):
            adaptive.issue(float(number + delay))
    return 1.0 - np.mean(covered, axis=0)


@settings(max_examples=60, deadline=None)
@given(
    runs=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.5), st.integers(20, 80)), min_size=3, max_size=6),
    delay=st.integers(1, 12),
    step=st.floats(0.05, 2.0),
)
def test_the_miss_rate_is_kept_whatever_comes(runs, delay, step):
    places = [(low, min(1.0, low + length)) for low, length, times in runs for _ in range(times)]
    adaptive = AdaptiveLevels(LEVELS, 1, step)
    bound = 2 * (MOST_LOG_ODDS + step * (delay + 1)) / (step * len(places))
    error = missed(adaptive, places, delay) - (1.0 - np.array(LEVELS))
    assert (np.abs(error) <= bound).all()


def test_forecasts_that_are_too_narrow_are_widened_until_they_cover():
    rng = np.random.default_rng(0)
    places = [(place, place) for place in np.minimum(1.0, rng.uniform(0, 1, 4000) ** 0.4)]
    adaptive = AdaptiveLevels(LEVELS, 1, 0.1)
    share = missed(adaptive, places, 5)
    assert share == pytest.approx([0.5, 0.1, 0.05], abs=0.02)
    assert (
        adaptive.read_levels()[0, 1:] > [0.93, 0.97]
    ).all()  # true: 0.9 ** 0.4 = 0.959, 0.95 ** 0.4 = 0.98


def test_a_true_distribution_with_a_large_atom_covers_its_level_exactly():
    rng = np.random.default_rng(1)
    is_quiet = rng.uniform(size=200_000) < 0.9
    low, high = np.where(is_quiet, 0.0, 0.9), np.where(is_quiet, 0.9, 1.0)
    for level in (0.5, 0.9, 0.95):
        assert tie_coverage(low, high, np.full(1, level)).mean() == pytest.approx(level, abs=0.003)
    assert tie_coverage(np.array([0.3]), np.array([0.3]), np.array([0.3]))[0] == 1.0


def test_outcomes_are_settled_in_the_order_they_are_due_against_the_level_of_their_issue():
    adaptive = AdaptiveLevels((0.9,), 1, 1.0)
    adaptive.issue(10.0)
    adaptive.issue(20.0)
    with pytest.raises(ValueError, match="issued after"):
        adaptive.issue(15.0)
    assert adaptive.next_due_s() == 10.0
    assert adaptive.settle(np.array([0.95]), np.array([0.95]))[0, 0] == 0.0  # a miss: the level rises by 0.9
    assert adaptive.read_levels()[0, 0] == pytest.approx(1 / (1 + np.exp(-(np.log(9.0) + 0.9))))
    # the second was issued before the rise, and is judged by the level it was read at
    assert adaptive.settle(np.array([0.93]), np.array([0.93]))[0, 0] == 0.0
    assert adaptive.next_due_s() == np.inf
    with pytest.raises(ValueError, match="awaits"):
        adaptive.settle(np.array([0.5]), np.array([0.5]))


def test_units_without_an_outcome_stay_and_new_ones_begin_where_all_began():
    adaptive = AdaptiveLevels(LEVELS, 2, 0.5)
    adaptive.issue(1.0)
    adaptive.grow(3)
    adaptive.settle(np.array([1.0, np.nan, 0.2]), np.array([1.0, np.nan, 0.2]))
    read = adaptive.read_levels()
    assert (read[0] > LEVELS).all()
    assert read[1:] == pytest.approx(np.tile(LEVELS, (2, 1)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 3))
def test_levels_read_never_cross(outcomes, step):
    adaptive = AdaptiveLevels((0.3, 0.6, 0.9), 1, step)
    for place in outcomes:
        adaptive.issue(0.0)
        adaptive.settle(np.array([place]), np.array([place]))
        read = adaptive.read_levels()
        assert (np.diff(read) >= 0).all()
        assert ((read >= 0) & (read <= 1)).all()


def test_a_level_without_a_step_stays():
    adaptive = AdaptiveLevels((0.5, 0.9), 1, (0.0, 0.2))
    adaptive.issue(0.0)
    adaptive.settle(np.array([1.0]), np.array([1.0]))
    assert adaptive.read_levels()[0, 0] == pytest.approx(0.5)
    assert adaptive.read_levels()[0, 1] > 0.9


def test_the_state_goes_through_json_and_goes_on_alike():
    adaptive = AdaptiveLevels(LEVELS, 2, 0.3, np.array([0.5, 0.92, 0.99]))
    for due_s in (1.0, 2.0, 3.0):
        adaptive.issue(due_s)
    adaptive.settle(np.array([0.99, 0.1]), np.array([1.0, 0.2]))
    again = AdaptiveLevels.from_state(json.loads(json.dumps(adaptive.state())))
    for one in (adaptive, again):
        one.settle(np.array([0.5, 0.97]), np.array([0.6, 0.98]))
        one.grow(3)
    assert again.state() == adaptive.state()


def test_split_conformal_reads_higher_where_the_held_out_part_was_missed():
    rng = np.random.default_rng(2)
    places = rng.uniform(size=2000) ** 0.5  # the forecasts were too low: 0.9 is reached at 0.9 ** 0.5
    start = conformal_start(places, places, (0.5, 0.9))
    assert start == pytest.approx([0.5**0.5, 0.9**0.5], abs=0.02)
    near = conformal_start(places, places, (0.5, 0.9), farthest=0.1)
    assert log_odds(near) == pytest.approx(log_odds(np.array([0.5, 0.9])) + 0.1)
    assert conformal_start(places[:10], places[:10], (0.5, 0.9)).tolist() == [0.5, 0.9]


@pytest.mark.parametrize(("levels", "step"), [((0.5, 0.5), 0.1), ((0.0, 0.5), 0.1), ((0.5,), -0.1)])
def test_settings_that_make_no_sense_are_refused(levels, step):
    with pytest.raises(ValueError, match="levels must ascend"):
        AdaptiveLevels(levels, 1, step)


def test_a_stretch_too_short_to_divide_by_is_covered_like_a_point():
    tiny = np.array([2.2250738585e-313])
    assert tie_coverage(np.zeros(1), tiny, np.array([0.5]))[0] == 1.0
    assert tie_coverage(np.zeros(1), tiny, np.zeros(1))[0] == 0.0
    assert tie_coverage(np.ones(1) - 1e-16, np.ones(1), np.array([0.5]))[0] == 0.0
