"""Both exact solvers, and the search they begin with, against all schedules there are."""

import itertools
import math
from dataclasses import replace
from unittest import mock

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import instances

from solver.oracle import periods
from solver.oracle.cuts import cuts
from solver.oracle.instance import Grid, Instance
from solver.oracle.intervals import solve_intervals
from solver.oracle.periods import solve_by_periods
from solver.oracle.question import prepare
from solver.oracle.result import EndedBy, Limits, Status, checked
from solver.oracle.search import search
from solver.oracle.time_indexed import by_starts, solve_time_indexed

LIMITS = Limits(work=5.0, wall_s=60.0, moves=5)


@st.composite
def small(draw):
    """Few jobs and short times: a handful of schedules."""
    jobs, durations, quotas = draw(instances(max_jobs=4))
    jobs = [replace(job, submit_s=job.submit_s % 4) for job in jobs]
    return jobs, {job_id: 1.0 + duration % 5 for job_id, duration in durations.items()}, quotas


def least_waiting(instance):
    """By trying all starts in whole seconds."""
    jobs = instance.jobs
    ranges = [range(int(job.submit_s), int(instance.latest_s[job.job_id]) + 1) for job in jobs]
    least = math.inf
    for starts in itertools.product(*ranges):
        waiting = sum(starts) - sum(job.submit_s for job in jobs)
        if waiting < least and fits(instance, starts):
            least = waiting
    return least


def fits(instance, starts):
    spans = [
        (s, s + instance.durations_s[j.job_id], j.num_gpus)
        for j, s in zip(instance.jobs, starts, strict=True)
    ]
    return all(
        sum(width for begin, end, width in spans if begin <= at < end) <= instance.capacity_gpus
        for at, _, _ in spans
    )


@settings(max_examples=40, deadline=None)
@given(small(), st.sampled_from([0.0, 2.0]))
def test_both_find_the_least_waiting(instance, tolerance_s):
    asked = Instance.of(*instance, tolerance_s=tolerance_s)
    least = least_waiting(asked)
    for solve in (solve_intervals, solve_time_indexed):
        result = solve(asked, 1.0, LIMITS)
        assert result.status is Status.OPTIMAL
        assert result.waiting_s == result.bound_s == least


@settings(max_examples=40, deadline=None)
@given(instances(max_jobs=12))
def test_period_by_period_is_as_good_as_the_whole(instance):
    """From a schedule that is as bad as they come, and without joining small periods first."""
    asked = Instance.of(*instance)
    assume(asked.jobs)
    question = prepare(asked, 1.0, LIMITS)
    bad = search(asked, moves=0)
    question = replace(question, grid=Grid.of(asked, 1.0), first=question.grid.steps(asked, bad))
    whole = by_starts(question, LIMITS)
    with mock.patch.object(periods, "_SMALL_JOBS", 0):
        found = solve_by_periods(question, LIMITS, by_starts)
    assert whole.ended_by is found.ended_by is EndedBy.PROOF
    assert whole.bound == found.bound == question.cost(found.starts)
    assert question.fits(found.starts)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_cuts_hold_for_all_jobs_that_fit_together(data):
    width = np.array(data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=8)))
    shares = data.draw(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]), min_size=width.size, max_size=8))
    capacity = data.draw(st.integers(1, 16))
    running = np.resize(np.array(shares), width.size)
    for cut in cuts(running[:, None], width, capacity):
        assert cut.weights @ running > cut.limit
        for chosen in itertools.product([0, 1], repeat=width.size):
            if width @ np.array(chosen) <= capacity:
                assert cut.weights @ np.array(chosen) <= cut.limit + 1e-9


@settings(max_examples=25, deadline=None)
@given(small(), st.data())
def test_more_gpus_never_make_anybody_wait_longer(instance, data):
    asked = Instance.of(*instance)
    fewer = replace(asked, capacity_gpus=data.draw(st.integers(1, asked.capacity_gpus)))
    more, less = (solve_time_indexed(one, 1.0, LIMITS) for one in (asked, fewer))
    assert solve_intervals(fewer, 1.0, LIMITS).waiting_s == less.waiting_s
    assert less.status is Status.INFEASIBLE or more.waiting_s <= less.waiting_s


@settings(max_examples=50, deadline=None)
@given(instances(), st.sampled_from([0, 20]))
def test_a_schedule_found_by_search_keeps_every_rule_and_slows_nobody(instance, moves):
    jobs, durations, quotas = instance
    asked = Instance.of(jobs, durations, quotas)
    starts_s = search(asked, moves=moves)
    assert checked(asked, starts_s, bound_s=0.0, ended_by=EndedBy.WORK_LIMIT).starts_s == starts_s
    assert search(asked, moves=moves) == starts_s
    ends = {job_id: start_s + durations[job_id] for job_id, start_s in starts_s.items()}
    assert {starts_s[job.job_id] for job in jobs} <= {job.submit_s for job in jobs} | set(ends.values())


@settings(max_examples=25, deadline=None)
@given(instances())
def test_search_and_its_moves_only_shorten_the_waiting(instance):
    asked = Instance.of(*instance)
    reference_s = asked.waiting_s(asked.latest_s)
    forward_s, improved_s = (asked.waiting_s(search(asked, moves=moves)) for moves in (0, 30))
    assert improved_s <= reference_s
    assert forward_s <= reference_s
    assert asked.waiting_s(search(asked, moves=30, heat=0.5)) <= forward_s
    assert improved_s <= forward_s


@settings(max_examples=25, deadline=None)
@given(instances(max_jobs=10), st.randoms(use_true_random=False))
def test_the_order_of_the_input_means_nothing(instance, rng):
    jobs, durations, quotas = instance
    asked = Instance.of(jobs, durations, quotas)
    mixed = Instance.of(rng.sample(jobs, len(jobs)), durations, quotas)
    assert search(mixed, moves=10) == search(asked, moves=10)
    assert solve_intervals(mixed, 1.0, LIMITS) == solve_intervals(asked, 1.0, LIMITS)
