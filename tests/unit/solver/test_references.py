"""Worlds without sharing: by hand, against each other, and against those that are built another way."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import instances, job, run

from domain.jobs import Job, submit_order
from solver import check, reference
from solver.references import DEFAULT, REFERENCES

QUOTAS = {"a": 4}
LENGTHS = {"first": 10.0, "wide": 10.0, "narrow": 5.0, "long": 50.0}
JOBS = [job("first", 0.0, 3), job("wide", 1.0, 4), job("narrow", 2.0, 1), job("long", 3.0, 1)]

every_reference = pytest.mark.parametrize("name", sorted(REFERENCES))


def starts(name: str, jobs: list[Job], durations_s=LENGTHS, quotas=QUOTAS, estimates_s=None):
    return REFERENCES[name].starts(
        jobs, durations_s, quotas, durations_s if estimates_s is None else estimates_s
    )


def fixed(max_examples):
    return settings(max_examples=max_examples, deadline=None, derandomize=True)


def test_first_come_first_served_waits_for_the_wide_job():
    assert starts("fcfs", JOBS) == {"first": 0.0, "wide": 10.0, "narrow": 20.0, "long": 20.0}


def test_backfilling_lets_past_what_ends_before_the_wide_job_can_start():
    assert starts("backfill", JOBS) == {"first": 0.0, "wide": 10.0, "narrow": 2.0, "long": 20.0}


def test_backfilling_rests_on_estimates():
    believed = {**LENGTHS, "narrow": 9.0, "long": 2.0}
    assert starts("backfill", JOBS, estimates_s=believed) == {
        "first": 0.0,
        "wide": 53.0,
        "narrow": 63.0,
        "long": 3.0,
    }


def test_backfilling_takes_what_the_reservation_leaves_over():
    jobs = [job("first", 0.0, 3), job("wide", 1.0, 3), job("long", 3.0, 1)]
    assert starts("backfill", jobs)["long"] == 3.0


def test_what_outlives_its_estimate_is_taken_to_need_twice_as_long():
    jobs = [job("first", 0.0, 3), job("wide", 1.0, 4), job("narrow", 6.0, 1)]
    believed = {**LENGTHS, "first": 5.0, "narrow": 4.5}
    assert starts("backfill", jobs, estimates_s=believed)["narrow"] == 20.0
    assert starts("backfill", jobs, estimates_s={**believed, "narrow": 4.0})["narrow"] == 6.0


def test_a_higher_priority_comes_first_and_stops_nobody():
    jobs = [JOBS[0], JOBS[1], replace(JOBS[3], priority=1.0), replace(JOBS[2], priority=2.0)]
    assert starts("priority", jobs) == {"first": 0.0, "narrow": 2.0, "long": 7.0, "wide": 57.0}


def test_no_priority_counts_as_0():
    jobs = [job("first", 0.0, 4), replace(job("wide", 1.0, 4), priority=-1.0), job("long", 2.0, 4)]
    assert starts("priority", jobs) == {"first": 0.0, "long": 10.0, "wide": 60.0}


@every_reference
def test_a_job_wider_than_its_quota_has_no_start_and_blocks_nobody(name):
    assert starts(name, [job("wide", 0.0, 5), job("narrow", 1.0, 1)]) == {"narrow": 1.0}


@every_reference
@fixed(40)
@given(instances(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(name, instance, rng):
    jobs, durations, quotas = instance
    shuffled = rng.sample(jobs, len(jobs))
    assert starts(name, shuffled, durations, quotas) == starts(name, jobs, durations, quotas)


@every_reference
@fixed(60)
@given(instances())
def test_every_job_starts_inside_its_quota(name, instance):
    jobs, durations, quotas = instance
    found = starts(name, jobs, durations, quotas)
    assert found.keys() == durations.keys()
    assert all(found[one.job_id] >= one.submit_s for one in jobs)
    for now_s in set(found.values()):
        for pool, quota in quotas.items():
            alive = [one for one in jobs if one.pool == pool and is_alive(one, found, durations, now_s)]
            assert sum(one.num_gpus for one in alive) <= quota


def is_alive(one: Job, found, durations, now_s: float) -> bool:
    return found[one.job_id] <= now_s < found[one.job_id] + durations[one.job_id]


@fixed(100)
@given(instances())
def test_first_come_first_served_is_that_of_the_judge_and_of_the_shadow(instance):
    jobs, durations, quotas = instance
    found = starts("fcfs", jobs, durations, quotas)
    assert found == check.fcfs_starts(jobs, durations, quotas)
    assert found == reference.fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)


@fixed(60)
@given(instances())
def test_equal_priorities_are_first_come_first_served(instance):
    jobs, durations, quotas = instance
    alike = [replace(one, priority=3.0) for one in jobs]
    assert starts("priority", alike, durations, quotas) == starts("fcfs", jobs, durations, quotas)


@fixed(60)
@given(instances())
def test_backfilling_is_that_of_the_policy(instance):
    jobs, durations, quotas = instance
    assert (
        starts("backfill", jobs, durations, quotas) == run("backfill", jobs, durations, quotas).first_starts()
    )


@fixed(100)
@given(instances(min_duration_s=1))
def test_with_true_estimates_no_head_starts_after_its_reservation(instance):
    """Whoever is next in line starts no later than the others that run by then allow."""
    jobs, durations, quotas = instance
    found = starts("backfill", jobs, durations, quotas)
    for pool, quota in quotas.items():
        line = sorted((one for one in jobs if one.pool == pool), key=submit_order)
        for place, head in enumerate(line):
            earlier = {one.job_id for one in line[:place]}
            since_s = max([head.submit_s, *(found[one] for one in earlier)])
            before = [
                one
                for one in line
                if found[one.job_id] < since_s or (found[one.job_id] == since_s and one.job_id in earlier)
            ]
            assert found[head.job_id] <= reserved_s(head, before, found, durations, quota, since_s)


def reserved_s(head: Job, before, found, durations, quota: int, since_s: float) -> float:
    """The earliest instant from `since_s` on at which the head fits beside those that began before."""
    instants = sorted({since_s, *(found[one.job_id] + durations[one.job_id] for one in before)})
    return next(
        at_s
        for at_s in instants
        if at_s >= since_s
        and head.num_gpus + sum(one.num_gpus for one in before if is_alive(one, found, durations, at_s))
        <= quota
    )


def test_the_default_is_the_one_lanes_keep_to():
    assert DEFAULT == "fcfs"
    assert [name for name, spec in REFERENCES.items() if spec.uses_estimates] == ["backfill"]
