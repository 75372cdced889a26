"""Policies that send back, told of guests that save their progress; worked out by hand."""

from dataclasses import replace

import pytest
from explained import FOR_EVER, HOUR_S, Demand, World, change, extra, full
from support import all_knowing, job, run

from domain.jobs import JobOutcome
from domain.schedules import Stretch
from solver.explain.words import Lever, Why
from solver.policies import POLICIES
from solver.policies.base import parse_settings

QUOTAS = {"a": 1, "b": 2}
OLD, YOUNG = job("old", 0.0), job("young", 15.0)
OWN, OWNER = job("a-own", 0.0), job("owner", 21.0, 1, "b")
FREELY = {"requeueable": "1", "finish": "1"}
ALL_MAY = {"reclaim": {"requeueable": "1"}, "anticipatory": FREELY, "planned": FREELY}
DURATIONS = {"a-own": 1000.0, "old": 100.0, "young": 100.0, "owner": 5.0}


def first_back(policy, checkpoint_s, restart_s=None, **chosen):
    """Who is sent back when the owner comes."""
    old = replace(OLD, checkpoint_s=checkpoint_s, restart_s=restart_s)
    stretches = run(
        policy, [OWN, old, YOUNG, OWNER], DURATIONS, QUOTAS, **ALL_MAY[policy], **chosen
    ).stretches
    back = [one for one in stretches if one.was_sent_back]
    return back[0]


@pytest.mark.parametrize("policy", ["reclaim", "anticipatory"])
def test_who_loses_least_goes_first(policy):
    assert first_back(policy, None).job_id == "young"
    assert first_back(policy, 14.0).job_id == "young", "it would lose 7 s, the young one 6 s"
    kept = first_back(policy, 10.0)
    assert kept == Stretch("old", 0.0, 21.0, is_guest=True, rate=20.0 / 21.0, is_stopped=True)


@pytest.mark.parametrize("policy", ["reclaim", "anticipatory", "planned"])
def test_the_time_to_be_back_is_a_loss_too(policy):
    """The old one has saved 20 of its 21 s, the young one has run for 6."""
    assert first_back(policy, 10.0, 4.0).job_id == "old"
    assert first_back(policy, 10.0, 5.5).job_id == "young"


def test_least_work_counts_what_is_repeated():
    assert first_back("reclaim", None, victim="least-work").job_id == "young"
    assert first_back("reclaim", 10.0, victim="least-work").job_id == "old"


def test_the_oldest_goes_first_whatever_it_has_saved():
    assert first_back("reclaim", 14.0, victim="oldest").job_id == "old"


@pytest.mark.parametrize("policy", ["reclaim", "anticipatory", "planned"])
def test_a_guest_that_was_sent_back_runs_for_the_rest(policy):
    saves = replace(OLD, checkpoint_s=10.0)
    stretches = run(policy, [OWN, saves, YOUNG, OWNER], DURATIONS, QUOTAS, **ALL_MAY[policy]).stretches
    assert [one for one in stretches if one.job_id == "old"][-1] == Stretch("old", 26.0, 106.0, is_guest=True)


def test_what_is_left_is_forecast_given_what_is_kept():
    spec, saves = POLICIES["anticipatory"], replace(job("x", 0.0), checkpoint_s=600.0)
    outcomes = {"x": JobOutcome("x", 6000.0)}
    context = all_knowing(spec, [saves], outcomes, {"a": 2})
    lender = spec.build(context, parse_settings("anticipatory", spec.settings, {"requeueable": "1"}))._lender
    lender.submitted(saves, 0.0)
    whole = lender.fresh["x"].copy()
    lender.started(saves, 0.0, 0.0)
    lender.sent_back(saves, 2000.0)
    assert lender.keys["x"][0] == lender.tail_s(saves) == 6000.0 - 1800.0
    assert (lender.fresh["x"] <= whole).all()
    assert lender.fresh["x"].sum() < whole.sum()
    assert lender.repeated_share(saves) == 600.0 / 4200.0
    lender.started(saves, 5000.0, 0.0)
    assert lender.ahead(5000.0).own.sum() + lender.ahead(5000.0).requeueable.sum() == pytest.approx(
        lender.fresh["x"].sum()
    )
    lender.ended(saves, 9200.0)
    lender.budget.shadow.advance(9200.0)
    assert lender.budget.shadow.exact_end_s(saves) == 6000.0, "all of its work counts in the reference"


def waits_for(checkpoint_s, restart_s=None):
    lives = {"extra": (1.0, 2 * HOUR_S, 2 * HOUR_S), "own-a": FOR_EVER}
    world = World("anticipatory", lives, Demand(4.0, from_cell=5), requeueable="1")
    world.submit(full("a"), replace(extra(2), checkpoint_s=checkpoint_s, restart_s=restart_s))
    return world, world.decide()


def test_a_guest_that_would_not_repeat_much_is_lent_to_although_it_will_be_sent_back():
    assert waits_for(None)[1] == ["own-a"]
    assert waits_for(600.0)[1] == ["own-a", "extra"]
    assert waits_for(600.0, 300.0)[1] == ["own-a", "extra"]
    assert waits_for(600.0, 5400.0)[1] == ["own-a"], "it would be back after an hour and a half only"


def test_one_that_would_repeat_too_much_is_told_how_much():
    world, started = waits_for(0.9 * 2 * HOUR_S)
    assert started == ["own-a"]
    one = world.explain()["extra"]
    assert one.why is Why.TOO_LIKELY_SENT_BACK
    assert one.evidence["repeated_share"] == pytest.approx(0.9)
    assert "repeat up to 0.9 of its work" in one.text
    needed = change(one, Lever.HIGHER_FINISH).value
    assert needed == pytest.approx(0.9 * one.evidence["chance_sent_back"])


def planned_of(saves, between="greedy"):
    """Two that may be sent back, of which as many as save say how; pool b wants its GPUs after a while."""
    lives = dict.fromkeys(("one", "two", "three"), (1.0, 2 * HOUR_S, 2 * HOUR_S)) | {"own-a": FOR_EVER}
    world = World("planned", lives, Demand(4.0, from_cell=6), requeueable="1", between=between, finish="0.6")
    jobs = [extra(2, name=name, requeue_u=0.0) for name in ("one", "two")]
    jobs = [
        replace(each, checkpoint_s=300.0, restart_s=60.0) if each.job_id in saves else each for each in jobs
    ]
    world.submit(full("a"), *jobs)
    return world, world.decide()


def test_a_plan_lends_to_who_repeats_little_and_not_to_who_repeats_all():
    assert planned_of(saves=())[1] == ["own-a"]
    world, started = planned_of(saves=("two",))
    assert started == ["own-a", "two"]
    assert world.policy.last_plan.job_ids == ("two",)
    assert set(planned_of(saves=("one", "two"))[1]) == {"own-a", "one", "two"}


@pytest.mark.parametrize(("saves", "starts"), [({}, []), ({"checkpoint_s": 300.0}, ["three"])])
def test_between_plans_one_that_comes_is_asked_for_its_own_price(saves, starts):
    world, started = planned_of(saves=("two",), between="plan")
    assert started == ["own-a", "two"]
    late = replace(extra(2, name="three", requeue_u=0.0), **saves)
    world.policy.submitted(late, 1.0)
    plan = world.policy.decide(1.0, 2)
    assert [start.job.job_id for start in plan.starts] == starts
