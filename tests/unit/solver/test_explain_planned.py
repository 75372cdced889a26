"""What a plan that weighs jobs together says of those it leaves out, and what would change it tried out."""

import pytest
from explained import FOR_EVER, HOUR_S, Demand, World, change, extra, full

from solver.explain.words import Lever, Why
from solver.lookahead import LookAhead

PLANNED_EPS = "0.3"


def weighed(demand: Demand | None = None, back: str | None = None, **chosen: str) -> World:
    """Pool a is full; jobs of it that live ever longer would like pool b's GPUs."""
    lives = {f"extra-{k}": (1.0, k * HOUR_S, k * HOUR_S) for k in range(1, 4)} | {"own-a": FOR_EVER}
    settings_ = {"eps": PLANNED_EPS, "share": "0", "requeueable": "0.5", **chosen}
    world = World("planned", lives, demand or Demand(3.0, from_cell=7), **settings_)
    jobs = [extra(2, name=f"extra-{k}", requeue_u=0.0 if back == f"extra-{k}" else None) for k in range(1, 4)]
    return world.submit(full("a"), *jobs)


def test_a_plan_says_what_was_not_worth_its_price():
    world = weighed()
    assert world.decide() == ["own-a", "extra-1"]
    found = world.explain()
    for job_id in ("extra-2", "extra-3"):
        one = found[job_id]
        assert one.why is Why.NOT_WORTH_ITS_PRICE
        assert (one.evidence["binds"], one.evidence["weighed_jobs"]) == ("price", 3)
        assert one.evidence["value"] < one.evidence["price"]
        assert one.evidence["price"] == pytest.approx(one.evidence["risk_jobs"] / float(PLANNED_EPS))
        assert (one.evidence["plan_status"], one.evidence["chosen_jobs"]) == ("optimal", 1)
        assert one.evidence["pool"] == "b"
        assert one.text.startswith("weighed together with 2 other jobs and left out: its start is worth")
        assert "the plan starts extra-1 (1 in all), which is proven best" in one.text
        assert change(one, Lever.LONGER_WAIT).value > 0.0


def test_a_plan_admits_that_its_lines_overstate_a_risk(monkeypatch):
    """By the exact model the risk would be worth it."""
    world = weighed()
    world.decide()
    monkeypatch.setattr(LookAhead, "try_guest", cheaper(LookAhead.try_guest))
    one = {one.job.job_id: one for one in world.policy.waiting(0.0, world.idle_gpus)}["extra-2"]
    assert (one.why, one.evidence["binds"]) == (Why.NOT_WORTH_ITS_PRICE, "lines")
    assert one.evidence["exact_price"] < one.evidence["value"] < one.evidence["price"]
    assert "the plan reckons by lines that lie above it" in one.text


def cheaper(tried):
    return lambda *guest: (trial := tried(*guest))._replace(charge=1e-3 * trial.charge)


def test_what_would_change_a_plan_is_tried():
    for eps in ("0.1", PLANNED_EPS):
        world = weighed(eps=eps)
        world.decide()
        for job_id, one in world.explain().items():
            says = {found.lever: found for found in one.changes if found.text.startswith("starts at once")}
            assert (Lever.REQUEUEABLE in says) == (job_id in weighed(eps=eps, back=job_id).decide())
            larger = says.get(Lever.LARGER_ALLOWANCE)
            if larger is not None and larger.value <= 1.0:
                assert job_id in weighed(eps=str(larger.value)).decide()


@pytest.mark.parametrize("finish", ["0.3", "1"])
def test_a_plan_says_only_of_whom_it_would_start_that_being_sent_back_would_do(finish):
    demand = Demand(3.0, from_cell=6)
    world = weighed(demand, eps="0.001", finish=finish)
    assert world.decide() == ["own-a"]
    said = {
        job_id: any(found.lever is Lever.REQUEUEABLE for found in one.changes)
        for job_id, one in world.explain().items()
    }
    back = {one: one in weighed(demand, one, eps="0.001", finish=finish).decide() for one in said}
    assert said == back
    assert sorted(said.values()) == [False, False, finish == "1"]


def test_what_one_plan_may_slow_keeps_a_job_out(monkeypatch):
    world = weighed(Demand(4.0, from_cell=7))
    monkeypatch.setattr(world.policy._lender.budget, "left", lambda _now_s: 1e-9)
    assert world.decide() == ["own-a"]
    one = world.explain()["extra-1"]
    assert (one.why, one.evidence["binds"]) == (Why.NOT_WORTH_ITS_PRICE, "budget")
    assert one.evidence["value"] > one.evidence["price"]
    assert one.evidence["plan_risk_with_it_jobs"] > one.evidence["plan_budget_jobs"]


def test_between_plans_the_reasons_are_those_of_the_search():
    """One job that fits is no choice: it is answered as anticipatory does."""
    world = World("planned", {"own-a": FOR_EVER}, Demand(4.0), eps="0.01", share="0")
    world.submit(full("a"), extra(2))
    assert world.decide() == ["own-a"]
    assert world.explain()["extra"].why is Why.HELD_FOR_POOL


def test_asking_a_planner_changes_no_decision():
    world = weighed()
    world.decide()
    plan = world.policy.last_plan
    assert world.policy.waiting(0.0, 4) == world.policy.waiting(0.0, 4)
    assert world.policy.last_plan is plan
    assert world.policy.notes()["plans"]["plans"] == 1
    assert world.policy.decide(0.0, 4) == world.policy.decide(0.0, 4)
