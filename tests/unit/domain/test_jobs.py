"""A job, what became of it, and the one order of jobs."""

import math
from dataclasses import FrozenInstanceError, fields

import pytest

from domain.jobs import Job, JobOutcome, submit_order


@pytest.mark.parametrize("submit_s", [math.nan, math.inf, -math.inf])
def test_a_job_is_submitted_at_some_instant(submit_s):
    with pytest.raises(ValueError, match=r"job x: submit_s is .*, must be finite"):
        Job("x", "a", submit_s, 1)


@pytest.mark.parametrize("num_gpus", [0, -1])
def test_a_job_needs_a_gpu(num_gpus):
    with pytest.raises(ValueError, match=r"job x: num_gpus is .*, must be at least 1"):
        Job("x", "a", 0.0, num_gpus)


@pytest.mark.parametrize("duration_s", [-0.1, math.nan, math.inf])
def test_a_length_is_a_length(duration_s):
    with pytest.raises(ValueError, match="job x: duration_s is"):
        JobOutcome("x", duration_s)
    assert JobOutcome("x", 0.0).duration_s == 0.0


def test_a_job_says_nothing_about_its_length():
    """What a policy cannot reach it cannot peek at."""
    assert not {field.name for field in fields(Job)} & {field.name for field in fields(JobOutcome)} - {
        "job_id"
    }
    with pytest.raises(FrozenInstanceError):
        Job("x", "a", 0.0, 1).submit_s = 5.0


@pytest.mark.parametrize(
    ("requeue_u", "share", "is_requeueable"),
    [
        (0.29, 0.3, True),
        (0.3, 0.3, False),
        (0.0, 0.0, False),
        (None, 0.99, False),
        (None, 1.0, True),
        (0.999, 1.0, True),
    ],
)
def test_a_job_may_be_sent_back_if_its_record_or_the_operator_says_so(requeue_u, share, is_requeueable):
    assert Job("x", "a", 0.0, 1, requeue_u=requeue_u).is_requeueable(share) is is_requeueable


def test_jobs_stand_in_the_order_of_submit_and_then_of_the_id():
    jobs = [Job("b", "z", 1.0, 1), Job("c", "a", 0.0, 9), Job("a", "z", 1.0, 2), Job("B", "a", 1.0, 1)]
    assert [job.job_id for job in sorted(jobs, key=submit_order)] == ["c", "B", "a", "b"]
