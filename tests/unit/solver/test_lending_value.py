import numpy as np
import pytest

from solver.lending.value import FAIRNESS, PoolsNow, ValueSettings, fair_grants, job_values

HOUR_S = 3600.0


def value(wait_s=0.0, life_s=HOUR_S, width=1.0, **settings):
    columns = (np.array([one], dtype=float) for one in (wait_s, life_s, width))
    return float(job_values(*columns, ValueSettings(**settings))[0])


def test_a_new_job_is_worth_the_same_at_any_width_so_narrow_ones_win_the_gpus():
    assert value(width=8.0) == value(width=1.0)


def test_a_wide_job_that_waits_on_comes_to_be_worth_its_width():
    assert value(wait_s=1e9, width=8.0, stretch=0.0) == pytest.approx(
        8.0 * value(wait_s=1e9, stretch=0.0), rel=1e-3
    )
    assert value(wait_s=4 * HOUR_S, width=4.0, stretch=0.0) == pytest.approx(2.0 * value(stretch=0.0))


def test_short_jobs_and_those_that_have_waited_long_for_little_come_first():
    assert value(life_s=60.0) > value(life_s=HOUR_S) > value(life_s=100 * HOUR_S) > 0.0
    assert value(wait_s=HOUR_S) > value(wait_s=0.0)
    assert value(life_s=1.0) == value(life_s=60.0)
    assert value(life_s=float("inf")) == 0.0


@pytest.mark.parametrize("changes", [{"patience_s": 0.0}, {"stretch": -1.0}, {"weight": -0.1}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match="patience"):
        ValueSettings(**changes)


def pools(used=(2, 6), quota=(8, 8), asked=(10, 10), idle=6):
    quota, used, asked = (np.array(column, dtype=float) for column in (quota, used, asked))
    return PoolsNow(quota, used, asked, idle)


def test_max_min_grants_fill_the_lower_pool_first():
    assert fair_grants(pools()).tolist() == [5.0, 1.0]
    assert fair_grants(pools(idle=3)).tolist() == [3.0, 0.0]
    assert fair_grants(pools(asked=(2, 3), idle=99)).tolist() == [2.0, 3.0]
    assert fair_grants(pools(idle=0)).tolist() == [0.0, 0.0]


def test_nobody_who_asks_gets_nothing():
    assert fair_grants(pools(asked=(0, 0))).tolist() == [0.0, 0.0]


def test_the_bonus_of_max_min_ends_at_the_fair_grant():
    terms = FAIRNESS["maxmin"](pools(), ValueSettings(weight=2.0), 0.5)
    gains = [terms.utility.at(np.full(2, gpus)).tolist() for gpus in (0.0, 1.0, 5.0, 9.0)]
    assert gains == [[0.0, 0.0], [1.0, 1.0], [5.0, 1.0], [5.0, 1.0]]


def test_lowest_use_puts_the_pool_that_uses_less_first():
    factor = FAIRNESS["lowest-use"](pools(), ValueSettings(), 1.0).factor
    assert factor.tolist() == pytest.approx([1 / 1.25, 1 / 1.75])


def test_beta_fairness_is_concave_and_close_to_its_utility():
    """beta = 1 is proportional fairness: (quota + 1) x log(use + grant + 1), but for a constant."""
    terms = FAIRNESS["beta"](pools(used=(2, 6), asked=(20, 20), idle=20), ValueSettings(beta=1.0), 1.0)
    grid = np.linspace(0.0, 20.0, 41)
    for pool, used in enumerate((2.0, 6.0)):
        gains = np.array([terms.utility.at(np.full(2, gpus))[pool] for gpus in grid])
        assert (np.diff(gains, 2) <= 1e-9).all()
        assert gains == pytest.approx(9.0 * np.log((used + grid + 1.0) / (used + 1.0)), rel=0.2, abs=1e-9)


def test_beta_0_does_not_care():
    terms = FAIRNESS["beta"](pools(), ValueSettings(beta=0.0), 1.0)
    assert terms.utility.slope == pytest.approx(np.ones_like(terms.utility.slope))
    assert FAIRNESS["none"](pools(), ValueSettings(), 1.0).utility is None
