"""Reference starts ahead, and how long a lane start may wait for them."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import instances, job

from domain.jobs import submit_order
from solver.reference import fcfs_starts
from solver.shadow import Shadow
from solver.tolerance import Tolerance


def told(quotas, jobs, running=()):
    """A reference of jobs that were all submitted at 0; those running have started in reality too."""
    shadow = Shadow(quotas)
    for one in jobs:
        shadow.submitted(one, 0.0)
    for one in running:
        shadow.started(one, 0.0)
    return shadow


def tolerance_of(shadow, quotas, work_s):
    return Tolerance(shadow, list(quotas), lambda one: work_s.get(one.job_id, 0.0))


def test_jobs_are_due_at_their_start_in_the_reference_or_when_they_would_start_there():
    """Pool a has 2 GPUs: a runs for 100 s at least, b follows, then c with a's other GPU."""
    quotas = {"a": 2, "b": 1}
    a, b, c = job("a", num_gpus=2), job("b", num_gpus=1), job("c", num_gpus=1)
    d = job("d", num_gpus=2)
    shadow = told(quotas, [a, b, c, d], running=[a])
    tolerance = tolerance_of(shadow, quotas, {"a": 100.0, "b": 50.0, "c": 70.0, "d": 10.0})
    tolerance.refresh(10.0)
    assert tolerance.due_by_s(a) == 0.0, "started there"
    assert [tolerance.due_by_s(one) for one in (b, c, d)] == [100.0, 100.0, 170.0]
    assert tolerance.tail_slack_s(10.0).tolist() == [170.0, 0.0], "after d: 180 s, and pool b is empty"


def test_who_came_after_the_look_is_due_after_all_of_them_and_never_before_now():
    quotas = {"a": 1, "b": 1}
    shadow = told(quotas, [job("a")], running=[job("a")])
    tolerance = tolerance_of(shadow, quotas, {"a": 400.0})
    tolerance.refresh(0.0)
    shadow.submitted(job("late", 200.0), 200.0)
    shadow.submitted(job("elsewhere", 200.0, pool="b"), 200.0)
    tolerance.refresh(200.0)
    assert tolerance.due_by_s(job("late", 200.0)) == 400.0
    assert tolerance.due_by_s(job("elsewhere", 200.0, pool="b")) == 200.0


def test_it_looks_again_after_five_minutes():
    quotas = {"a": 1}
    shadow = told(quotas, [job("a"), job("b")], running=[job("a")])
    work_s = {"a": 100.0}
    tolerance = tolerance_of(shadow, quotas, work_s)
    tolerance.refresh(0.0)
    work_s["a"] = 1000.0
    tolerance.refresh(299.0)
    assert tolerance.due_by_s(job("b")) == 299.0, "it has not started there, so it is not due before now"
    tolerance.refresh(300.0)
    assert tolerance.due_by_s(job("b")) == 1000.0


def test_a_line_of_more_than_two_days_is_not_followed_to_its_end():
    quotas = {"a": 1}
    jobs = [job(f"j{k}") for k in range(10)]
    tolerance = tolerance_of(
        told(quotas, jobs, jobs[:1]), quotas, dict.fromkeys((one.job_id for one in jobs), 86_400.0)
    )
    tolerance.refresh(0.0)
    assert tolerance.due_by_s(jobs[9]) == 3 * 86_400.0 == tolerance.tail_slack_s(0.0)[0]


def forecast(shadow, pool, now_s, work_s):
    found = list(shadow.forecast_starts(pool, now_s, lambda one: work_s[one.job_id]))
    return {one.job_id: start_s for one, start_s in found if one is not None}, found


@settings(max_examples=60, deadline=None, derandomize=True)
@given(instances(max_jobs=12, min_duration_s=1), st.integers(0, 25))
def test_with_known_lives_and_nobody_else_to_come_the_forecast_is_what_the_reference_does(instance, now_s):
    """Whoever came by now; all of them run in reality from their submit, as they may where GPUs are many."""
    jobs, durations, quotas = instance
    here = sorted((one for one in jobs if one.submit_s <= now_s), key=submit_order)
    shadow = live(here, durations, quotas, now_s)
    wanted = fcfs_starts(here, durations, quotas)
    for pool in quotas:
        starts, found = forecast(shadow, pool, now_s, durations)
        waiting = {one.job_id for one in here if one.pool == pool and wanted[one.job_id] > now_s}
        assert {job_id: wanted[job_id] for job_id in waiting} == {
            job_id: start_s for job_id, start_s in starts.items() if job_id in waiting
        }
        last, tail_s = found[-1]
        assert last is None
        one_more = job("zz", float(now_s), pool=pool)
        after = fcfs_starts([*here, one_more], durations | {"zz": 1.0}, quotas)
        assert tail_s == after["zz"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(instances(max_jobs=12, min_duration_s=1), st.integers(0, 25), st.floats(0.0, 1.0))
def test_with_lives_taken_to_be_short_nobody_is_due_later_than_he_turns_out_to_be(instance, now_s, share):
    """Also where others come later."""
    jobs, durations, quotas = instance
    shadow = live(
        sorted((one for one in jobs if one.submit_s <= now_s), key=submit_order), durations, quotas, now_s
    )
    tolerance = tolerance_of(shadow, quotas, {job_id: share * s for job_id, s in durations.items()})
    tolerance.refresh(float(now_s))
    truth = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    for one in jobs:
        if one.submit_s <= now_s:
            assert tolerance.due_by_s(one) <= max(truth[one.job_id], now_s)


def live(here, durations, quotas, now_s):
    """Told the facts up to `now_s`, with each job run in reality from its submit on."""
    shadow = Shadow(quotas)
    facts = [(one.submit_s, 1, one) for one in here]
    facts += [(one.submit_s + durations[one.job_id], 0, one) for one in here]
    facts = [fact for fact in facts if fact[0] <= now_s]
    for at_s, group in itertools.groupby(
        sorted(facts, key=lambda fact: (*fact[:2], fact[2].job_id)), lambda f: f[0]
    ):
        for _, is_submit, one in group:
            if is_submit:
                shadow.submitted(one, at_s)
                shadow.started(one, at_s)
            else:
                shadow.ended(one, at_s)
    shadow.advance(float(now_s))
    return shadow


def test_the_tail_waits_as_long_as_a_real_line_makes_it_wait():
    """Three of 4 GPUs are held for 100, 200 and 300 s; then 2 and 4 are wanted, then one."""
    quotas = {"a": 4}
    held = [job(f"h{k}") for k in range(3)]
    line = [job("two", 1.0, 2), job("four", 2.0, 4)]
    durations = {"h0": 100.0, "h1": 200.0, "h2": 300.0, "two": 40.0, "four": 50.0}
    shadow = told(quotas, held, held)
    for one in line:
        shadow.submitted(one, one.submit_s)
    tolerance = tolerance_of(shadow, quotas, durations)
    tolerance.refresh(10.0)
    after = fcfs_starts([*held, *line, job("new", 10.0)], durations | {"new": 1.0}, quotas)
    assert tolerance.tail_slack_s(10.0)[0] == after["new"] - 10.0 == pytest.approx(340.0)
    assert math.isfinite(tolerance.due_by_s(line[1]))
    assert tolerance.due_by_s(line[1]) == after["four"] == 300.0
