"""Rides in the lending plan: rows, charges, what stands afterwards, and how `planned` carries them out."""

from dataclasses import replace

import numpy as np
import pytest
from lending_cases import members_of, problem, ride, riding_problem
from support import job

from domain.cluster import Gpu
from domain.jobs import Job, JobOutcome
from domain.plans import Placement
from simulator.truth import TrueLives
from solver.demand import NoDemand
from solver.lending.curves import RiskLines
from solver.lending.drawn import passed_draws
from solver.lending.incremental import OpenPlan
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import Fallback, LendingProblem, PlanStatus
from solver.lending.rides import best_rides, ride_rows, started
from solver.lending.solve import Limits
from solver.lending.verify import Verified
from solver.packing.rides import Ride
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings

HIGHS = HighsSolver(Limits(gap=0.0), is_isolated=False)
WIDE = Job("wide", "z", 0.0, 8)


def waits(name: str, width: int = 1) -> Job:
    return Job(name, "z", 0.0, width)


def with_rides(classes, rides: list[Ride], room=None, **more) -> LendingProblem:
    asked = problem(classes, **more)
    return replace(asked, rides=ride_rows(rides, members_of(asked), room=room))


def test_a_job_that_finds_no_idle_gpu_rides_and_one_that_does_is_not_made_to():
    one = [ride(waits("c0-0"), WIDE, value=1.5)]
    assert plan_lending(with_rides([(1, 1, 2.0, 60.0)], one), HIGHS).rides == ()
    full = plan_lending(with_rides([(1, 1, 2.0, 60.0)], one, idle_gpus=0), HIGHS, members=(("c0-0",),))
    assert (full.rides, full.job_ids, full.objective, full.status) == ((0,), (), 1.5, PlanStatus.OPTIMAL)
    assert plan_lending(with_rides([(1, 1, 2.0, 60.0)], one, idle_gpus=0), None).rides == (0,), "greedy"


def test_of_two_for_one_gpu_the_one_rides_that_frees_it_for_both():
    """Both are worth more on the idle GPU; only the narrower one may ride."""
    rides = [ride(waits("c0-0"), WIDE, value=1.0)]
    plan = plan_lending(with_rides([(1, 1, 3.0, 60.0), (1, 1, 2.5, 60.0)], rides, idle_gpus=1), HIGHS)
    assert (plan.counts.tolist(), plan.rides, plan.objective) == ([0, 1], (0,), 3.5)


def test_of_a_class_others_start_than_those_that_ride():
    members = (("a", "b", "c"), ("d",))
    assert started(members, [2, 1]) == ("a", "b", "d")
    assert started(members, [2, 0], frozenset({"a", "d"})) == ("b", "c")


def test_a_host_takes_four_or_as_many_as_are_said():
    rides = [ride(waits(f"c0-{k}"), WIDE, first=k) for k in range(6)]
    classes = [(1, 6, 1.0, 60.0)]
    assert len(plan_lending(with_rides(classes, rides, idle_gpus=0), HIGHS).rides) == 4
    for most in (0, 1):
        asked = with_rides(classes, rides, {WIDE.job_id: most}, idle_gpus=0)
        assert len(plan_lending(asked, HIGHS).rides) == most


def test_one_as_wide_as_its_host_rides_alone_there():
    rides = [ride(waits("c0-0", 8), WIDE, value=2.0), *(ride(waits(f"c1-{k}"), WIDE, k) for k in range(3))]
    asked = with_rides([(8, 1, 2.0, 60.0), (1, 3, 1.0, 60.0)], rides, idle_gpus=0)
    assert plan_lending(asked, HIGHS).rides == (1, 2, 3)
    assert plan_lending(replace(asked, rides=ride_rows(rides[:3], members_of(asked))), HIGHS).objective == 2.0


def test_charges_use_up_the_budget_and_cost_their_price():
    rides = [ride(waits(f"c0-{k}"), WIDE, k, charge=0.4) for k in range(3)]
    asked = with_rides([(1, 3, 1.0, 60.0)], rides, idle_gpus=0, budget_jobs=1.0)
    plan = plan_lending(asked, HIGHS)
    assert (len(plan.rides), plan.ride_jobs, plan.risk_jobs) == (2, pytest.approx(0.8), pytest.approx(0.8))
    assert plan_lending(replace(asked, price=3.0), HIGHS).rides == (), "each is worth less than it costs"
    none = plan_lending(replace(asked, budget_jobs=0.0), HIGHS)
    assert (none.rides, none.status, none.reason) == ((), PlanStatus.EMPTY, "no GPU is idle")


def test_without_a_budget_those_ride_that_slow_nobody_and_can_be_sent_back():
    rides = [
        ride(waits("c0-0"), WIDE, 0),
        ride(waits("c1-0"), WIDE, 1),
        ride(waits("c1-1"), WIDE, 2, charge=0.1),
    ]
    asked = with_rides(
        [(1, 1, 1.0, 60.0), (1, 2, 1.0, 60.0)], rides, idle_gpus=0, budget_jobs=0.0, requeueable=(1,)
    )
    plan = plan_lending(asked, HIGHS)
    assert plan.rides == (1,)
    assert asked.violations(np.array([0, 0, 1, 0, 0])) == ("a ride that the budget does not allow",)


def test_a_choice_that_breaks_a_rule_is_named():
    rides = [ride(waits("c0-0"), WIDE, 0), ride(waits("c0-0"), WIDE, 1), ride(waits("c0-1"), WIDE, 1)]
    asked = with_rides([(1, 2, 1.0, 60.0)], rides)
    assert asked.violations(np.array([1, 0, 1, 0])) == ()
    assert asked.violations(np.array([0, 1, 1, 0])) == (
        "rides of one job, one GPU or one host exclude each other",
    )
    assert asked.violations(np.array([2, 1, 0, 0])) == (
        "a class starts more jobs than wait, or fewer than none",
    )
    assert (
        asked.violations(np.array([0, 2, 0, 0]))[0] == "a ride is chosen that may not be, or more than once"
    )
    assert asked.violations(np.array([0, 1])) == ("2 counts for 1 classes and 3 rides",)


def test_rides_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="job x has a ride and is of no class"):
        ride_rows([ride(waits("x"), WIDE)], [("y",)])
    short = replace(ride(waits("x", 2), WIDE), gpus=(Gpu("n", 0),))
    with pytest.raises(ValueError, match="job x of width 2 cannot ride on 1 of the 8 GPUs of wide"):
        ride_rows([short], [("x",)])
    rows = ride_rows([ride(waits("x"), WIDE)], [("x",)])
    with pytest.raises(ValueError, match="finite"):
        replace(rows, value=np.array([np.nan]))
    with pytest.raises(ValueError, match="class that there is not"):
        replace(problem(), rides=replace(rows, of_class=np.array([3])))
    assert ride_rows([], []) is None


def test_of_too_many_candidates_the_dearest_are_weighed():
    rides = [ride(waits(f"c0-{k}"), WIDE, k, value=float(k % 3)) for k in range(6)]
    assert [one.job.job_id for one in best_rides(rides, 3)] == ["c0-1", "c0-2", "c0-5"]
    assert best_rides(rides, 6) == rides


@pytest.mark.parametrize("seed", range(6))
def test_another_budget_for_the_lines_leaves_worth_and_share_of_rides(seed):
    asked, rides = riding_problem(seed, price=0.5)
    looser = asked.with_lines_budget(2.0 * asked.budget_jobs)
    choice = np.concatenate([asked.most(), np.ones(len(rides), dtype=np.int64)])
    assert looser.objective(choice) == pytest.approx(asked.objective(choice))
    assert looser.ride_jobs(choice) == pytest.approx(2.0 * asked.ride_jobs(choice))


def test_a_solver_in_a_process_of_its_own_is_told_of_rides():
    asked, _ = riding_problem(0, idle_gpus=1)
    isolated = HighsSolver(Limits(gap=0.0, wall_s=60.0))
    try:
        plan, same = plan_lending(asked, isolated), plan_lending(asked, HIGHS)
    finally:
        isolated.close()
    assert plan.rides
    assert (plan.rides, plan.counts.tolist(), plan.objective) == (
        same.rides,
        same.counts.tolist(),
        same.objective,
    )


def steep(jobs_per_gpu: float) -> RiskLines:
    return RiskLines(np.full((4, 1), jobs_per_gpu), np.zeros((4, 1)), np.zeros(4))


def test_draws_hold_guests_to_what_riders_leave():
    """A budget of one job; 0.5 go to a rider, and each guest slows 0.3 by fresh draws."""
    rides = [ride(waits("c1-0"), WIDE, value=50.0, charge=0.5)]
    asked = with_rides([(1, 3, 2.0, 1e9), (1, 1, 0.1, 60.0)], rides, idle_gpus=3, risk=steep(0.01))
    members = members_of(asked)
    plan = plan_lending(asked, HIGHS, members=members)
    assert (plan.counts.tolist(), plan.rides) == ([3, 0], (0,))

    def draws(choice):
        return Verified(0.3 * choice[0], 0.0, np.zeros((1, 4)), (0.5,), 100)

    checked = passed_draws(asked, plan, draws, members)
    assert (checked.counts.tolist(), checked.rides, checked.job_ids) == ([1, 0], (0,), ("c0-0",))
    assert checked.fallback is Fallback.FAILED_DRAWS
    assert checked.drawn_jobs == pytest.approx(0.8)


def test_in_a_plan_that_stands_a_rider_gives_back_its_charge():
    asked = problem([(1, 2, 1.0, 1e9)], risk=steep(0.01))
    plan = OpenPlan(asked, np.array([1]), (("a",),), rides={"r": 0.3})
    assert plan.guest_ids == {"a", "r"}
    assert (plan.spent_jobs, plan.left_jobs) == (pytest.approx(0.34), pytest.approx(0.66))
    idle = plan.idle_gpus
    plan.ended("r")
    assert (plan.idle_gpus, plan.spent_jobs) == (idle, pytest.approx(0.04))


def policy_with(options, **lives):
    """`planned` on two pools, of whose jobs those of pool a are beyond their lane."""
    spec = POLICIES["planned"]
    outcomes = {job_id: JobOutcome(job_id, duration_s) for job_id, duration_s in lives.items()}
    context = PolicyContext({"a": 4, "b": 6}, TrueLives(outcomes), NoDemand())
    built = spec.build(context, parse_settings("planned", spec.settings, {"requeueable": "0.5"}))
    built.ride_options = options
    return built


@pytest.mark.parametrize("idle_gpus", [0, 1])
def test_planned_carries_out_rides_and_starts(idle_gpus):
    host, x, y = (job(name, 0.0, width, requeue_u=None) for name, width in (("host", 4), ("x", 1), ("y", 1)))
    asked = []

    def options(now_s):
        asked.append(now_s)
        return [ride(one, host, first, value=1e-3, charge=0.0) for first, one in enumerate((x, y))]

    policy = policy_with(options, host=9e4, x=600.0, y=600.0)
    policy.submitted(host, 0.0)
    policy.decide(0.0, 10)
    policy.started(host, 0.0)
    for one in (x, y):
        policy.submitted(one, 400.0)
    plan = policy.decide(400.0, idle_gpus)
    assert asked == [400.0]
    assert [(start.job.job_id, start.is_guest) for start in plan.starts if start.job.job_id in "xy"] == [
        (start.job.job_id, True) for start in plan.starts
    ]
    # one new rider of a host a plan
    assert len(plan.starts) == 1 + idle_gpus
    (place,) = plan.placements
    assert place in (Placement("x", (Gpu("of-host", 0),)), Placement("y", (Gpu("of-host", 1),)))
    assert policy.plan_behind() is not None
    assert policy.decide(401.0, 0).placements == (), "no plan is due"


def test_nobody_rides_with_a_guest_that_is_sent_back():
    host, due = job("host", 0.0, 4, requeue_u=0.1), job("due", 0.0, 6, pool="b")
    own, x = job("own", 0.0, 4, requeue_u=None), job("x", 0.0, 1, requeue_u=None)
    policy = policy_with(lambda _: [ride(x, host)], own=9e4, host=9e4, x=600.0, due=600.0)
    for one in (own, host):
        policy.submitted(one, 0.0)
    policy.decide(0.0, 10)
    for one in (own, host):
        policy.started(one, 0.0)
    for one in (x, due):
        policy.submitted(one, 400.0)
    plan = policy.decide(400.0, 2)
    assert [one.job_id for one in plan.send_backs] == ["host"]
    assert [start.job.job_id for start in plan.starts] == ["due"]
    assert plan.placements == ()
