"""Lending where jobs share GPUs: rates, and riders that take no GPU while their host runs."""

import itertools

import numpy as np
import pytest
from support import job

from domain.forecasts import LIFE_EDGES_S
from domain.timegrid import default_grid
from solver.demand import NoDemand
from solver.lender import Lender
from solver.lender_settings import LenderSettings
from solver.lives import survival_at
from solver.policies import POLICIES
from solver.policies.base import KnowsRates, KnowsRiders, PolicyContext, parse_settings

BEGINS_S = np.array(default_grid().edges_s[:-1])
EDGES_S = np.array(LIFE_EDGES_S)


class Lives:
    """Exponential lives with a mean that is written in the job's name: `d300`."""

    is_clairvoyant = False

    def quantile_s(self, job, level):
        return -mean_s(job) * float(np.log1p(-level))

    def survival(self, job):
        return np.exp(-EDGES_S / mean_s(job)).tolist()


def mean_s(one):
    return float(one.job_id.rpartition("d")[2])


def alive(one, age_s=0.0, rate=1.0):
    """(cells,) P(alive when the cell begins | age)."""
    curve = np.exp(-EDGES_S / mean_s(one))[None]
    now, ahead = (
        survival_at(curve, times_s) for times_s in (np.array([[age_s]]), age_s + rate * BEGINS_S[None])
    )
    return ahead[0] / now[0, 0]


def lender_of(quotas, **settings):
    return Lender(PolicyContext(quotas, Lives(), NoDemand()), LenderSettings(**settings))


def begin(lender, *jobs, now_s=0.0):
    """All come, the lanes advance, and all start."""
    for one in jobs:
        lender.submitted(one, now_s)
    lender.serve(now_s, 100)
    for one in jobs:
        lender.started(one, now_s, 0.0)


def test_what_is_known_ahead_goes_by_work_and_by_who_is_where():
    """Against a count by hand over who is alive: an own host of 4 GPUs, its riders, and jobs of their own."""
    lender = lender_of({"a": 4, "b": 4})
    host, own = job("host-d9000", 0.0, 4), job("own-d2000", 0.0, 1, "b")
    own_rider, guest_rider = job("own-rider-d4000", 0.0, 2, "b"), job("guest-rider-d700", 0.0, 2, "b")
    alone = job("waits-d800", 0.0, 1, "b")
    begin(lender, host, own, own_rider, guest_rider)
    lender.submitted(alone, 0.0)
    for rider in (own_rider, guest_rider):
        lender.rides(rider, 0.0, host)
        lender.rate_changed(rider, 0.0, 0.5)
    lender.rate_changed(host, 0.0, 0.75)
    now_s = 1000.0
    lender.serve(now_s, 3)
    ahead = lender.ahead(now_s)
    host_s, first_s = alive(host, 750.0, 0.75), alive(own_rider, 500.0, 0.5)
    second_s, own_s = alive(guest_rider, 500.0, 0.5), alive(own, 1000.0)
    held = np.zeros(BEGINS_S.size)
    for lives in itertools.product((0, 1), repeat=3):
        shares = np.array([host_s, first_s, second_s])
        chance = np.prod(np.where(np.array(lives)[:, None] == 1, shares, 1.0 - shares), axis=0)
        is_host, is_first, is_second = lives
        held += chance * (4 if is_host else 2 * is_first + 2 * is_second)
    assert ahead.own[0] == pytest.approx(held)
    assert ahead.own[1] == pytest.approx(own_s)
    assert not ahead.guest.any()
    assert ahead.riding[1] == pytest.approx(2 * first_s), "the own one takes room in its lane"
    assert not ahead.riding[0].any()
    # b's lane has room for 4 - 1 - 2 more, and one GPU is asked for
    room = np.maximum(4 - own_s - 2 * first_s, 0.0)
    due = ahead.stakes.backlog_urgency[1] * np.minimum(alive(alone), room)
    assert lender.look_ahead(now_s)._need[0] == pytest.approx(held + own_s + due)


def test_a_rider_is_not_in_use_until_it_has_gpus_of_its_own():
    lender = lender_of({"a": 4, "b": 4})
    host, one, two = job("host-d900", 0.0, 4), job("one-d900", 0.0, 1, "b"), job("two-d900", 0.0, 2, "b")
    begin(lender, host, one, two)
    lender.rides(one, 0.0, host)
    lender.rides(two, 0.0, host)
    assert lender.used_gpus().tolist() == [4.0, 0.0]
    lender.alone(one, 10.0)
    assert lender.used_gpus().tolist() == [4.0, 1.0]
    lender.ended(host, 20.0)
    assert lender.used_gpus().tolist() == [0.0, 3.0], "nobody had to say so"
    lender.alone(two, 20.0)
    assert lender.used_gpus().tolist() == [0.0, 3.0]
    lender.ended(two, 30.0)
    lender.ended(one, 30.0)
    assert lender.used_gpus().tolist() == [0.0, 0.0]
    assert not lender.ahead(30.0).own.any()


def test_a_rider_that_ends_first_leaves_its_host_alone():
    lender = lender_of({"a": 2, "b": 2})
    host, rider = job("host-d900", 0.0, 2), job("rider-d900", 0.0, 1, "b")
    begin(lender, host, rider)
    lender.rides(rider, 0.0, host)
    lender.ended(rider, 5.0)
    assert lender.used_gpus().tolist() == [2.0, 0.0]
    assert lender.ahead(5.0).own[0] == pytest.approx(2 * alive(host, 5.0))


def test_more_may_run_than_there_are_gpus():
    """Widths of 6 run on 4 GPUs, of which one is idle; the lane that asks for it gets it."""
    lender = lender_of({"a": 2, "b": 2}, requeueable=0.0)
    hosts = [job("h1-d900", 0.0, 2), job("h2-d900", 0.0, 1)]
    riders = [job("r1-d900", 0.0, 1, "b"), job("r2-d900", 0.0, 1, "b"), job("r3-d900", 0.0, 1, "b")]
    begin(lender, *hosts, *riders)
    for rider, host in zip(riders, (hosts[0], hosts[0], hosts[1]), strict=True):
        lender.rides(rider, 0.0, host)
    served = lender.serve(1.0, 1)
    assert (served.starts, served.holds, served.idle_gpus) == ([], [], 1)
    lender.ended(riders[0], 2.0)
    own = job("own-d900", 2.0, 1, "b")
    lender.submitted(own, 2.0)
    served = lender.serve(2.0, 1)
    assert [one.job_id for one in served.converted] == ["r3-d900"], "it comes before the new one in line"
    assert (served.starts, served.idle_gpus) == ([], 1)
    lender.ended(riders[1], 3.0)
    assert [start.job.job_id for start in lender.serve(3.0, 1).starts] == ["own-d900"]
    assert lender.look_ahead(3.0).try_guest(0, 1, alive(own), 99).charge >= 0.0


def guests_of(lender, *jobs):
    """Jobs of a pool whose quota is used up: they run as guests."""
    begin(lender, job("filler-d9000", 0.0, 2), *jobs)


def test_a_host_is_sent_back_together_with_its_rider():
    lender = lender_of({"a": 2, "b": 3}, requeueable=1.0)
    host, rider, other = job("host-d900", 0.0, 2), job("rider-d900", 0.0, 1), job("young-d900", 0.0, 1)
    guests_of(lender, host, other, rider)
    lender.rides(rider, 0.0, host)
    assert lender.ahead(0.0).requeueable[0, 0] == 3.0
    lender.submitted(job("b1-d900", 5.0, 1, "b"), 5.0)
    served = lender.serve(5.0, 0)
    assert [one.job_id for one in served.victims] == ["young-d900"], "a rider frees nothing"
    lender.submitted(job("b2-d900", 5.0, 2, "b"), 5.0)
    served = lender.serve(5.0, 0)
    assert [one.job_id for one in served.victims] == ["young-d900", "rider-d900", "host-d900"]
    assert len(served.starts) == 2
    assert served.idle_gpus == 0
    for one in served.victims:
        lender.sent_back(one, 5.0)
    assert lender.used_gpus().tolist() == [2.0, 0.0]


def test_a_host_whose_rider_must_run_to_its_end_stays():
    lender = lender_of({"a": 2, "b": 2}, requeueable=0.5)
    host, rider = job("host-d900", 0.0, 2, requeue_u=0.1), job("rider-d900", 0.0, 1, requeue_u=0.9)
    guests_of(lender, host, rider)
    lender.rides(rider, 0.0, host)
    ahead = lender.ahead(0.0)
    assert (ahead.guest[0, 0], ahead.requeueable[0, 0]) == (2.0, 0.0)
    lender.submitted(job("b1-d900", 5.0, 1, "b"), 5.0)
    served = lender.serve(5.0, 0)
    assert (served.victims, len(served.holds)) == ([], 1)
    lender.alone(rider, 6.0)
    ahead = lender.ahead(6.0)
    assert (ahead.guest[0, 0], ahead.requeueable[0, 0]) == (1.0, 2.0)
    assert [one.job_id for one in lender.serve(6.0, 0).victims] == ["host-d900"]


def test_a_host_whose_rider_has_become_own_stays():
    lender = lender_of({"a": 1, "b": 2}, requeueable=1.0)
    host, rider = job("host-d900", 0.0, 1, "b"), job("rider-d900", 0.0, 1)
    filler, wide = job("filler-d9000", 0.0, 1), job("b-filler-d9000", 0.0, 2, "b")
    begin(lender, filler, wide, host, rider)
    lender.rides(rider, 0.0, host)
    lender.ended(filler, 10.0)
    assert [one.job_id for one in lender.serve(10.0, 0).converted] == ["rider-d900"]
    ahead = lender.ahead(10.0)
    assert (ahead.guest[1, 0], ahead.requeueable[1, 0], ahead.riding[0, 0]) == (1.0, 0.0, 1.0)


def test_what_own_jobs_usually_hold_is_gpus():
    lender = lender_of({"a": 4, "b": 4})
    host, rider = job("host-d9e9", 0.0, 3), job("rider-d9e9", 0.0, 2, "b")
    begin(lender, host, rider)
    lender.rides(rider, 0.0, host)
    for half_hour in range(1, 60):
        lender.serve(1800.0 * half_hour, 5)
    assert lender._usual._seen[-1] == 3.0


def test_who_may_ride():
    lender = lender_of({"a": 4})
    host, rider, waits = job("host-d900", 0.0, 2), job("rider-d900", 0.0, 2), job("waits-d900", 0.0, 1)
    begin(lender, host, rider)
    lender.submitted(waits, 0.0)
    for one, on in ((waits, host), (rider, waits)):
        with pytest.raises(ValueError, match="waits-d900 does not run"):
            lender.rides(one, 0.0, on)
    with pytest.raises(ValueError, match="waits-d900 goes on at rate"):
        lender.rate_changed(waits, 0.0, 0.5)
    lender.rides(rider, 0.0, host)
    with pytest.raises(ValueError, match="no rider has riders"):
        lender.rides(host, 0.0, rider)


@pytest.mark.parametrize("name", ["anticipatory", "planned"])
def test_lending_policies_know_rates_and_riders(name):
    """The host's pool has no more GPUs, yet two are idle beside it: they are lent."""
    spec = POLICIES[name]
    context = PolicyContext({"a": 2, "b": 4}, Lives(), NoDemand())
    policy = spec.build(context, parse_settings(name, spec.settings, {"eps": "0.1"}))
    assert isinstance(policy, KnowsRates)
    assert isinstance(policy, KnowsRiders)
    jobs = [job("host-d900", 0.0, 2), job("rider-d900", 0.0, 2), job("c1-d60", 0.0, 1), job("c2-d60", 0.0, 1)]
    for one in jobs:
        policy.submitted(one, 0.0)
    plan = policy.decide(0.0, 6)
    assert plan.starts[0].job.job_id == "host-d900"
    for one in jobs[:2]:
        policy.started(one, 0.0)
        policy.rate_changed(one, 0.0, 0.75)
    policy.rides(jobs[1], 0.0, jobs[0])
    assert policy._lender.used_gpus().sum() == 2.0
    starts = policy.decide(300.0, 4).starts
    assert sorted(start.job.job_id for start in starts) == ["c1-d60", "c2-d60"]
    policy.ended(jobs[0], 900.0)
    policy.alone(jobs[1], 900.0)
    policy.rate_changed(jobs[1], 900.0, 1.0)
    assert policy._lender.used_gpus().sum() == 2.0
    assert policy._lender.budget.shadow.alone_since_s(jobs[1], 1000.0) == 225.0


@pytest.mark.parametrize("name", ["fcfs", "maxmin", "sia", "ssf"])
def test_policies_that_keep_no_ages_need_not_know_of_rates(name):
    spec = POLICIES[name]
    context = PolicyContext({"a": 2}, Lives(), NoDemand())
    assert not isinstance(spec.build(context, spec.settings()), KnowsRates)
