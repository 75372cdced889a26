"""Who gets GPUs where there are too few, and what is known of the time ahead: pools told by hand."""

import math

import numpy as np
import pytest
from support import job

from domain.forecasts import LIFE_EDGES_S, Burst
from domain.timegrid import default_grid
from solver.demand import NoDemand
from solver.lender import Lender
from solver.lender_settings import LenderSettings
from solver.policies.base import PolicyContext
from solver.reference import fcfs_starts

BEGINS_S = np.array(default_grid().edges_s[:-1])
LENGTHS_S = np.diff(default_grid().edges_s)


class Lives:
    """Every job runs for ever, and is taken to run for an hour at least."""

    is_clairvoyant = False

    def quantile_s(self, _job, _level):
        return 3600.0

    def survival(self, _job):
        return [1.0] * len(LIFE_EDGES_S)


class Bursting(NoDemand):
    def bursts(self, _now_s):
        return (Burst(1, 8.0, 4.0, 0.001), Burst(0, 16.0, 2.0, 0.0001))


def lender_of(quotas, demand=None, **settings):
    return Lender(PolicyContext(quotas, Lives(), demand or NoDemand()), LenderSettings(**settings))


def submit(lender, now_s, *jobs):
    for one in jobs:
        lender.submitted(one, now_s)


def names(starts):
    return [start.job.job_id for start in starts]


def kept_waiting(quota=4):
    """Pool b's first job came at 0 and there was no GPU for it."""
    lender = lender_of({"a": 4, "b": quota})
    submit(lender, 0.0, job("b1", 0.0, pool="b"))
    served = lender.serve(0.0, 0)
    assert (served.starts, [hold.pool for hold in served.holds]) == ([], ["b"])
    return lender


def test_whoever_can_still_be_on_time_is_served_before_whoever_is_late_already():
    lender = kept_waiting()
    submit(lender, 200.0, job("b2", 200.0, pool="b"))
    served = lender.serve(200.0, 1)
    assert names(served.starts) == ["b2"]
    assert (len(served.holds), served.idle_gpus) == (1, 0)


def test_within_a_minute_nobody_is_late_and_the_earlier_start_comes_first():
    lender = kept_waiting()
    submit(lender, 50.0, job("b2", 50.0, pool="b"))
    assert names(lender.serve(50.0, 1).starts) == ["b1"]


def test_whoever_is_late_by_half_an_hour_comes_first():
    lender = kept_waiting()
    submit(lender, 1801.0, job("b2", 1801.0, pool="b"))
    assert names(lender.serve(1801.0, 1).starts) == ["b1"]


def test_gpus_are_kept_for_a_wide_job_that_can_still_be_on_time():
    lender = kept_waiting()
    submit(lender, 200.0, job("wide", 200.0, 2, "b"))
    served = lender.serve(200.0, 1)
    assert (served.starts, served.idle_gpus) == ([], 1)
    assert sorted(hold.num_gpus for hold in served.holds) == [1, 2]


def test_gpus_are_not_kept_for_a_wide_job_that_is_late_already():
    lender = lender_of({"a": 4, "b": 4})
    submit(lender, 0.0, job("wide", 0.0, 2, "b"), job("b1", 1.0, pool="b"))
    lender.serve(1.0, 0)
    served = lender.serve(200.0, 1)
    assert names(served.starts) == ["b1"]
    assert [hold.num_gpus for hold in served.holds] == [2]


def test_a_job_beyond_its_lane_that_the_reference_starts_now_is_served_too():
    """b1 and b2 may have ended in the reference by now, so b3 would start there; its lane is theirs still."""
    lender = kept_waiting(quota=2)
    submit(lender, 0.0, job("b2", 0.0, pool="b"))
    submit(lender, 200.0, job("b3", 200.0, pool="b"))
    served = lender.serve(200.0, 1)
    assert [(start.job.job_id, start.is_guest) for start in served.starts] == [("b3", True)]
    assert len(served.holds) == 2


def test_where_there_are_enough_gpus_all_that_is_due_starts():
    lender = kept_waiting()
    submit(lender, 200.0, job("b2", 200.0, pool="b"), job("wide", 200.0, 2, "b"))
    served = lender.serve(200.0, 5)
    assert names(served.starts) == ["b1", "b2", "wide"]
    assert (served.holds, served.idle_gpus) == ([], 1)


def test_guests_that_can_be_sent_back_make_way_youngest_first():
    lender = lender_of({"a": 1, "b": 2}, requeueable=1.0)
    submit(lender, 0.0, *(job(f"a{k}", float(k)) for k in range(3)))
    lender.serve(0.0, 3)
    for k in range(3):
        lender.started(job(f"a{k}", float(k)), float(k), 0.0)
    submit(lender, 10.0, job("b1", 10.0, pool="b"))
    served = lender.serve(10.0, 0)
    assert [one.job_id for one in served.victims] == ["a2"]
    assert names(served.starts) == ["b1"]


def test_a_pool_that_was_held_up_once_does_not_stay_late_for_ever():
    """A job of 100 s every 100 s, in a pool with 2 GPUs, of which none is free before 200 s, and then one.

    In order each would start 200 s late.
    """
    lender = lender_of({"a": 2})
    jobs = [job(f"j{k:02}", 100.0 * k) for k in range(30)]
    starts_s = simulated(lender, jobs, idle_from_s=200.0)
    reference = fcfs_starts(jobs, dict.fromkeys(starts_s, 100.0), {"a": 2})
    assert reference == {one.job_id: one.submit_s for one in jobs}
    late_s = [starts_s[one] - reference[one] for one in starts_s]
    assert sum(late > 60.0 for late in late_s) <= 6, "in order it would be all 30"
    assert max(late_s) <= 2000.0


def simulated(lender, jobs, idle_from_s):
    """Starts with one GPU and jobs of 100 s that come at full hundreds."""
    starts_s, running, now_s = {}, None, 0.0
    while len(starts_s) < len(jobs):
        if running is not None:
            lender.ended(running, now_s)
            running = None
        submit(lender, now_s, *(one for one in jobs if one.submit_s == now_s))
        for start in lender.serve(now_s, int(now_s >= idle_from_s)).starts:
            running = start.job
            lender.started(running, now_s, 0.0)
            starts_s[running.job_id] = now_s
        now_s += 100.0
    return starts_s


# What is known of the time ahead.


def test_pools_with_few_jobs_weigh_more():
    lender = lender_of({"a": 4, "b": 4, "c": 4})
    submit(
        lender, 0.0, *(job(f"a{k}", 0.0) for k in range(250)), *(job(f"c{k}", pool="c") for k in range(50))
    )
    weight = lender.ahead(0.0).stakes.weight
    assert weight.tolist() == [1.0, 150 / 50, 150 / 100], "counts of 300, 50 and 100; 150 in the mean"


def test_the_weight_of_a_pool_has_a_limit():
    lender = lender_of({"a": 4, "b": 4})
    submit(lender, 0.0, *(job(f"a{k}", 0.0) for k in range(4000)))
    assert lender.ahead(0.0).stakes.weight.tolist() == [1.0, 20.0]


def test_urgency_falls_by_e_with_each_patience_that_the_tolerance_outlasts_the_cell():
    """Pool a's GPU is taken in the reference for an hour; pool b is idle there."""
    lender = lender_of({"a": 1, "b": 1}, patience_s=1800.0)
    submit(lender, 0.0, job("a1"), job("a2"))
    lender.serve(0.0, 1)
    lender.started(job("a1"), 0.0, 0.0)
    stakes = lender.ahead(0.0).stakes
    for pool, slack_s in ((0, 3600.0), (1, 0.0)):
        wanted = np.exp(-np.maximum(slack_s - BEGINS_S, 0.0) / 1800.0)
        assert stakes.backlog_urgency[pool] == pytest.approx(wanted), "a2 starts there in an hour"
    # who comes next waits for a2 as well
    wanted = np.exp(-np.maximum(7200.0 - BEGINS_S, 0.0) / 1800.0)
    assert stakes.arrivals_urgency[0] == pytest.approx(wanted)
    assert stakes.arrivals_urgency[1].tolist() == [1.0] * BEGINS_S.size
    assert stakes.num_waiting.tolist() == [1.0, 0.0]


def test_who_is_due_counts_as_own():
    lender = lender_of({"a": 1, "b": 1})
    submit(lender, 0.0, job("a1"), job("a2"))
    lender.serve(0.0, 0)
    ahead = lender.ahead(0.0)
    assert ahead.own[:, 0].tolist() == [1.0, 0.0]
    assert ahead.backlog[:, 0].tolist() == [1.0, 0.0]
    assert ahead.stakes.num_waiting.tolist() == [1.0, 0.0]


def test_bursts_are_expected_by_the_length_of_the_cell_and_their_weight():
    bursts = lender_of({"a": 1, "b": 1}, Bursting(), burst_weight=0.5).ahead(0.0).bursts
    assert bursts.pool.tolist() == [1, 0]
    assert bursts.num_gpus.tolist() == [8.0, 16.0]
    assert bursts.num_jobs.tolist() == [4.0, 2.0]
    assert bursts.chance == pytest.approx(np.outer([0.001, 0.0001], LENGTHS_S) * 0.5)
    assert lender_of({"a": 1}).ahead(0.0).bursts.chance.shape == (0, BEGINS_S.size)


@pytest.mark.parametrize(
    "wrong",
    [{"eps": -0.1}, {"kinship": 1.5}, {"burst_weight": 2.0}, {"patience_s": 0.0}, {"patience_s": math.nan}],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LenderSettings(**wrong)


class TwoScenarios(NoDemand):
    def peaks(self, now_s):
        return np.repeat(super().peaks(now_s), 2, axis=0)


def test_what_own_jobs_held_for_a_day_is_expected_of_them_far_ahead():
    lender = lender_of({"a": 4, "b": 4}, TwoScenarios())
    own, guest = job("own", 0.0, pool="a", num_gpus=3), job("guest", 0.0, pool="a", num_gpus=2)
    submit(lender, 0.0, own, guest)
    lender.serve(0.0, 8)
    lender.started(own, 0.0, 0.0)
    lender.started(guest, 0.0, 0.0)
    for half_hour in range(48):
        assert not lender.ahead(1800.0 * half_hour).floor.any()
        lender.serve(1800.0 * half_hour, 3)
    floor = lender.ahead(86_400.0).floor
    assert (floor[:, BEGINS_S >= 8 * 3600.0] == 3.0).all(), "the guest's GPUs are not its pool's use"
    assert not floor[:, BEGINS_S < 8 * 3600.0].any()
