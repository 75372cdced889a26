"""What holds for every lending plan, over random instances."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lending_cases import alive_shares, best_by_trying, random_problem

from solver.lending.classes import Candidates, group
from solver.lending.greedy import greedy_counts
from solver.lending.incremental import Arrival, OpenPlan, Refusal
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import PlanStatus
from solver.lending.solve import Limits
from solver.lending.value import FAIRNESS, PoolsNow, ValueSettings, fair_grants

HIGHS = HighsSolver(Limits(gap=0.0), is_isolated=False)
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_on_tiny_instances_the_plan_is_the_best_of_all_choices(seed):
    asked = random_problem(seed)
    plan = plan_lending(asked, HIGHS)
    assert not asked.violations(plan.counts)
    # the program keeps a hundred-thousandth of the budget back
    assert plan.objective == pytest.approx(best_by_trying(asked), rel=1e-4, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_every_plan_keeps_to_its_rows_and_is_no_worse_than_greedy(seed):
    asked = random_problem(seed, classes=15, max_count=6, gpus=40)
    plan = plan_lending(asked, HIGHS)
    greedy = greedy_counts(asked)
    assert not asked.violations(plan.counts)
    assert not asked.violations(greedy)
    assert asked.objective(greedy) <= plan.objective + 1e-9
    assert plan.objective <= plan.bound * (1 + 1e-4) + 1e-6


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 8))
def test_more_idle_gpus_never_lower_the_proven_optimum(seed, more):
    asked = random_problem(seed, classes=8, max_count=4, gpus=20)
    fewer = plan_lending(asked, HIGHS)
    richer = plan_lending(replace(asked, idle_gpus=asked.idle_gpus + more), HIGHS)
    assert richer.bound >= fewer.objective - 1e-6
    assert richer.objective >= fewer.objective - 1e-4 * abs(fewer.objective) - 1e-6


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_without_a_budget_only_those_who_can_be_sent_back_are_lent_to(seed):
    asked = random_problem(seed, budget_jobs=0.0)
    for solver in (HIGHS, None):
        plan = plan_lending(asked, solver)
        assert not plan.counts[~asked.is_requeueable].any()


def candidates(seed, jobs=30) -> Candidates:
    rng = np.random.default_rng(seed)
    width = rng.choice([1, 2, 4], size=jobs)
    median_s = 2.0 ** rng.uniform(6, 16, size=jobs)
    return Candidates(
        job_ids=tuple(f"j{k:03}" for k in range(jobs)),
        submit_s=rng.integers(0, 10, size=jobs).astype(float),
        pool=rng.integers(0, 3, size=jobs),
        width_gpus=width,
        median_s=median_s,
        tail_s=median_s * 2.0 ** rng.uniform(1, 3, size=jobs),
        value=rng.uniform(0.5, 4.0, size=jobs),
        alive_gpus=width[:, None] * alive_shares(median_s),
        is_requeueable=rng.random(jobs) < 0.3,
    )


def permuted(given_jobs: Candidates, order) -> Candidates:
    columns = (
        "submit_s",
        "pool",
        "width_gpus",
        "median_s",
        "tail_s",
        "value",
        "alive_gpus",
        "is_requeueable",
    )
    moved = {name: getattr(given_jobs, name)[order] for name in columns}
    return replace(given_jobs, job_ids=tuple(given_jobs.job_ids[k] for k in order), **moved)


def planned(jobs: Candidates, seed):
    classes = group(jobs, max_classes=20)
    base = random_problem(seed, gpus=30)
    asked = replace(
        base,
        pool=classes.pool,
        width_gpus=classes.width_gpus,
        count=classes.count,
        value=classes.value,
        alive_gpus=classes.alive_gpus,
        is_requeueable=classes.is_requeueable,
    )
    return plan_lending(asked, HIGHS, members=classes.members)


@settings(max_examples=25, deadline=None)
@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_the_jobs_changes_nothing_and_the_same_seed_gives_the_same_plan(seed, random):
    jobs = candidates(seed)
    order = list(range(len(jobs.job_ids)))
    random.shuffle(order)
    plan, other = planned(jobs, seed), planned(permuted(jobs, order), seed)
    assert plan.job_ids == other.job_ids
    assert (plan.objective, plan.bound, plan.work) == (other.objective, other.bound, other.work)
    assert plan.status in (PlanStatus.OPTIMAL, PlanStatus.EMPTY)


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 40))
def test_classes_keep_every_job_once_and_alike_jobs_only(seed, max_classes):
    jobs = candidates(seed)
    classes = group(jobs, max_classes)
    names = [job_id for ids in classes.members for job_id in ids]
    assert sorted(names) == sorted(jobs.job_ids)
    place = {job_id: k for k, job_id in enumerate(jobs.job_ids)}
    for row, ids in enumerate(classes.members):
        rows = [place[job_id] for job_id in ids]
        assert len(rows) == classes.count[row]
        assert set(jobs.pool[rows]) == {classes.pool[row]}
        assert set(jobs.width_gpus[rows]) == {classes.width_gpus[row]}
        assert set(jobs.is_requeueable[rows]) == {classes.is_requeueable[row]}
        assert classes.alive_gpus[row] == pytest.approx(jobs.alive_gpus[rows].mean(axis=0))
        keys = [(-jobs.value[k], jobs.submit_s[k], jobs.job_ids[k]) for k in rows]
        assert keys == sorted(keys)


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 8), st.floats(0.0, 60.0))
def test_max_min_fair_grants_raise_the_lowest_first(seed, pools, idle_gpus):
    rng = np.random.default_rng(seed)
    now = PoolsNow(
        quota_gpus=rng.integers(1, 20, pools).astype(float),
        used_gpus=rng.integers(0, 20, pools).astype(float),
        asked_gpus=rng.integers(0, 20, pools).astype(float),
        idle_gpus=idle_gpus,
    )
    grants = fair_grants(now)
    assert (grants >= 0.0).all()
    assert (grants <= now.asked_gpus + 1e-9).all()
    assert grants.sum() == pytest.approx(min(idle_gpus, now.asked_gpus.sum()))
    use = (now.used_gpus + grants) / now.quota_gpus
    hungry = grants < now.asked_gpus - 1e-9
    fed = grants > 1e-9
    if hungry.any() and fed.any():
        assert use[fed].max() <= use[hungry].min() + 1e-9


@settings(max_examples=20, deadline=None)
@given(seeds, st.sampled_from(sorted(FAIRNESS)))
def test_every_rule_of_fairness_makes_a_problem_whose_plan_is_the_best(seed, rule):
    rng = np.random.default_rng(seed)
    asked = random_problem(seed)
    now = PoolsNow(
        quota_gpus=np.full(3, 8.0),
        used_gpus=rng.integers(0, 9, 3).astype(float),
        asked_gpus=np.bincount(asked.pool, weights=asked.width_gpus * asked.count, minlength=3),
        idle_gpus=asked.idle_gpus,
    )
    terms = FAIRNESS[rule](now, ValueSettings(), 1.0)
    asked = replace(asked, value=asked.value * terms.factor[asked.pool], utility=terms.utility)
    plan = plan_lending(asked, HIGHS)
    assert plan.objective == pytest.approx(best_by_trying(asked), rel=1e-4, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(seeds, st.lists(st.integers(0, 99), min_size=1, max_size=25))
def test_events_never_promise_more_than_the_plan_they_are_answered_from(seed, events):
    """Arrivals and ends in any order: the budget holds, and what is refused for it would have broken it."""
    asked = random_problem(seed, classes=8, gpus=40)
    plan = plan_lending(asked, HIGHS)
    members = tuple(tuple(f"c{one}-{k}" for k in range(count)) for one, count in enumerate(asked.count))
    opened = OpenPlan(asked, plan.counts, members)
    standing = {job_id: int(job_id[1 : job_id.index("-")]) for job_id in named(members, plan.counts)}
    for number, event in enumerate(events):
        before, idle = opened.left_jobs, opened.idle_gpus
        if event < 30 and standing:
            gone = sorted(standing)[event % len(standing)]
            opened.ended(gone)
            del standing[gone]
            continue
        one = event % asked.num_classes
        arrival = Arrival(
            f"new{number}",
            int(asked.width_gpus[one]),
            float(asked.value[one]),
            asked.alive_gpus[one],
            bool(asked.is_requeueable[one]),
        )
        verdict = opened.arrived(arrival)
        if verdict.starts:
            standing[arrival.job_id] = one
            assert opened.left_jobs == pytest.approx(before - verdict.charge_jobs)
        elif verdict.refusal is Refusal.OVER_BUDGET:
            assert verdict.charge_jobs > before
            assert (opened.left_jobs, opened.idle_gpus) == (before, idle)
    counts = np.bincount(list(standing.values()), minlength=asked.num_classes)
    replan = replace(asked, count=counts)
    assert not replan.violations(counts)
    assert opened.spent_jobs == pytest.approx(replan.risk_jobs(counts), abs=1e-9)


def named(members, counts):
    return [job_id for ids, count in zip(members, counts.tolist(), strict=True) for job_id in ids[:count]]


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_exact_risk_of_a_plan_keeps_to_the_budget_whatever_the_lines_say(seed):
    asked = random_problem(seed, classes=10, max_count=5, gpus=40, requeueable_share=0.0)
    factor = float(np.random.default_rng(seed).uniform(0.2, 4.0))

    def exact_risk(counts):
        return factor * asked.risk_jobs(counts)

    plan = plan_lending(asked, HIGHS, exact_risk)
    assert exact_risk(plan.counts) <= asked.allowed_jobs
    assert plan.counts @ asked.width_gpus <= asked.idle_gpus
    assert (plan.counts <= asked.count).all()
