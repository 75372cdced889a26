"""Need ahead against GPUs there are: two pools of 4, one cell unless said otherwise.

Who is tried as a guest is one of those who wait.
"""

import numpy as np
import pytest

from solver.lookahead import Ahead, LookAhead

NEVER_ENDS = np.ones(1)

JUST_FULL = 0.5 * 0.398942
"""GPUs expected to be missing where need is just what there is: by rounding, a spread of half a GPU."""


def look(own=(0, 0), guest=(0, 0), requeueable=(0, 0), backlog=(0, 0), peaks=((0, 0),), arrivals=((1, 1),)):
    def column(values):
        return np.array(values, dtype=float)[:, None]

    ahead = Ahead(
        own=column(own),
        guest=column(guest),
        requeueable=column(requeueable),
        backlog=column(backlog),
        variance=np.zeros(1),
        cohort_sd={},
        kinship=0.5,
        peaks=np.array(peaks, dtype=float)[:, :, None],
        arrivals=np.array(arrivals, dtype=float)[:, :, None],
        quota_gpus=np.array([4.0, 4.0]),
    )
    return LookAhead(ahead, 8)


def test_an_idle_cluster_has_no_risk_and_lending_is_free():
    ahead = look()
    assert ahead.missing[0] < 1e-12
    assert ahead.try_guest(0, 4, NEVER_ENDS, 0).charge < 1e-9


def test_lending_what_the_lender_will_ask_for_is_charged_with_its_share_of_the_jobs_to_come():
    """One GPU of eight is missing, beside the rounding's spread of half a GPU: about 0.8 / 8 of 3 jobs."""
    ahead = look(own=(4, 0), backlog=(2, 0), peaks=((0, 4),), arrivals=((0, 3),))
    one, two = (ahead.try_guest(0, width, NEVER_ENDS, 0) for width in (1, 2))
    assert one.charge == pytest.approx((1.004 - 0.199) * 3 / 8, abs=1e-3)
    assert two.charge == pytest.approx((2.0 - 0.199) * 3 / 8, abs=1e-3)


def test_a_guest_that_will_be_gone_is_free():
    ahead = look(own=(4, 0), backlog=(0, 0), peaks=((0, 4),))
    assert ahead.try_guest(0, 4, np.zeros(1), 0).charge == 0.0


def test_a_guest_that_its_own_lane_will_reach_is_not_counted_twice():
    """Pool 0 has 4 GPUs, nobody of its own, and a job that waits: running it early takes nothing away."""
    ahead = look(own=(0, 4), backlog=(4, 0))
    assert ahead.try_guest(0, 4, NEVER_ENDS, 0).charge < 1e-9


def test_arrivals_fill_only_what_own_waiting_and_guests_leave_of_the_quota():
    crowded = look(own=(2, 4), guest=(1, 0), backlog=(1, 0), peaks=((100, 100),))
    assert crowded.missing[0] == pytest.approx(JUST_FULL), (
        "own 2 + guest 1 + waiting 1 + 4: just the capacity"
    )


def test_what_matters_is_the_quantile_of_the_sum():
    """Each pool asks for 3 GPUs in half of the scenarios; what is lent is missed only if both do at once."""
    apart = look(guest=(2, 0), backlog=(0, 0), peaks=((2, 0), (0, 3)))
    together = look(guest=(2, 0), backlog=(0, 0), peaks=((2, 4), (0, 0)))
    assert apart.missing[0] < 1e-3
    assert together.missing[0] == pytest.approx(JUST_FULL / 2)


def test_charges_add_up_as_guests_are_added():
    ahead = look(own=(4, 0), backlog=(2, 0), peaks=((0, 2),))
    first = ahead.try_guest(0, 1, NEVER_ENDS, 0)
    ahead.add(first)
    second = ahead.try_guest(0, 1, NEVER_ENDS, 0)
    assert second.charge > 10 * first.charge


def test_the_spread_of_lives_makes_a_risk_of_what_fits_on_average():
    certain = look(own=(4, 0), backlog=(1, 0), peaks=((0, 2),)).try_guest(0, 1, np.ones(1), 0)
    perhaps = look(own=(4, 0), backlog=(1, 0), peaks=((0, 2),)).try_guest(0, 2, np.full(1, 0.5), 0)
    assert perhaps.charge > certain.charge


def test_guests_that_can_be_sent_back_are_no_risk_but_may_be_sent_back():
    ahead = look(own=(4, 0), requeueable=(4, 0), peaks=((0, 4),))
    assert ahead.missing[0] <= 0.5
    assert ahead.chance_sent_back(1, NEVER_ENDS) > 0.99
    assert look().chance_sent_back(4, NEVER_ENDS) < 1e-6
    full = look(own=(4, 0))
    full.add_requeueable(4, NEVER_ENDS)
    assert full.chance_sent_back(1, NEVER_ENDS) > 0.9


def test_cells_are_apart():
    ahead = Ahead(
        own=np.array([[4.0, 0.0], [0.0, 0.0]]),
        guest=np.zeros((2, 2)),
        requeueable=np.zeros((2, 2)),
        backlog=np.array([[2.0, 2.0], [0.0, 0.0]]),
        variance=np.zeros(2),
        cohort_sd={},
        kinship=0.5,
        peaks=np.array([[[0.0, 0.0], [4.0, 4.0]]]),
        arrivals=np.ones((1, 2, 2)),
        quota_gpus=np.array([4.0, 4.0]),
    )
    trial = LookAhead(ahead, 8).try_guest(0, 2, np.array([1.0, 1.0]), 0)
    assert trial.missing[0, 0] > 0.99
    assert trial.missing[0, 1] < 0.01


def test_a_burst_is_charged_with_the_jobs_that_come_when_gpus_are_missing():
    """In one scenario of two 100 jobs come and want everything, in the other nothing happens."""

    def charge(arrivals):
        ahead = Ahead(
            own=np.array([[4.0], [0.0]]),
            guest=np.zeros((2, 1)),
            requeueable=np.zeros((2, 1)),
            backlog=np.array([[2.0], [0.0]]),
            variance=np.zeros(1),
            cohort_sd={},
            kinship=0.5,
            peaks=np.array([[[0.0], [4.0]], [[0.0], [0.0]]]),
            arrivals=np.array(arrivals)[:, None, None] * np.array([[[0.0], [1.0]]]),
            quota_gpus=np.array([4.0, 4.0]),
        )
        return LookAhead(ahead, 8).try_guest(0, 2, np.ones(1), 0).charge

    together, apart = charge([100.0, 0.0]), charge([0.0, 100.0])
    assert together > 10.0
    assert apart < 0.01 * together, "those who come when nothing is missing are not slowed"


def test_siblings_of_guests_that_run_are_charged_more_than_strangers():
    """Half of a burst of 40 is expected to be gone by the cell: alike, they are all there or none."""
    half = np.full(1, 0.5)
    ahead = Ahead(
        own=np.array([[60.0], [0.0]]),
        guest=np.array([[20.0], [0.0]]),
        requeueable=np.zeros((2, 1)),
        backlog=np.array([[1.0], [0.0]]),
        variance=np.array([0.5 * 400.0 + 0.5 * 10.0]),
        cohort_sd={7: np.array([20.0])},
        kinship=0.5,
        peaks=np.zeros((1, 2, 1)),
        arrivals=np.ones((1, 2, 1)),
        quota_gpus=np.array([60.0, 60.0]),
    )
    looked = LookAhead(ahead, 120)
    assert looked.try_guest(0, 1, half, 7).charge > 1.2 * looked.try_guest(0, 1, half, 8).charge
