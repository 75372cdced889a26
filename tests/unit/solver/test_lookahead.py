"""Need ahead against GPUs there are: two pools of 4, one cell unless said otherwise.

Who is tried as a guest is one of those who wait. Every lane start is urgent unless said otherwise: each GPU
missing slows (jobs to come) / (1 + lane starts, GPUs) of them.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from solver.lives import Alive, Cohort, Fates
from solver.lookahead import Ahead, Bursts, LookAhead, Stakes

NEVER_ENDS = np.ones(1)

JUST_FULL = 0.5 * 0.398942
"""GPUs expected to be missing where need is just what there is: by rounding, a spread of half a GPU."""

ONE_TOO_MANY = 1.004245
"""The same where need is one GPU more."""

NO_BURSTS = Bursts(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0), np.zeros((0, 1)))


def column(values):
    return np.array(values, dtype=float)[:, None]


def stakes(backlog=(1, 1), arrivals=(1, 1), num_waiting=(0, 0), weight=(1, 1)):
    return Stakes(column(backlog), column(arrivals), np.array(num_waiting, float), np.array(weight, float))


def nobody_varies(cells=1):
    return Alive(np.zeros((6, cells)), np.zeros(cells), (), np.zeros(cells))


def burst(pool, gpus, jobs, chance):
    return Bursts(np.array([pool]), np.array([gpus], float), np.array([jobs], float), np.array([[chance]]))


def known(own=(0, 0), guest=(0, 0), requeueable=(0, 0), backlog=(0, 0), peaks=((0, 0),), arrivals=((1, 1),)):
    return Ahead(
        own=column(own),
        guest=column(guest),
        requeueable=column(requeueable),
        backlog=column(backlog),
        alive=nobody_varies(),
        fates=Fates(0.5, 0),
        peaks=np.array(peaks, dtype=float)[:, :, None],
        arrivals=np.array(arrivals, dtype=float)[:, :, None],
        quota_gpus=np.array([4.0, 4.0]),
        stakes=stakes(),
        bursts=NO_BURSTS,
    )


def look(**numbers):
    return LookAhead(known(**numbers), 8)


def missing(short_gpus, sd_gpus=0.5):
    """E max(0, X), X normal."""
    z = short_gpus / sd_gpus
    return sd_gpus * norm.pdf(z) + short_gpus * norm.cdf(z)


def test_an_idle_cluster_has_no_risk_and_lending_is_free():
    ahead = look()
    assert ahead.missing[0] < 1e-12
    assert ahead.try_guest(0, 4, NEVER_ENDS, 0).charge < 1e-9


def test_lending_what_the_lender_will_ask_for_is_charged_with_its_share_of_the_jobs_to_come():
    """3 jobs will ask for 4 GPUs: each GPU missing slows 3 / (1 + 4) of them."""
    ahead = look(own=(4, 0), backlog=(2, 0), peaks=((0, 4),), arrivals=((0, 3),))
    one, two = (ahead.try_guest(0, width, NEVER_ENDS, 0) for width in (1, 2))
    assert one.charge == pytest.approx((ONE_TOO_MANY - JUST_FULL) * 3 / 5, abs=1e-4)
    assert two.charge == pytest.approx((2.0 - JUST_FULL) * 3 / 5, abs=1e-4)


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
    assert perhaps.variance.tolist() == [4 * 0.25]


def test_guests_that_can_be_sent_back_are_no_risk_but_may_be_sent_back():
    ahead = look(own=(4, 0), requeueable=(4, 0), peaks=((0, 4),))
    assert ahead.missing[0] <= 0.5
    assert ahead.chance_sent_back(1, NEVER_ENDS) > 0.99
    assert look().chance_sent_back(4, NEVER_ENDS) < 1e-6
    full = look(own=(4, 0))
    full.add_requeueable(4, NEVER_ENDS)
    assert full.chance_sent_back(1, NEVER_ENDS) > 0.9


def test_guests_that_must_run_to_their_end_make_it_likelier_to_be_sent_back_whenever_one_asks():
    asked_before, asked_after = (look(own=(4, 0), backlog=(4, 0)) for _ in range(2))
    assert asked_before.chance_sent_back(1, NEVER_ENDS) < 1e-6
    for ahead in (asked_before, asked_after):
        ahead.add(ahead.try_guest(0, 4, NEVER_ENDS, 0))
    assert asked_before.chance_sent_back(1, NEVER_ENDS) == asked_after.chance_sent_back(1, NEVER_ENDS) > 0.9


def test_cells_are_apart():
    ahead = Ahead(
        own=np.array([[4.0, 0.0], [0.0, 0.0]]),
        guest=np.zeros((2, 2)),
        requeueable=np.zeros((2, 2)),
        backlog=np.array([[2.0, 2.0], [0.0, 0.0]]),
        alive=nobody_varies(2),
        fates=Fates(0.5, 0),
        peaks=np.array([[[0.0, 0.0], [4.0, 4.0]]]),
        arrivals=np.ones((1, 2, 2)),
        quota_gpus=np.array([4.0, 4.0]),
        stakes=Stakes(np.ones((2, 2)), np.ones((2, 2)), np.zeros(2), np.ones(2)),
        bursts=NO_BURSTS._replace(chance=np.zeros((0, 2))),
    )
    trial = LookAhead(ahead, 8).try_guest(0, 2, np.array([1.0, 1.0]), 0)
    assert trial.missing[0, 0] > 0.99
    assert trial.missing[0, 1] < 0.01


def test_own_jobs_hold_at_least_what_is_usual_besides_the_guests():
    """Forecast are 2 GPUs; usual are 5 in one scenario of two. Guests have 3, so nothing is left there."""
    ahead = replace(known(own=(2, 0), guest=(3, 0), peaks=((0, 0), (0, 0))), floor=column([0, 5]))
    looked = LookAhead(ahead, 8)
    assert looked.missing[0] == pytest.approx(JUST_FULL / 2, abs=1e-6)
    assert looked.try_guest(0, 1, NEVER_ENDS, 0).need[:, 0].tolist() == [6.0, 9.0]


def test_a_burst_is_charged_with_the_jobs_that_come_when_gpus_are_missing():
    """In one scenario of two 100 jobs come and want everything, in the other nothing happens."""

    def charge(arrivals):
        ahead = known(own=(4, 0), backlog=(2, 0), peaks=((0, 4), (0, 0)))
        coming = np.array(arrivals)[:, None, None] * np.array([[[0.0], [1.0]]])
        return LookAhead(replace(ahead, arrivals=coming), 8).try_guest(0, 2, np.ones(1), 0).charge

    together, apart = charge([100.0, 0.0]), charge([0.0, 100.0])
    assert together == pytest.approx((2.0 - JUST_FULL) * 100 / 5 / 2, abs=1e-3)
    assert apart < 0.01 * together, "those who come when nothing is missing are not slowed"


def test_siblings_of_guests_that_run_are_charged_more_than_strangers():
    """Half of a burst of 40 is expected to be gone by the cell: alike, they are all there or none.

    In a quarter of the scenarios all are there, and with 20 GPUs for pool 1 the cluster is full then. One
    more of them is there as well; a stranger is, on average, half there.
    """
    half = np.full(1, 0.5)
    ahead = replace(
        known(own=(60, 0), guest=(20, 0), backlog=(1, 0), peaks=((0, 20),) * 200, arrivals=((0, 21),) * 200),
        alive=Alive(np.zeros((6, 1)), np.array([10.0]), (Cohort(7, 0, 40.0, half),), np.array([10.0])),
        quota_gpus=np.array([60.0, 60.0]),
    )
    looked = LookAhead(ahead, 120)
    sibling, stranger = (looked.try_guest(0, 1, half, cohort) for cohort in (7, 8))
    spread = np.sqrt(0.5 * 10.0 + 0.25), np.sqrt(0.5 * 10.25 + 0.25)
    all_there = missing(1.0, spread[1]) - missing(0.0, spread[0])
    assert sibling.charge == pytest.approx(0.25 * all_there, rel=0.02)
    assert 1.5 * stranger.charge < sibling.charge
    assert looked.missing[0] == pytest.approx(0.25 * missing(0.0, spread[0]), rel=0.02)


def test_what_is_not_urgent_neither_needs_gpus_nor_is_slowed():
    """Waiting jobs have a tolerance that outlasts the cell with chance 0.7, those to come one with 0.6."""
    ahead = replace(
        known(own=(4, 0), guest=(3, 0), backlog=(2, 2), peaks=((0, 2),), arrivals=((0, 3),)),
        stakes=stakes(backlog=(0.5, 0.3), arrivals=(0.5, 0.4)),
    )
    looked = LookAhead(ahead, 8)
    need = 4 + 3 + 0.3 * 2 + 0.4 * 2
    hit = 0.4 * 3 / (1 + 0.3 * 2 + 0.4 * 2)
    assert looked.missing[0] == pytest.approx(missing(need - 8))
    charge = looked.try_guest(0, 1, NEVER_ENDS, 0).charge
    assert charge == pytest.approx((missing(need + 1 - 8) - missing(need - 8)) * hit)


def test_a_burst_wider_than_the_room_of_its_lane_is_one_line():
    """12 GPUs are asked for where there is room for 4: who holds up the first third holds up the others."""
    narrow = look(own=(4, 0), backlog=(2, 0), peaks=((0, 4),), arrivals=((0, 2),))
    wide = look(own=(4, 0), backlog=(2, 0), peaks=((0, 12),), arrivals=((0, 6),))
    one, three = (ahead.try_guest(0, 2, NEVER_ENDS, 0).charge for ahead in (narrow, wide))
    assert three == pytest.approx(9 * one), "three times the jobs, and each of them behind the first"


def test_jobs_that_wait_are_slowed_too_and_those_of_small_pools_count_more():
    """Pool 1 has 2 jobs that ask for 4 GPUs; with 2 GPUs more lent 2 are missing of the 4 due."""
    ahead = known(own=(4, 0), backlog=(2, 4), arrivals=((0, 0),))
    hit = 2 * 1.0 / (1 + 4)
    for weight in (1.0, 20.0):
        looked = LookAhead(replace(ahead, stakes=stakes(num_waiting=(0, 2), weight=(1, weight))), 8)
        charge = looked.try_guest(0, 2, NEVER_ENDS, 0).charge
        assert charge == pytest.approx((2.0 - JUST_FULL) * hit * weight, abs=1e-3)


def test_a_rare_burst_is_charged_with_its_chance():
    """8 jobs of one GPU come to pool 1 in one of ten cells, where 4 have room: 8 x 2 / (1 + 4) a GPU."""
    ahead = replace(known(own=(4, 0), backlog=(2, 0), arrivals=((0, 0),)), bursts=burst(1, 8, 8, 0.1))
    charge = LookAhead(ahead, 8).try_guest(0, 1, NEVER_ENDS, 0).charge
    assert charge == pytest.approx((ONE_TOO_MANY - JUST_FULL) * 0.1 * 16 / 5, abs=1e-4)
    calm = replace(ahead, bursts=burst(0, 8, 8, 0.1))
    assert LookAhead(calm, 8).try_guest(0, 1, NEVER_ENDS, 0).charge < 1e-9, "pool 0 has no room left for it"
    full = replace(calm, own=column((4, 4)))
    assert LookAhead(full, 8).try_guest(0, 1, NEVER_ENDS, 0).charge < 1e-9, "nor where GPUs are missing"


def test_a_rare_burst_comes_on_top_of_any_scenario():
    """Usual need is 6 in the mean, with a variance of 4 between scenarios."""
    ahead = known(own=(4, 0), backlog=(2, 0), peaks=((0, 0), (0, 4)), arrivals=((0, 0), (0, 0)))
    looked = LookAhead(replace(ahead, bursts=burst(1, 2, 2, 1.0)), 8)
    hit = 2 / (1 + (0 + 4) / 2 + 2)
    spread = np.sqrt(4 + 0.25)
    charge = looked.try_guest(0, 1, NEVER_ENDS, 0).charge
    assert charge == pytest.approx((missing(1.0, spread) - missing(0.0, spread)) * hit)


def test_a_rare_burst_comes_on_top_of_what_is_forecast_not_of_what_is_usual():
    """8 GPUs, 4 forecast and 8 usual: the burst of 4 just fits without the level, whatever the level says."""
    ahead = replace(known(own=(4, 0), backlog=(2, 0), arrivals=((0, 0),)), bursts=burst(1, 4, 4, 1.0))
    plain, floored = (
        LookAhead(one, 8).try_guest(0, 1, NEVER_ENDS, 0) for one in (ahead, replace(ahead, floor=column([8])))
    )
    assert floored.rare_missing == pytest.approx(plain.rare_missing)
    assert floored.need[0, 0] == 9.0


# Lines for the plan.


def busy():
    """Some of everything; pool 0 has no room, so each GPU lent to it is one more that is needed."""
    ahead = known(
        own=(4, 1),
        guest=(1, 0),
        backlog=(6, 1),
        peaks=((3, 0), (0, 2), (1, 7)),
        arrivals=((2, 0), (0, 2), (1, 9)),
    )
    return replace(
        ahead,
        alive=Alive(np.zeros((6, 1)), np.array([0.4]), (), np.zeros(1)),
        stakes=stakes(backlog=(0.9, 0.6), arrivals=(0.8, 0.7), num_waiting=(6, 1), weight=(1, 2)),
        bursts=burst(1, 6, 3, 0.05),
    )


def test_lines_of_the_risk_lie_just_above_what_trying_guests_says():
    looked = LookAhead(busy(), 8)
    lines = looked.risk_lines(6)
    for width in range(1, 7):
        charge = looked.try_guest(0, width, NEVER_ENDS, 0).charge
        risk = lines.at(np.array([float(width)]))[0]
        assert charge - 1e-12 <= risk <= charge + lines.error_jobs[0] + 1e-12
    assert charge > 0.1


def test_lines_of_sending_back_are_the_gpus_missing_if_all_were_let_run():
    looked = LookAhead(replace(busy(), requeueable=column((2, 1))), 8)
    lines = looked.send_back_lines(6)
    # own 4 + 1, guests 1 and 2 + 1 held; waiting: no room in pool 0, 1 of 1 in pool 1; arrivals fill 1 more
    need, spread = np.array([10.0, 11.0, 11.0]), np.sqrt(0.4 + 0.25)
    for width in range(7):
        wanted = float(np.mean([missing(one + width - 8, spread) - missing(one - 8, spread) for one in need]))
        assert wanted - 1e-9 <= lines.at(np.array([float(width)]))[0] <= wanted + lines.error_jobs[0] + 1e-9


def test_a_guest_adds_to_the_need_what_its_own_lane_would_not_have_started_urgently():
    ahead = replace(known(own=(1, 4), backlog=(2, 1)), stakes=stakes(backlog=(0.25, 1)))
    looked = LookAhead(ahead, 8)
    net = looked.net_of_backlog()
    assert net.tolist() == [[0.75], [1.0]], "pool 1 has no room: nobody of it would have started"
    before = 5 + 0.25 * 2
    for pool in range(2):
        trial = looked.try_guest(pool, 1, NEVER_ENDS, 0)
        assert trial.need[0, 0] - before == pytest.approx(net[pool, 0])
