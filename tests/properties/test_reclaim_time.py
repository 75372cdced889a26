"""Where GPUs of guests that are sent back are free only after a while, the promise holds all the same."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import run

from domain.jobs import Job
from solver.check import CheckOptions, check

FREELY = {"requeueable": "1", "eps": "0", "finish": "1"}
LENDERS = {"anticipatory": FREELY, "planned": FREELY, "reclaim": {}}


@st.composite
def instances(draw):
    """Small clusters with much lending: narrow and wide jobs, busy pools beside idle ones."""
    quotas = {f"p{k}": draw(st.integers(1, 5)) for k in range(draw(st.integers(2, 4)))}
    jobs, lengths_s = [], {}
    for k in range(draw(st.integers(1, 30))):
        pool = draw(st.sampled_from(sorted(quotas)))
        width = draw(st.sampled_from((1, quotas[pool], draw(st.integers(1, quotas[pool])))))
        saves = {"checkpoint_s": draw(st.sampled_from((None, 10.0)))}
        saves["restart_s"] = draw(st.sampled_from((None, 4.0)))
        jobs.append(Job(f"j{k:02}", pool, float(draw(st.integers(0, 240))), width, requeue_u=0.0, **saves))
        lengths_s[jobs[-1].job_id] = float(draw(st.integers(0, 90)))
    return jobs, lengths_s, quotas


def faults(policy, instance, reclaim_s, **chosen):
    jobs, lengths_s, quotas = instance
    schedule = run(policy, *instance, checks_plans=True, reclaim_s=str(reclaim_s), **chosen)
    options = CheckOptions(requeueable_share=1.0, must_keep_promise=True, reclaim_s=reclaim_s)
    return check(jobs, lengths_s, quotas, schedule.stretches, options=options).faults


@pytest.mark.parametrize("policy", LENDERS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(instances(), st.sampled_from((1.0, 7.0, 20.0, 25.0, 31.0, 45.0, 60.0)))
def test_nobody_is_slowed_however_often_own_jobs_wait_for_guests(policy, instance, reclaim_s):
    assert faults(policy, instance, reclaim_s, **LENDERS[policy]) == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(instances(), st.sampled_from((61.0, 200.0)))
def test_where_even_one_wait_slows_nobody_is_lent_to_without_a_budget(instance, reclaim_s):
    assert faults("anticipatory", instance, reclaim_s, **FREELY) == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(instances(), st.sampled_from((0.5, 20.0, 200.0)))
def test_with_guests_that_run_to_their_end_every_plan_is_lawful_and_every_job_ends(instance, reclaim_s):
    jobs, lengths_s, quotas = instance
    half = [replace(job, requeue_u=0.0 if k % 2 else 0.9) for k, job in enumerate(jobs)]
    chosen = {"requeueable": "0.5", "eps": "1", "finish": "1", "reclaim_s": str(reclaim_s)}
    schedule = run("anticipatory", half, lengths_s, quotas, checks_plans=True, **chosen)
    options = CheckOptions(requeueable_share=0.5, reclaim_s=reclaim_s)
    assert check(half, lengths_s, quotas, schedule.stretches, options=options).faults == ()
