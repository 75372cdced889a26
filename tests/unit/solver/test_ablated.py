"""The planner's books without one idea each: what that changes, and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pytest
from causality import changed_by
from hypothesis import given, settings
from hypothesis import strategies as st
from support import instances, job, run

from data.history import from_frame, from_jobs
from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job, JobOutcome
from simulator.workload import make_workload
from solver.ablated import (
    LENDERS,
    AgelessBook,
    PassingLanes,
    PooledLook,
    SummedLook,
    UnconvertedLook,
)
from solver.check import CheckOptions, check
from solver.lane import Lanes
from solver.lives import Alive, Entry, Fates, LifeBook
from solver.lookahead import Ahead, Bursts, Guests, LookAhead, Stakes
from solver.policies import POLICIES
from solver.policies.base import parse_settings

CAPACITY_GPUS = 8
LOOKS = (PooledLook, UnconvertedLook, SummedLook)
every_idea = pytest.mark.parametrize("without", sorted(LENDERS))


def column(*values):
    return np.array(values, dtype=float)[:, None]


def known(own=(0, 0), guest=(0, 0), backlog=(0, 0), urgency=1.0, peaks=((0, 0),), arrivals=((1, 1),)):
    """Two pools of 4 GPUs and one cell."""
    urgent = np.full((2, 1), urgency)
    return Ahead(
        own=column(*own),
        guest=column(*guest),
        requeueable=column(0, 0),
        backlog=column(*backlog),
        alive=Alive(np.zeros((6, 1)), np.zeros(1), (), np.zeros(1)),
        fates=Fates(0.3, 0),
        peaks=np.array(peaks, dtype=float)[:, :, None],
        arrivals=np.array(arrivals, dtype=float)[:, :, None],
        quota_gpus=np.array([4.0, 4.0]),
        stakes=Stakes(urgent, urgent, np.zeros(2), np.ones(2)),
        bursts=Bursts(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0), np.zeros((0, 1))),
    )


def missing_gpus(kind, ahead):
    return float(kind(ahead, CAPACITY_GPUS).missing[0])


def starts_of(policy, jobs, durations_s, quotas, **chosen):
    schedule = run(policy, jobs, durations_s, quotas, **chosen)
    return {stretch.job_id: stretch.start_s for stretch in schedule.stretches}


# Every one of them is a policy.


@every_idea
@settings(max_examples=6, deadline=None, derandomize=True)
@given(instances(), st.sampled_from(("0", "0.001", "0.2")))
def test_whatever_is_left_out_every_job_runs_within_the_cluster_and_nobody_is_sent_back(
    without, instance, eps
):
    jobs, durations, quotas = instance
    chosen = {"without": without, "eps": eps, "requeueable": "1"}
    schedule = run("ablated", jobs, durations, quotas, checks_plans=True, **chosen)
    report = check(jobs, durations, quotas, schedule.stretches, options=CheckOptions(has_own_lanes=False))
    assert report.faults == ()
    assert schedule.last_ends().keys() == durations.keys()
    assert not any(stretch.is_lost for stretch in schedule.stretches)
    assert run("ablated", jobs[::-1], durations, quotas, **chosen).stretches == schedule.stretches


@every_idea
def test_what_happens_later_changes_no_decision(without):
    draw = np.random.default_rng(2)
    quotas = {"a": 3, "b": 4}
    jobs, outcomes = [], {}
    for k in range(60):
        pool = str(draw.choice(["a", "b"]))
        job_id, width = f"j{k:02}", int(draw.integers(1, quotas[pool] + 1))
        jobs.append(Job(job_id, pool, float(30 * k), width, requeue_u=None))
        outcomes[job_id] = JobOutcome(job_id, float(draw.integers(1, 300)))
    history = from_frame(from_jobs(jobs, outcomes), source="test", quotas=quotas)
    workload = make_workload(history, quotas, train_until_s=600.0, eval_from_s=600.0)
    assert changed_by(workload, "ablated", {"without": without}, cuts_s=[1_500.0], seed=5) == []


def test_an_idea_that_there_is_not_is_refused():
    with pytest.raises(SettingError, match="without is 'luck', must be one of lane, conversion, sum, age"):
        parse_settings("ablated", POLICIES["ablated"].settings, {"without": "luck"})


# No lane.


def test_without_a_lane_a_short_job_of_another_pool_goes_before_one_that_is_due():
    """One GPU comes free at 100 s. Pool a is due for it; the job of pool b, beyond its lane, is short.

    The risk test alone would keep it from taking that GPU, unless there is budget enough.
    """
    jobs = [job("a1", 0.0, 1), job("b1", 0.0, 2, "b"), job("a2", 10.0, 1), job("b2", 10.0, 1, "b")]
    durations = {"a1": 100.0, "b1": 9e4, "a2": 5e4, "b2": 5.0}
    quotas = {"a": 1, "b": 2}
    built = starts_of("planned", jobs, durations, quotas, eps="1")
    assert (built["a2"], built["b2"]) == (100.0, 5e4 + 100.0)
    without = starts_of("ablated", jobs, durations, quotas, without="lane", eps="1")
    assert (without["b2"], without["a2"]) == (100.0, 105.0)


def test_without_a_lane_no_gpu_is_kept_for_a_wide_job():
    """Pool b has borrowed two of pool a's four GPUs until 300 s; pool a wants all of them from 50 s on."""
    jobs = [job("full", 0.0, 2, "b"), job("guest", 0.0, 3, "b"), job("wide", 50.0, 4)]
    jobs += [job("narrow", 60.0, 1, "b")]
    durations = {"full": 9e4, "guest": 300.0, "wide": 1e3, "narrow": 400.0}
    quotas = {"a": 4, "b": 3}
    built = starts_of("planned", jobs, durations, quotas, eps="1")
    assert (built["guest"], built["wide"], built["narrow"]) == (0.0, 300.0, 300.0)
    without = starts_of("ablated", jobs, durations, quotas, without="lane", eps="1")
    assert (without["guest"], without["wide"], without["narrow"]) == (0.0, 300.0, 60.0)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(instances(max_jobs=16, min_duration_s=1))
def test_without_a_lane_and_without_a_budget_all_that_is_left_is_the_reference(instance):
    jobs, durations, quotas = instance
    without = starts_of("ablated", jobs, durations, quotas, without="lane", eps="0")
    assert without == starts_of("fcfs", jobs, durations, quotas)


def test_what_runs_fills_its_pools_quota_whoever_it_is():
    """Two guests' GPUs of a pool of 4 leave two for those who wait, and nothing for those to come."""
    ahead = known(own=(0, 4), guest=(2, 0), backlog=(3, 0), peaks=((4, 0),))
    assert PooledLook(ahead, CAPACITY_GPUS)._need[0, 0] == 4 + 2 + 2
    assert LookAhead(ahead, CAPACITY_GPUS)._need[0, 0] == 4 + 2 + 3, "three stand before the guests in line"


def test_starting_a_job_within_its_pools_quota_takes_nothing_away_if_it_is_urgent():
    ahead = known(own=(0, 4), guest=(2, 0), backlog=(2, 0), peaks=((4, 0),))
    look = PooledLook(ahead, CAPACITY_GPUS)
    assert look.try_guest(0, 2, np.ones(1), 0).charge == 0.0
    assert look.net_of_backlog()[:, 0].tolist() == [0.0, 1.0]
    patient = PooledLook(known(own=(0, 4), guest=(2, 0), backlog=(2, 0), urgency=0.5), CAPACITY_GPUS)
    assert patient.try_guest(0, 2, np.ones(1), 0).need[0, 0] == patient._need[0, 0] + 1.0


# No conversion.


def lanes_with_a_guest(kind):
    """Pool a has 4 GPUs, all of them its own; y waits beyond, and x runs beyond as a guest."""
    lanes = kind({"a": 4}, frozenset())
    own, guest, waits = job("own", 0.0, 4), job("x", 1.0, 2), job("y", 2.0, 3)
    for one in (own, guest, waits):
        lanes.submitted(one)
    lanes.advance()
    lanes.started(own)
    lanes.started(guest)
    return lanes, own, guest, waits


def test_without_conversion_the_lane_passes_over_a_guest():
    lanes, own, guest, _ = lanes_with_a_guest(Lanes)
    lanes.ended(own)
    assert (lanes.advance(), list(lanes.due)) == ([guest], [])
    lanes, own, guest, _ = lanes_with_a_guest(PassingLanes)
    lanes.ended(own)
    assert (lanes.advance(), list(lanes.due)) == ([], ["y"])
    assert lanes.guests == {"x": guest}
    assert lanes.own_gpus() == 3


def test_without_conversion_a_guest_that_was_stopped_waits_at_its_place():
    lanes, own, guest, _ = lanes_with_a_guest(PassingLanes)
    lanes.advance()
    lanes.sent_back(guest)
    lanes.ended(own)
    lanes.advance()
    assert list(lanes.due) == ["x"], "y came after it and does not fit beside it"
    assert list(lanes.line("a").waiting) == ["y"]


def test_without_conversion_a_pool_may_have_its_quota_and_its_guests():
    """Pool a: own until 100 s, then y, which does not fit beside x in the quota."""
    jobs = [job("own", 0.0, 4), job("x", 1.0, 2), job("y", 2.0, 3)]
    durations = {"own": 100.0, "x": 5e3, "y": 1e4}
    quotas = {"a": 4, "b": 3}
    chosen = {"eps": "0.001"}
    assert starts_of("planned", jobs, durations, quotas, **chosen)["x"] == 1.0
    without = starts_of("ablated", jobs, durations, quotas, without="conversion", **chosen)
    assert (without["x"], without["y"]) == (1.0, 100.0)


def test_without_conversion_guests_leave_their_pools_room_alone():
    ahead = known(own=(2, 0), guest=(2, 0), peaks=((4, 0),))
    assert UnconvertedLook(ahead, CAPACITY_GPUS)._need[0, 0] == 2 + 2 + 2
    assert LookAhead(ahead, CAPACITY_GPUS)._need[0, 0] == 2 + 2


# The sum of quantiles.


def test_pools_that_never_peak_together_do_in_a_sum_of_quantiles():
    apart = known(guest=(4, 0), peaks=((0, 4), (0, 0)), arrivals=((0, 5), (3, 0)))
    ahead = replace(apart, guest=column(2, 1), peaks=np.array([[[2.0], [0.0]], [[0.0], [3.0]]]))
    assert missing_gpus(LookAhead, ahead) < 1e-3
    summed = SummedLook(ahead, CAPACITY_GPUS)
    assert summed._need[:, 0].tolist() == [3.0, 8.0]
    assert missing_gpus(SummedLook, ahead) > 0.09


whole = st.integers(0, 4)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(whole, whole), min_size=1, max_size=6), st.tuples(whole, whole, whole, whole))
def test_a_sum_of_quantiles_never_misses_less_and_of_one_pool_it_is_the_quantile(peaks, held):
    ahead = known(own=held[:2], backlog=held[2:], peaks=peaks, arrivals=peaks)
    assert missing_gpus(SummedLook, ahead) >= missing_gpus(LookAhead, ahead) - 1e-12
    alone = replace(ahead, peaks=ahead.peaks * np.array([1.0, 0.0])[None, :, None])
    assert missing_gpus(SummedLook, alone) == pytest.approx(missing_gpus(LookAhead, alone))


def test_the_number_of_jobs_to_come_goes_with_their_peak():
    ahead = known(peaks=((3, 0), (1, 2)), arrivals=((30, 0), (10, 20)))
    coming = SummedLook(ahead, CAPACITY_GPUS)._ahead
    assert coming.peaks[:, :, 0].tolist() == [[1.0, 0.0], [3.0, 2.0]]
    assert coming.arrivals[:, :, 0].tolist() == [[10.0, 0.0], [30.0, 20.0]]


@pytest.mark.parametrize("kind", LOOKS)
def test_guests_charged_together_cost_what_they_cost_one_by_one(kind):
    draw = np.random.default_rng(3)
    ahead = known(
        own=(1, 2),
        guest=(1, 0),
        backlog=(2, 1),
        urgency=0.7,
        peaks=draw.integers(0, 5, (10, 2)),
        arrivals=draw.integers(0, 9, (10, 2)),
    )
    guests = Guests(
        pool=np.array([0, 1, 0, 0]),
        width=np.array([1, 2, 1, 3]),
        fresh=np.array([[1.0], [0.4], [0.8], [0.6]]),
        cohort=np.array([1, 2, 1, 3]),
    )
    look, charge = kind(ahead, CAPACITY_GPUS), 0.0
    for pool, width, fresh, cohort in zip(*guests, strict=True):
        trial = look.try_guest(int(pool), int(width), fresh, int(cohort))
        look.add(trial)
        charge += trial.charge
    assert charge > 0.0
    assert kind(ahead, CAPACITY_GPUS).charge_of(guests) == pytest.approx(charge)


# Lives that are not conditional.


@pytest.mark.parametrize(("kind", "alive"), [(LifeBook, [1.0, 0.5]), (AgelessBook, [0.5, 0.25])])
def test_without_ages_what_has_been_lived_teaches_nothing(kind, alive):
    """S is 1 at the start, a half at one edge and a quarter at a later one."""
    early, late = 20, 40
    places = np.arange(len(LIFE_EDGES_S))
    curve = np.interp(places, [0, early, late], [1.0, 0.5, 0.25])
    later_s = LIFE_EDGES_S[late] - LIFE_EDGES_S[early]
    book = kind(3, 1, np.array([0.0, later_s]))
    book.add(Entry("x", 2, curve, 1), 100.0, 0)
    found = book.alive(100.0 + LIFE_EDGES_S[early])
    np.testing.assert_allclose(found.mean[0], 2.0 * np.array(alive), rtol=1e-9)


def test_without_ages_a_job_that_has_just_started_is_as_it_was():
    curve = np.linspace(1.0, 0.0, len(LIFE_EDGES_S))
    offsets_s = np.array([0.0, 60.0, 3600.0])
    found = []
    for kind in (LifeBook, AgelessBook):
        book = kind(3, 1, offsets_s)
        book.add(Entry("x", 1, curve, 1), 0.0, 0)
        found.append(book.alive(0.0).mean)
    np.testing.assert_array_equal(*found)
