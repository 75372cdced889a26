"""The two theorems of the promise, over random instances, judged by the independent check."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support import instances, run

from domain.jobs import submit_order
from solver.reference import fcfs_starts

reclaim_settings = st.fixed_dictionaries(
    {
        "requeueable": st.sampled_from(("0", "0.3", "0.6", "1")),
        "order": st.sampled_from(("fifo", "shortest")),
        "victim": st.sampled_from(("youngest", "oldest", "least-work")),
    }
)


@settings(max_examples=300, deadline=None)
@given(instances(), reclaim_settings)
def test_a_job_becomes_own_no_later_than_it_starts_in_the_reference(instance, chosen):
    jobs, durations, quotas = instance
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    for stretch in run("reclaim", jobs, durations, quotas, **chosen).stretches:
        if stretch.own_from_s is not None:
            assert stretch.own_from_s <= reference[stretch.job_id]


@settings(max_examples=300, deadline=None)
@given(instances(), reclaim_settings)
def test_with_requeueable_guests_nobody_is_slowed_whatever_the_forecasts(instance, chosen):
    jobs, durations, quotas = instance
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    ends = run("reclaim", jobs, durations, quotas, **chosen).last_ends()
    for one in jobs:
        assert ends[one.job_id] <= reference[one.job_id] + durations[one.job_id]


@settings(max_examples=100, deadline=None)
@given(instances())
def test_fcfs_is_the_reference_and_reclaim_lends_nothing_when_nobody_may_be_sent_back(instance):
    jobs, durations, quotas = instance
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    assert run("fcfs", jobs, durations, quotas).first_starts() == reference
    assert run("reclaim", jobs, durations, quotas, requeueable="0").first_starts() == reference


@settings(max_examples=200, deadline=None)
@given(instances())
def test_lending_to_requeueable_guests_starts_nobody_later_and_keeps_no_gpu_from_them(instance):
    """At every instant after the decision, no requeueable job waits that would fit into the idle GPUs."""
    jobs, durations, quotas = instance
    schedule = run("reclaim", jobs, durations, quotas)
    by_id = {one.job_id: one for one in jobs}
    instants = sorted({s.start_s for s in schedule.stretches} | {s.end_s for s in schedule.stretches})
    ends = schedule.last_ends()
    for now_s in instants:
        running = {s.job_id for s in schedule.stretches if s.start_s <= now_s < s.end_s}
        idle = sum(quotas.values()) - sum(by_id[job_id].num_gpus for job_id in running)
        waits = [j for j in jobs if j.submit_s <= now_s < ends[j.job_id] and j.job_id not in running]
        assert all(one.num_gpus > idle for one in waits)
