"""Rides chosen together with starts: the best of all choices, and lawful whatever is drawn."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lending_cases import may_all_ride, members_of, problem, random_problem, riding_problem
from packing_by_hand import MODELS, rates

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from solver.check_plan import check_plan
from solver.lending.cpsat import CpSatSolver
from solver.lending.decomposed import DecomposedSolver
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.rides import ride_rows
from solver.lending.solve import Limits
from solver.packing.floor import Floor
from solver.packing.rides import Ride
from solver.plan_rules import Hosts, Known, PlanOptions, Standing, state_of

EXACT = Limits(gap=0.0)
HIGHS, CP_SAT = HighsSolver(EXACT, is_isolated=False), CpSatSolver(EXACT)
BY_GROUPS = DecomposedSolver(HIGHS, classes_per_group=1, whole_up_to=0)
seeds = st.integers(0, 2**32 - 1)


def best_by_hand(asked, rides) -> float:
    """The best worth of all choices that keep the rules, told from the candidates themselves."""
    alone = replace(asked, rides=None)
    starts = [
        np.array(counts)
        for counts in product(*(range(int(most) + 1) for most in asked.count))
        if not alone.violations(np.array(counts))
    ]
    worths = [(counts, alone.objective(counts), alone.risk_jobs(counts)) for counts in starts]
    best = 0.0
    for taken in product((0, 1), repeat=len(rides)):
        chosen = [one for one, is_taken in zip(rides, taken, strict=True) if is_taken]
        if not may_all_ride(chosen):
            continue
        ride = np.bincount([int(one.job.job_id[1]) for one in chosen], minlength=asked.num_classes)
        charge = sum(one.charge for one in chosen)
        gain = sum(one.value for one in chosen) - asked.price * charge
        for counts, worth, risk in worths:
            if (counts + ride <= asked.count).all() and risk + charge <= asked.allowed_jobs:
                best = max(best, worth + gain)
    return best


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_both_solvers_find_the_best_of_all_choices(seed):
    asked, rides = riding_problem(seed)
    assume(rides)
    plans = [plan_lending(asked, solver, members=members_of(asked)) for solver in (HIGHS, CP_SAT)]
    best = best_by_hand(asked, rides)
    for plan in plans:
        assert plan.objective == pytest.approx(best, rel=1e-4, abs=1e-5)
        choice = plan.choice(asked)
        assert asked.violations(choice) == ()
        assert asked.objective(choice) == pytest.approx(plan.objective)
        riding = [rides[k].job.job_id for k in plan.rides]
        assert not set(riding) & set(plan.job_ids)
        assert len(plan.job_ids) == plan.counts.sum()
        assert plan.ride_jobs == pytest.approx(sum(rides[k].charge for k in plan.rides))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_greedy_and_groups_keep_the_rules_and_the_bound(seed):
    asked, rides = riding_problem(seed, rides=20, classes=10, max_count=4, gpus=30)
    assume(rides)
    greedy = greedy_counts(asked)
    assert asked.violations(greedy) == ()
    assert may_all_ride([rides[k] for k in np.flatnonzero(asked.rides_of(greedy))])
    best, by_groups = plan_lending(asked, HIGHS), plan_lending(asked, BY_GROUPS)
    assert may_all_ride([rides[k] for k in by_groups.rides])
    assert asked.violations(by_groups.choice(asked)) == ()
    assert asked.objective(greedy) <= best.objective + 1e-9
    assert by_groups.objective <= best.objective * (1.0 + 1e-4) + 1e-5
    assert best.objective <= by_groups.bound * (1.0 + 1e-4) + 1e-5


@settings(max_examples=25, deadline=None)
@given(seeds, st.floats(0.2, 4.0))
def test_what_rides_and_the_exact_model_say_together_keeps_to_the_budget(seed, factor):
    asked, rides = riding_problem(seed, rides=12, classes=8, max_count=4, gpus=30, requeueable_share=0.0)
    assume(rides)
    lines = replace(asked, rides=None)

    def exact(choice):
        return factor * lines.risk_jobs(asked.starts_of(choice))

    plan = plan_lending(asked, HIGHS, exact)
    assert plan.ride_jobs + exact(plan.counts) <= asked.allowed_jobs
    assert plan.exact_risk_jobs == pytest.approx(plan.ride_jobs + exact(plan.counts))
    assert asked.violations(np.concatenate([0 * plan.counts, plan.choice(asked)[asked.num_classes :]])) == ()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_candidates_that_are_worth_nothing_change_nothing(seed):
    asked, rides = riding_problem(seed)
    assume(rides)
    worthless = replace(asked, rides=replace(asked.rides, value=np.zeros(len(rides))))
    with_them, without = (plan_lending(one, HIGHS) for one in (worthless, replace(asked, rides=None)))
    assert with_them.rides == ()
    assert with_them.objective == pytest.approx(without.objective, rel=1e-6, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_more_candidates_never_lower_the_optimum(seed):
    asked = random_problem(seed, classes=6, max_count=3)
    richer, _ = riding_problem(seed, classes=6, max_count=3, rides=10)
    few, many = plan_lending(asked, HIGHS), plan_lending(richer, HIGHS)
    assert many.objective >= few.objective - 1e-4 * abs(few.objective) - 1e-6


NODES = (Node("n0", 4), Node("n1", 4))
PACKS = PlanOptions(packs=True, hosts=Hosts.CONSENTING, rates=rates, converts=False)


@st.composite
def floors(draw):
    """Guests and consenting own jobs that run, some with a rider already, and others that wait."""
    random = draw(st.randoms(use_true_random=False))
    floor, known = Floor(NODES), []
    for k in range(random.randrange(1, 7)):
        job = Job(f"r{k}", "a", float(k), random.choice((1, 2, 2, 3, 4)), model=random.choice(MODELS))
        shared = [place for place in floor.shared_places(job) if pairs_fit(floor, job, place)]
        place = random.choice(shared) if shared and random.random() < 0.3 else floor.idle_place(job.num_gpus)
        if place is not None:
            floor.enter(job, place.gpus)
            known.append((job, random.random() < 0.5, place.gpus))
    waiting = [
        Job(f"w{k}", "b", 10.0 + k, random.choice((1, 1, 2, 3, 4)), model=random.choice(MODELS))
        for k in range(random.randrange(2, 8))
    ]
    return floor, known, waiting, random


def pairs_fit(floor, job, place) -> bool:
    models = [floor.tenants[one].job.model for one in place.partners()]
    return all(rates(job.model, other) and rates(other, job.model) for other in models)


def options_on(floor, waiting, random) -> list[Ride]:
    """All that a waiting job may do beside one host, at prices drawn at random."""
    found = []
    for job in waiting:
        for place in floor.shared_places(job):
            host = floor.tenants[place.partners()[0]].job
            is_beside = set(place.beside) == {host.job_id} and job.num_gpus <= host.num_gpus
            if is_beside and pairs_fit(floor, job, place):
                value = random.uniform(0.1, 3.0)
                found.append(Ride(job, host, place.gpus, 0.8, 0.7, 0.9, 1.0, 0.8, value, 0.0))
    return found


@settings(max_examples=60, deadline=None)
@given(floors())
def test_a_plan_with_rides_passes_the_independent_checker(scene):
    floor, known, waiting, random = scene
    options = options_on(floor, waiting, random)
    idle = floor.idle_gpus()
    classes = [(job.num_gpus, 1, random.uniform(0.1, 3.0), 600.0) for job in waiting]
    members = tuple((job.job_id,) for job in waiting)
    room = {name: 4 - len(tenant.partners()) for name, tenant in floor.tenants.items()}
    asked = problem(classes, idle_gpus=idle, rides=ride_rows(options, members, room=room))
    plan = plan_lending(asked, HIGHS, members=members)
    jobs = {job.job_id: job for job in waiting}
    places = {options[k].job.job_id: options[k].gpus for k in plan.rides}
    for job_id in plan.job_ids:
        place = floor.idle_place(jobs[job_id].num_gpus)
        if place is not None:  # counts are planned here, nodes are not
            floor.enter(jobs[job_id], place.gpus)
            places[job_id] = place.gpus
    said = Plan(
        starts=tuple(Start(jobs[job_id], True) for job_id in places),
        placements=tuple(Placement(job_id, gpus) for job_id, gpus in places.items()),
    )
    line = [
        Known(job, Standing.OWN if is_own else Standing.GUEST, gpus, may_share=True)
        for job, is_own, gpus in known
    ]
    # pool b has no GPUs of its own: all of its jobs are beyond their lane
    state = state_of(100.0, idle, {"a": 8, "b": 0}, [*line, *(Known(job) for job in waiting)], NODES)
    assert check_plan(state, said, PACKS) == ()


def test_the_scene_of_the_checker_has_rides_to_judge():
    """The same judge refuses a second rider on a GPU."""
    host, first, second = (Job(name, "a", 0.0, 1, model=MODELS[0]) for name in ("h", "x", "y"))
    gpu = Gpu("n0", 0)
    line = [Known(host, Standing.GUEST, (gpu,), may_share=True), Known(first), Known(second)]
    state = state_of(0.0, 7, {"a": 0}, line, NODES)
    both = Plan(
        starts=(Start(first, True), Start(second, True)),
        placements=(Placement("x", (gpu,)), Placement("y", (gpu,))),
    )
    assert check_plan(state, both, PACKS)
