"""Each reason produced by a small scene, and what would change it tried out."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from explained import FOR_EVER, HOUR_S, JUST_WITHIN, QUOTAS, Demand, World, change, extra, full
from hypothesis import given, settings
from hypothesis import strategies as st
from support import all_knowing, instances, job

from domain.forecasts import Burst
from domain.jobs import JobOutcome
from domain.timegrid import default_grid
from simulator.checked import options_of, plan_state
from simulator.engine import Engine
from simulator.truth import TrueLives
from solver.explain.answer import explain_waiting
from solver.explain.scene import Scene
from solver.explain.starts import Lives as LivesLeft
from solver.explain.starts import expected_starts
from solver.explain.words import Explains, Lever, Why
from solver.plan_rules import Known, state_of
from solver.policies import POLICIES
from solver.policies.base import parse_settings

# Reasons that any policy may have.


def test_no_idle_gpu_and_how_many_would_do():
    world = World("anticipatory", eps="1").submit(full("a"), full("b"), extra(2))
    world.decide()
    one = world.explain()["extra"]
    assert one.why is Why.NO_IDLE_GPU
    assert one.evidence == {"idle_gpus": 0, "width_gpus": 2}
    assert change(one, Lever.FREE_GPUS).value == 2
    assert world.decide(idle_gpus=1) == []
    assert world.decide(idle_gpus=2) == ["extra"]


def test_wider_than_idle_and_how_many_would_do():
    world = World("anticipatory", eps="1").submit(full("a"), full("b", 2), extra(3))
    world.decide()
    one = world.explain()["extra"]
    assert (one.why, one.text) == (Why.WIDER_THAN_IDLE, "it asks for 3 GPUs, 2 are idle")
    assert change(one, Lever.FREE_GPUS).value == 3
    assert world.decide(idle_gpus=3) == ["extra"]


def lent_out(policy: str = "anticipatory", **chosen: str) -> World:
    """A guest has GPUs of pool b, whose own job of 4 is due."""
    world = World(policy, **chosen).submit(full("a"))
    world.decide()
    return world.run_unplanned(extra(2, name="guest")).submit(full("b"), extra(1, name="late"))


@pytest.mark.parametrize("policy", ["anticipatory", "reclaim"])
def test_a_due_job_waits_for_guests_and_others_behind_it(policy):
    world = lent_out(policy, requeueable="0.5")
    assert world.decide() == []
    found = world.explain()
    assert found["own-b"].why is Why.WIDER_THAN_IDLE
    assert found["own-b"].text.startswith("its lane has reached it, but guests have its GPUs still")
    assert change(found["own-b"], Lever.FREE_GPUS).value == 4
    if policy == "reclaim":
        assert found["late"].why is Why.NOT_REQUEUEABLE
        return
    late = found["late"]
    assert (late.why, late.evidence["due_job"], late.evidence["due_pool"]) == (
        Why.BEHIND_DUE_JOB,
        "own-b",
        "b",
    )
    assert change(late, Lever.DUE_JOB_SERVED).value == 4
    assert world.decide(idle_gpus=3) == []
    assert world.decide(idle_gpus=4) == ["own-b"]


def test_a_due_job_behind_another_due_job():
    world = lent_out("anticipatory").submit(job("own-b2", 2.0, 1, "b"))
    world.policy.ended(full("b"), 0.0)
    world.books.ended(full("b"))
    world.submit(replace(full("b", 3), submit_s=0.5))
    world.decide()
    found = world.explain()
    assert found["own-b"].why is Why.WIDER_THAN_IDLE
    assert (found["own-b2"].why, change(found["own-b2"], Lever.FREE_GPUS).value) == (Why.BEHIND_DUE_JOB, 4)


def test_a_policy_that_lends_nothing_lets_wait_in_the_own_lane():
    world = World("fcfs").submit(full("a"), extra(2), extra(1, name="behind"))
    world.decide()
    one = world.explain()["behind"]
    assert one.why is Why.WAITS_IN_OWN_LANE
    assert one.evidence == {"quota_gpus": 4, "own_gpus": 4, "before_gpus": 2, "width_gpus": 1}
    freed = change(one, Lever.LANE_FREED)
    assert (freed.value, len(one.changes)) == (3, 1)
    assert freed.text.endswith("as when own-a has ended")
    world.policy.ended(full("a"), 0.0)
    assert sorted(world.decide(idle_gpus=8)) == ["behind", "extra"]


def test_a_lane_that_needs_more_than_what_runs_names_no_job():
    world = World("fcfs").submit(full("a"), extra(4), extra(1, name="behind"))
    world.decide()
    freed = change(world.explain()["behind"], Lever.LANE_FREED)
    assert freed.value == 5
    assert freed.text == "its lane reaches it once 5 GPUs of its pool's jobs before it have come free"


def test_a_policy_that_lends_to_the_requeueable_says_so():
    world = World("reclaim", requeueable="0.5").submit(full("a"), extra())
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert [found.lever for found in one.changes] == [Lever.REQUEUEABLE]
    assert one.why is Why.NOT_REQUEUEABLE
    other = World("reclaim", requeueable="0.5").submit(full("a"), extra(requeue_u=0.0))
    assert other.decide() == ["own-a", "extra"]


def test_a_policy_that_keeps_gpus_for_others_without_saying_why():
    world = World("sia", demand=Demand(4.0)).submit(full("a"), extra())
    world.decide()
    assert world.explain()["extra"].why is Why.HELD_BY_POLICY


def test_the_kill_switch():
    world = World("anticipatory", eps="1").submit(full("a"))
    world.decide()
    world.submit(extra())
    one = world.explain(is_lending=False)["extra"]
    assert (one.why, [found.lever for found in one.changes]) == (Why.LENDING_OFF, [Lever.LENDING_ON])
    assert (one.evidence["off_for"], one.evidence["idle_gpus"]) == ("all pools", 4)
    since = replace(world.scene(is_lending=False), off_since_s=-HOUR_S)
    (told,) = explain_waiting(world.policy, since)
    assert "since 1 h" in told.text
    assert told.evidence["off_since_s"] == -HOUR_S
    assert world.decide() == ["extra"]


def test_a_job_wider_than_its_quota_has_no_promise():
    wide = extra(5)
    state = state_of(0.0, 8, QUOTAS, [Known(wide)])
    world = World("fcfs")
    one = explain_waiting(world.policy, replace(world.scene(), state=state))[0]
    assert (one.why, one.latest_s) == (Why.NO_PROMISE, math.inf)
    assert change(one, Lever.HIGHER_QUOTA).value == 5
    roomy = replace(state, quotas={"a": 5, "b": 3})
    assert explain_waiting(world.policy, replace(world.scene(), state=roomy))[0].why is not Why.NO_PROMISE


# Reasons of lending by a look ahead.


def refused(lives: tuple[float, float, float], demand: Demand, width: int = 2, **chosen: str) -> World:
    """Pool a is full, pool b idle; a job of pool a may not have b's GPUs."""
    said = {"extra": lives, "own-a": FOR_EVER}
    world = World("anticipatory", said, demand, **{"eps": "0.01", "share": "0", **chosen})
    world.submit(full("a"), extra(width))
    return world


def test_held_for_the_pool_that_will_want_the_gpus():
    world = refused((1.0, 2 * HOUR_S, 2 * HOUR_S), Demand(4.0, from_cell=5))
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert (one.why, one.evidence["pool"]) == (Why.HELD_FOR_POOL, "b")
    assert one.evidence["missing_gpus"] == pytest.approx(2.0, abs=0.1)
    assert one.evidence["level"] == pytest.approx(0.0, abs=1e-3)
    assert one.evidence["still_runs"] == 1.0
    shorter = change(one, Lever.SHORTER_LIFE)
    assert shorter.value == default_grid().edges_s[5]
    assert would_start(shorter.value, Demand(4.0, from_cell=5))
    assert not would_start(2.0 * shorter.value, Demand(4.0, from_cell=5))


def would_start(life_s: float, demand: Demand, **chosen: str) -> bool:
    return "extra" in refused((1.0, JUST_WITHIN * life_s, JUST_WITHIN * life_s), demand, **chosen).decide()


def test_would_overrun_where_it_would_probably_be_done():
    demand = Demand(4.0, from_cell=7)
    world = refused((0.9, 600.0, 20 * HOUR_S), demand)
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert one.why is Why.WOULD_OVERRUN
    assert one.evidence["still_runs"] == pytest.approx(0.1, abs=0.05)
    assert change(one, Lever.SHORTER_LIFE).value == default_grid().edges_s[7]
    assert would_start(600.0, demand)


def test_a_larger_allowance_and_being_requeueable_would_do():
    demand = Demand(4.0, from_cell=7)
    lives = (0.9, 600.0, 20 * HOUR_S)
    world = refused(lives, demand)
    world.decide()
    one = world.explain()["extra"]
    needed = change(one, Lever.LARGER_ALLOWANCE).value
    assert needed == one.evidence["charge_jobs"]
    assert needed > one.evidence["allowed_jobs"] == 0.01
    assert "extra" in refused(lives, demand, eps=str(needed)).decide()
    assert change(one, Lever.REQUEUEABLE)
    back = World(
        "anticipatory", {"extra": lives, "own-a": FOR_EVER}, demand, eps="0.01", share="0", requeueable="0.5"
    )
    assert back.submit(full("a"), extra(2, requeue_u=0.0)).decide() == ["own-a", "extra"]


def test_too_likely_to_be_sent_back():
    lives, demand = (1.0, 2 * HOUR_S, 2 * HOUR_S), Demand(4.0, from_cell=5)
    world = World("anticipatory", {"extra": lives, "own-a": FOR_EVER}, demand, requeueable="1")
    world.submit(full("a"), extra(2)).decide()
    one = world.explain()["extra"]
    assert one.why is Why.TOO_LIKELY_SENT_BACK
    chance = change(one, Lever.HIGHER_FINISH).value
    assert chance == one.evidence["chance_sent_back"] > 0.3
    again = World(
        "anticipatory", {"extra": lives, "own-a": FOR_EVER}, demand, requeueable="1", finish=str(chance)
    )
    assert again.submit(full("a"), extra(2)).decide() == ["own-a", "extra"]
    life_s = change(one, Lever.SHORTER_LIFE).value
    short = World(
        "anticipatory",
        {"extra": (1.0, JUST_WITHIN * life_s, JUST_WITHIN * life_s), "own-a": FOR_EVER},
        demand,
        requeueable="1",
    )
    assert short.submit(full("a"), extra(2)).decide() == ["own-a", "extra"]


def test_the_budget_is_spent(monkeypatch):
    world = refused((0.9, 600.0, 20 * HOUR_S), Demand(4.0, from_cell=7), width=1, eps="0.6")
    monkeypatch.setattr(world.policy._lender.budget, "left", lambda _now_s: -0.25)
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert one.why is Why.BUDGET_SPENT
    assert change(one, Lever.LARGER_BUDGET).value == 0.25
    monkeypatch.setattr(world.policy._lender.budget, "left", lambda _now_s: 1e-9)
    assert world.decide() == ["extra"]


def test_a_spent_budget_still_lends_what_costs_half_of_what_a_job_grants(monkeypatch):
    world = refused((0.9, 600.0, 20 * HOUR_S), Demand(4.0, from_cell=7), width=1, eps="0.9")
    monkeypatch.setattr(world.policy._lender.budget, "left", lambda _now_s: -0.25)
    assert world.decide() == ["own-a", "extra"]


def test_without_a_budget_nothing_is_lent_for_good():
    world = refused((1.0, 600.0, 600.0), Demand(), eps="0")
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert (one.why, [found.lever for found in one.changes]) == (Why.LENDING_OFF, [Lever.REQUEUEABLE])
    assert (one.evidence["eps"], one.evidence["left_jobs"], one.evidence["idle_gpus"]) == (0.0, 0.0, 4)
    again = World("anticipatory", eps="0", requeueable="0.5")
    assert again.submit(full("a"), extra(2, requeue_u=0.0)).decide() == ["own-a", "extra"]


def test_the_search_ended_before_it():
    """Six wide ones are refused first; a narrow one that lives longer would have been lent to."""
    wide = [job(f"wide-{k}", 1.0, 3, "a", requeue_u=None) for k in range(6)]
    lives = {one.job_id: (1.0, 2 * HOUR_S, 2 * HOUR_S) for one in wide} | {"extra": (1.0, 9e3, 9e3)}
    world = World("anticipatory", lives, Demand(2.0), eps="0.1", share="0")
    world.submit(full("a"), *wide, extra())
    assert world.decide() == ["own-a"]
    found = world.explain()
    assert found["wide-0"].why is Why.HELD_FOR_POOL
    assert (found["extra"].why, found["extra"].evidence["place"]) == (Why.NOT_CONSIDERED, 7)
    gone = change(found["extra"], Lever.EARLIER_GONE)
    assert (gone.value, found["extra"].evidence["last_tried"]) == (1, "wide-5")
    fewer = World("anticipatory", lives, Demand(2.0), eps="0.1", share="0")
    assert fewer.submit(full("a"), *wide[1:], extra()).decide() == ["own-a", "extra"]


@pytest.mark.parametrize("chance", ["low", "high"])
def test_only_who_would_start_is_told_that_being_sent_back_would_do(chance):
    """Seven are refused; the search does not reach the last, and with a high chance it would start nobody."""
    wide = [job(f"wide-{k}", 1.0, 3, "a", requeue_u=None) for k in range(7)]
    long_s = 2 * HOUR_S if chance == "high" else 20 * HOUR_S
    lives = {one.job_id: (0.0 if chance == "high" else 0.9, 600.0, long_s) for one in wide}
    lives |= {"own-a": FOR_EVER}

    def world(back: str | None) -> World:
        made = World("anticipatory", lives, Demand(4.0, from_cell=5), requeueable="0.5")
        jobs = [replace(one, requeue_u=0.0 if one.job_id == back else None) for one in wide]
        return made.submit(full("a"), *jobs)

    asked = world(None)
    assert asked.decide() == ["own-a"]
    told = {
        job_id: any(found.lever is Lever.REQUEUEABLE for found in one.changes)
        for job_id, one in asked.explain().items()
    }
    assert told == {one.job_id: one.job_id in world(one.job_id).decide() for one in wide}
    assert list(told.values()) == [chance == "low"] * 6 + [False]


def with_burst(lives: tuple[float, float, float]) -> World:
    """No scenario holds it, but a burst of pool b may want all its GPUs."""
    demand = Demand()
    demand.bursts = lambda _now_s: (Burst(1, 4.0, 4.0, 1e-3),)
    world = World("anticipatory", {"extra": lives, "own-a": FOR_EVER}, demand, share="0", burst_weight="1")
    world.submit(full("a"), extra(2))
    return world


@pytest.mark.parametrize(
    ("lives", "why"),
    [((1.0, 20 * HOUR_S, 20 * HOUR_S), Why.HELD_FOR_BURST), ((0.9, 60.0, 900 * HOUR_S), Why.WOULD_OVERRUN)],
)
def test_what_bursts_are_charged_for_is_told_of_bursts(lives, why):
    world = with_burst(lives)
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert (one.why, one.evidence["pool"]) == (why, "b")
    assert "a burst of pool b that may come" in one.text
    assert (one.evidence["burst_gpus"], one.evidence["burst_jobs"]) == (4.0, 4.0)
    assert one.evidence["missing_gpus"] > 0.05
    assert "level" not in one.evidence
    assert one.evidence["charge_jobs"] > one.evidence["allowed_jobs"]


def test_the_level_never_contradicts_the_refusal():
    """However little may be missing, it is in the level, too."""
    world = refused((1.0, 20 * HOUR_S, 20 * HOUR_S), Demand(2.5, from_cell=7), width=1, eps="1e-6")
    assert world.decide() == ["own-a"]
    one = world.explain()["extra"]
    assert one.why is Why.HELD_FOR_POOL
    assert 0.0 < one.evidence["level"] < 1.0
    assert one.evidence["missing_gpus"] > 1e-3
    assert 0.0 < one.evidence["share_of_charge"] <= 1.0


def test_asking_changes_no_decision():
    world = refused((0.9, 600.0, 20 * HOUR_S), Demand(4.0, from_cell=7))
    world.decide()
    assert isinstance(world.policy, Explains)
    before = world.policy.decide(0.0, 4)
    assert world.policy.waiting(0.0, 4) == world.policy.waiting(0.0, 4)
    assert world.policy.decide(0.0, 4) == before


# When.


def replayed(policy: str, instance, until_s: float, **chosen: str):
    """The scene at an instant of a replay with true lives, the policy, and when jobs start from there on."""
    jobs, durations, quotas = instance
    outcomes = {job_id: JobOutcome(job_id, duration_s) for job_id, duration_s in durations.items()}
    spec = POLICIES[policy]
    in_force = parse_settings(policy, spec.settings, chosen)

    def engine() -> tuple[Engine, object]:
        made = spec.build(all_knowing(spec, jobs, outcomes, quotas), in_force)
        more = {"capacity_gpus": sum(quotas.values()), "policy": made, "tick_s": spec.tick_s}
        return Engine(jobs=jobs, outcomes=outcomes, **more), made

    stretches = engine()[0].run().stretches
    stopped, built = engine()
    stopped.run(until_s=until_s)
    started = {job_id: attempt.start_s for job_id, attempt in stopped.state.running.items()}
    state = plan_state(stopped.state, quotas, until_s)
    scene = Scene(state, options_of(spec, in_force), spec.lends, started, TrueLives(outcomes).survival)
    starts: dict[str, float] = {}
    for stretch in sorted(stretches, key=lambda one: one.start_s, reverse=True):
        if stretch.start_s >= until_s:
            starts[stretch.job_id] = stretch.start_s
    return scene, built, starts


def with_true_lives(scene: Scene, durations: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    now_s = scene.state.now_s
    left = {
        job_id: durations[job_id] - (now_s - scene.started_s.get(job_id, now_s))
        for job_id in scene.state.known
    }
    lendable = [one.job_id for one in scene.waiting() if scene.may_lend_to(one)]
    return expected_starts(scene.state, LivesLeft(left, left), lends_to=lendable)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(instances(max_jobs=14), st.integers(1, 25))
def test_true_lives_tell_when_a_lane_reaches_a_job(instance, until_s):
    """First come, first served: who comes later changes nothing for those that wait."""
    scene, _, starts = replayed("fcfs", instance, float(until_s))
    found = with_true_lives(scene, instance[1])
    assert found == {job_id: (starts[job_id], starts[job_id]) for job_id in found}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(instances(max_jobs=14), st.integers(1, 25))
def test_who_may_be_lent_to_starts_no_later_than_its_lane_allows(instance, until_s):
    scene, _, starts = replayed("reclaim", instance, float(until_s), requeueable="1")
    for job_id, (earliest_s, latest_s) in with_true_lives(scene, instance[1]).items():
        assert until_s <= earliest_s <= latest_s
        assert starts[job_id] <= latest_s


def test_the_interval_comes_with_the_reason():
    world = World("anticipatory", eps="1").submit(full("a"), full("b"), extra(2))
    world.decide()
    one = world.explain()["extra"]
    assert 0.0 < one.earliest_s <= one.latest_s < 2 * HOUR_S
