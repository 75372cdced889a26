"""`planned` on small clusters, with true lives."""

import numpy as np
import pytest
from support import job, run

from domain.errors import SettingError
from domain.jobs import Job, JobOutcome
from domain.timegrid import default_grid
from simulator.truth import TrueLives
from solver.demand import NoDemand
from solver.lending.value import FAIRNESS
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings

QUOTAS = {"a": 4, "b": 6}


class Coming(NoDemand):
    """Pool b will want all it has, for so many jobs in each cell, from half an hour on."""

    def __init__(self, jobs):
        self._jobs = jobs
        self._held = np.zeros((1, 2, len(default_grid())))
        self._held[:, 1, 6:] = 1.0

    def peaks(self, _now_s):
        return 6.0 * self._held

    def arrivals(self, _now_s):
        return self._jobs * self._held


def built(policy: str, durations, demand=None, **chosen: str):
    spec = POLICIES[policy]
    outcomes = {job_id: JobOutcome(job_id, duration_s) for job_id, duration_s in durations.items()}
    context = PolicyContext(QUOTAS, TrueLives(outcomes), demand or NoDemand())
    return spec.build(context, parse_settings(policy, spec.settings, chosen))


def started(policy, *jobs, idle_gpus=10):
    for one in jobs:
        policy.submitted(one, 0.0)
    return sorted(start.job.job_id for start in policy.decide(0.0, idle_gpus).starts)


def full() -> Job:
    return job("own", 0.0, 4)


def beyond(name: str, width: int = 1) -> Job:
    return job(name, 0.0, width, requeue_u=None)


def workload():
    draw = np.random.default_rng(1)
    jobs = [
        Job(
            f"j{k:02}", draw.choice(["a", "b"]), 60.0 * draw.integers(20), int(width), requeue_u=draw.random()
        )
        for k, width in enumerate(draw.integers(1, 5, size=24))
    ]
    return jobs, {one.job_id: 60.0 * draw.integers(1, 60) for one in jobs}


def test_it_chooses_the_better_set_where_greed_takes_the_shortest():
    """Six GPUs are idle: for one job of 4 that runs for 10 min and two of 1, or six of 1, all 12 min long."""
    lives = {"own": 9e4, "wide": 600.0} | {f"narrow-{k}": 720.0 for k in range(6)}
    jobs = [full(), *(beyond(f"narrow-{k}") for k in range(6))]
    wide = job("wide", 0.0, 4, requeue_u=None)
    greedy = started(built("anticipatory", lives), *jobs, wide)
    assert greedy == ["narrow-0", "narrow-1", "own", "wide"]
    planned = built("planned", lives)
    assert started(planned, *jobs, wide) == [*(f"narrow-{k}" for k in range(6)), "own"]
    assert planned.last_plan.gap == 0.0


def test_its_exact_risk_fits_what_the_budget_allows(monkeypatch):
    """All that pool b wants is there now; of k GPUs lent, k - 0.2 are missing in two cells.

    Each slows 0.5 / (1 + 6) jobs, and those of pool b count 1.07, as it begins with 50 jobs where pool a
    has 57. So with half a job allowed three are lent to, and not four.
    """
    lives = {"own": 9e4} | {f"long-{k}": 5000.0 for k in range(6)}
    jobs = [full(), *(beyond(f"long-{k}") for k in range(6))]
    assert len(started(built("planned", lives, eps="0.5"), *jobs)) == 7, "nobody comes"
    policy = built("planned", lives, Coming(0.5), eps="0.5")
    assert len(started(policy, *jobs)) == 7, "the budget is there"
    policy = built("planned", lives, Coming(0.5), eps="0.5")
    monkeypatch.setattr(policy._lender.budget, "left", lambda _now_s: 1e-9)
    assert started(policy, *jobs) == ["long-0", "long-1", "long-2", "own"]
    assert policy.last_plan.exact_risk_jobs == pytest.approx(2 * (3.0 - 0.1995) * 1.07 * 0.5 / 7, rel=1e-3)
    # draws know lives to the second and smooth nothing: 3 GPUs are missing and not 2.8
    assert policy.last_plan.drawn_jobs == pytest.approx(2 * 3.0 * 1.07 * 0.5 / 7, rel=1e-3)
    said = policy.plan_behind()
    assert (said["starts"], said["status"], said["fallback"]) == (3, "optimal", "none")
    assert said["drawn_jobs"] == policy.last_plan.drawn_jobs
    dear = built("planned", lives, Coming(0.5), eps="0.02")
    assert started(dear, *jobs) == ["own"], "each is worth less than the jobs it would slow"


@pytest.mark.parametrize("requeue_u", [None, 0.5])
def test_without_a_budget_it_lends_to_nobody_who_must_run_to_the_end(requeue_u):
    lives = {"own": 9e4, "x": 600.0, "y": 600.0}
    jobs = [full(), job("x", 0.0, 1, requeue_u=requeue_u), job("y", 0.0, 1, requeue_u=requeue_u)]
    policy = built("planned", lives, eps="0", requeueable="0.6")
    assert started(policy, *jobs) == (["own"] if requeue_u is None else ["own", "x", "y"])


def test_in_between_plans_it_answers_greedily():
    lives = {"own": 9e4, "x": 600.0, "y": 600.0, "z": 600.0}
    policy = built("planned", lives)
    assert started(policy, full(), beyond("x"), beyond("y"), idle_gpus=5) == ["own", "x"]
    for one in (full(), beyond("x")):
        policy.started(one, 0.0)
    before = policy.last_plan
    policy.submitted(beyond("z"), 10.0)
    assert len(policy.decide(10.0, 2).starts) == 2
    assert policy.last_plan is before
    assert policy.plan_behind() is None
    assert len(policy.decide(300.0, 2).starts) == 2
    assert policy.last_plan is not before


def test_a_plan_that_draws_refute_loses_guests_before_it_leaves(monkeypatch):
    """The lines are told that nobody comes; the scenarios it has not seen know better."""
    lives = {"own": 9e4} | {f"long-{k}": 5000.0 for k in range(6)}
    jobs = [full(), *(beyond(f"long-{k}") for k in range(6))]

    class Wrong(NoDemand):
        def fresh(self, now_s):
            return Coming(0.5).peaks(now_s), Coming(0.5).arrivals(now_s)

    policy = built("planned", lives, Wrong(), eps="0.5")
    monkeypatch.setattr(policy._lender.budget, "left", lambda _now_s: 1e-9)
    assert started(policy, *jobs) == ["long-0", "long-1", "long-2", "own"]
    assert policy.last_plan.fallback == "failed-draws"
    assert policy.notes()["plans"]["by_fallback"]["failed-draws"] == 1


@pytest.mark.parametrize("plan_s", ["inf", "nan", "-1"])
def test_a_plan_is_made_again_some_time(plan_s):
    with pytest.raises(SettingError, match="plan_s"):
        built("planned", {}, plan_s=plan_s)


@pytest.mark.parametrize("fairness", sorted(FAIRNESS))
def test_its_plans_pass_the_checker_and_are_the_same_each_time(fairness, capfd):
    """And the solver says nothing on standard output."""
    jobs, durations = workload()
    chosen = {"fairness": fairness, "requeueable": "0.5", "eps": "0.05"}
    schedules = [run("planned", jobs, durations, QUOTAS, checks_plans=True, **chosen) for _ in range(2)]
    assert schedules[0].stretches == schedules[1].stretches
    assert {stretch.job_id for stretch in schedules[0].stretches} == {one.job_id for one in jobs}
    assert any(stretch.is_guest for stretch in schedules[0].stretches)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("wrong", [{"fairness": "luck"}, {"plan_s": "-1"}, {"eps": "2"}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        built("planned", {}, **wrong)


def test_between_plans_the_plan_that_stands_can_be_asked():
    """Two are lent to, at 0.93 of a budget for three; a third fits it and is charged as a plan would be."""
    lives = {"own": 9e4} | {f"long-{k}": 5000.0 for k in range(6)}
    waiting = [beyond(f"long-{k}") for k in range(6)]

    def after_a_plan(between: str):
        policy = built("planned", lives, Coming(0.5), eps="0.5", between=between)
        policy._lender.budget.left = lambda _now_s: 1e-9
        chosen = started(policy, full(), *waiting[:2])
        assert chosen == ["long-0", "long-1", "own"]
        for one in (full(), *waiting[:2]):
            policy.started(one, 0.0)
        for one in waiting[2:]:
            policy.submitted(one, 10.0)
        return policy

    asked = after_a_plan("plan")
    first = asked.last_plan
    starts = [start.job.job_id for start in asked.decide(10.0, 4).starts]
    assert starts == ["long-2"], "a fourth would exceed the budget"
    assert asked.last_plan is first
    charge = asked._proposed["long-2"][1]
    fresh = built("planned", lives, Coming(0.5), eps="0.5")
    fresh._lender.budget.left = lambda _now_s: 1e-9
    started(fresh, full(), *waiting[:3])
    whole = fresh.last_plan
    assert first.exact_risk_jobs + charge == pytest.approx(whole.exact_risk_jobs, rel=0.02)
    assert len(after_a_plan("greedy").decide(10.0, 4).starts) == 4, "each alone is within what one may slow"


def test_between_plans_guests_that_are_gone_give_back_what_they_held():
    lives = {"own": 9e4} | {f"long-{k}": 5000.0 for k in range(6)}
    waiting = [beyond(f"long-{k}") for k in range(6)]
    policy = built("planned", lives, Coming(0.5), eps="0.5", between="plan")
    policy._lender.budget.left = lambda _now_s: 1e-9
    assert started(policy, full(), *waiting[:3]) == ["long-0", "long-1", "long-2", "own"]
    for one in (full(), *waiting[:3]):
        policy.started(one, 0.0)
    policy.submitted(waiting[3], 10.0)
    assert policy.decide(10.0, 3).starts == ()
    policy.ended(waiting[0], 20.0)
    assert [start.job.job_id for start in policy.decide(20.0, 4).starts] == ["long-3"]


def test_a_plan_without_a_price_for_sending_back_lends_to_nobody_who_may_be():
    lives = {"own": 9e4} | dict.fromkeys("xyz", 600.0)
    policy = built("planned", lives, requeueable="0.6", between="plan")
    assert started(policy, full(), beyond("x"), beyond("y")) == ["own", "x", "y"]
    for one in (full(), beyond("x"), beyond("y")):
        policy.started(one, 0.0)
    policy.submitted(job("z", 10.0, 1, requeue_u=0.5), 10.0)
    assert policy.decide(10.0, 4).starts == ()
