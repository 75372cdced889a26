"""`planned-perfect` on small instances: nobody is slowed, and it waits no longer than its plan says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import instances, job, run

from domain.errors import SettingError
from domain.jobs import submit_order
from solver.oracle.instance import Instance
from solver.oracle.intervals import solve_intervals
from solver.oracle.search import search
from solver.policies.base import parse_settings
from solver.policies.planned_perfect import PlannedPerfectSettings
from solver.reference import fcfs_starts


@settings(max_examples=60, deadline=None)
@given(instances(max_jobs=16), st.sampled_from(["0", "5"]))
def test_it_slows_nobody(instance, moves):
    jobs, durations, quotas = instance
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    starts = run("planned-perfect", jobs, durations, quotas, moves=moves).first_starts()
    assert all(starts[one.job_id] <= reference[one.job_id] + 1e-4 for one in jobs)


@settings(max_examples=25, deadline=None)
@given(instances(max_jobs=16, min_duration_s=1))
def test_it_does_as_planned(instance):
    jobs, durations, quotas = instance
    planned_s = search(Instance.of(*instance), moves=5)
    assert run("planned-perfect", jobs, durations, quotas, moves="5").first_starts() == planned_s


def test_it_lets_an_own_job_wait_for_those_of_others_as_long_as_the_promise_allows():
    """b1 is reached by its lane at once; it has time until 9 s, as its pool is busy without sharing."""
    jobs = [job("a1", 0, 2), job("b0", 0, 1, pool="b"), job("b1", 1, 1, pool="b")]
    jobs += [job(f"a{k}", 1, 1) for k in range(2, 5)]
    durations = {"a1": 2.0, "b0": 9.0, "b1": 8.0, "a2": 1.0, "a3": 1.0, "a4": 1.0}
    quotas = {"a": 2, "b": 1}
    schedule = run("planned-perfect", jobs, durations, quotas)
    asked = Instance.of(jobs, durations, quotas)
    assert asked.waiting_s(schedule.first_starts()) == solve_intervals(asked, 1.0).waiting_s


def test_settings_out_of_range_are_refused():
    with pytest.raises(SettingError, match="moves is -1, must lie in"):
        parse_settings("planned-perfect", PlannedPerfectSettings, {"moves": "-1"})
