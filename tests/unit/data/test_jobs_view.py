"""Attempts to jobs: who is an attempt of whom, what a job cost, and how much of its life was seen."""

import numpy as np
import pytest

from data.records import AttemptRecord
from data.shelf.arrow import table_of
from data.shelf.jobs import MOST_GAP_S, find, jobs_view
from domain.attempts import EndCause, Limit, LimitKind

LATER = 100 * 86_400.0


def row(raw_id="1", submit=0.0, start=None, end=None, cause=EndCause.COMPLETED, **more):
    more = {"user": "ada", "gpus_asked_milli": 1000, **more}
    return AttemptRecord("c", raw_id, submit, start_s=start, end_s=end, cause=cause, **more)


def view(*rows):
    return jobs_view(table_of(rows))


def test_requeues_are_attempts_of_one_job_and_its_hours_are_the_sum():
    """T07: the same id four times, each but the last sent back."""
    made = view(
        row(submit=100, start=160, end=460, cause=EndCause.REQUEUED),
        row(submit=460, start=500, end=800, cause=EndCause.REQUEUED),
        row(submit=800, start=900, end=1000, cause=EndCause.NODE_FAIL),
        row(submit=1000, start=1010, end=4610),
    )
    (job,) = made.jobs.to_dict("records")
    assert (job["submit_s"], job["start_s"], job["wait_s"], job["rewait_s"]) == (100, 160, 60, 40 + 100 + 10)
    assert (job["num_attempts"], job["lived_s"], job["last_start_s"]) == (4, 3600, 1010)
    assert (job["cause"], job["observation"]) == ("completed", "full")
    assert job["gpu_hours"] == pytest.approx((300 + 300 + 100 + 3600) / 3600)
    attempts = made.attempts
    assert attempts["number"].tolist() == [0, 1, 2, 3]
    assert attempts["wait_s"].tolist() == [60, 40, 100, 10]
    assert attempts["observation"].tolist() == ["right_censored"] * 3 + ["full"]


def test_preemption_is_not_the_end_while_a_newer_attempt_is_there():
    """T08."""
    made = view(
        row(submit=0, start=10, end=20, cause=EndCause.PREEMPTED),
        row(submit=20, start=30, end=90),
        row("2", submit=0, start=10, end=20, cause=EndCause.PREEMPTED),
    )
    assert made.jobs["cause"].tolist() == ["completed", "preempted"]
    assert made.jobs["observation"].tolist() == ["full", "right_censored"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"cause": EndCause.COMPLETED}, {}),
        ({"cause": EndCause.REQUEUED, "user": "bob"}, {}),
        ({"cause": EndCause.REQUEUED}, {"submit": MOST_GAP_S + 100}),
        ({"cause": EndCause.CANCELLED}, {}),
    ],
)
def test_a_counter_that_wrapped_makes_different_jobs_of_one_id(earlier, later):
    """T06: also where only the user or the distance in time tells."""
    made = view(
        row(submit=0, start=1, end=2, **earlier),
        row(**{"submit": LATER / 100, "start": LATER, "cause": EndCause.NOT_ENDED, **later}),
    )
    assert made.jobs["num_attempts"].tolist() == [1, 1]
    newest, older = find(made.jobs, "1")
    assert (newest["cause"], older) == ("not_ended", 1)
    assert find(made.jobs, "2") is None


def test_an_attempt_that_was_never_seen_to_end_is_superseded_by_a_newer_one():
    made = view(row(submit=0, start=10, cause=EndCause.NOT_ENDED), row(submit=500, start=510, end=600))
    (job,) = made.jobs.to_dict("records")
    assert (job["num_attempts"], job["lived_s"]) == (2, 90)
    assert made.attempts["lived_s"].tolist() == [490, 90]


def test_attempts_of_one_submission_wait_from_the_end_of_the_one_before():
    made = view(
        row(submit=0, start=10, end=20, attempt=0, cause=EndCause.FAILED),
        row(submit=0, start=50, end=60, attempt=1),
    )
    (job,) = made.jobs.to_dict("records")
    assert (job["num_attempts"], job["wait_s"], job["rewait_s"], job["lived_s"]) == (2, 10, 30, 10)


def test_parts_of_a_gang_are_one_job_with_one_life():
    """T04."""
    made = view(
        row("123", 0, 10, 110, het_id="123", het_offset=0, gpus_given_milli=4000, cpus=8.0),
        row("124", 0, 12, 100, het_id="123", het_offset=1, gpus_given_milli=2000, cpus=2.0),
        row("125", 0, 10, 20),
    )
    gang, other = made.jobs.to_dict("records")
    assert (gang["raw_id"], gang["gpus_milli"], gang["cpus"], gang["num_parts"]) == ("123", 6000, 10, 2)
    assert (gang["start_s"], gang["end_s"], gang["lived_s"]) == (10, 110, 100)
    assert gang["gpu_hours"] == pytest.approx(6 * 100 / 3600)
    assert other["num_parts"] == 1
    assert find(made.jobs, "123")[0]["gpus_milli"] == 6000


def test_a_gang_with_a_part_that_runs_or_whose_gpus_are_unknown():
    made = view(
        row("123", 0, 10, 110, het_id="123", het_offset=0, gpus_asked_milli=1000),
        row(
            "124", 0, 10, cause=EndCause.NOT_ENDED, het_id="123", het_offset=1, gpus_asked_milli=None
        ),
    )  # fmt: skip
    (gang,) = made.jobs.to_dict("records")
    assert (gang["cause"], gang["observation"]) == ("not_ended", "right_censored")
    assert np.isnan(gang["gpus_milli"])
    assert np.isnan(gang["gpu_hours"])


def test_what_runs_was_seen_until_the_edge_of_the_record():
    made = view(
        row("1", 0, 10, cause=EndCause.NOT_ENDED),
        row("2", 0, 10, 500),
        row("3", 700, cause=EndCause.NOT_ENDED),
    )
    assert made.edge_s == 700
    running, whole, waiting = made.jobs.to_dict("records")
    assert (running["lived_s"], running["observation"]) == (690, "right_censored")
    assert (whole["lived_s"], whole["observation"]) == (490, "full")
    assert waiting["observation"] == "never_ran"
    assert np.isnan(waiting["lived_s"])
    assert np.isnan(waiting["wait_s"])
    assert waiting["gpu_hours"] == 0


@pytest.mark.parametrize(
    ("cause", "observation"),
    [
        (EndCause.COMPLETED, "full"), (EndCause.FAILED, "full"), (EndCause.OUT_OF_MEMORY, "full"),
        (EndCause.UNKNOWN, "full"), (EndCause.CANCELLED, "right_censored"),
        (EndCause.TIMEOUT, "right_censored"), (EndCause.DEADLINE, "right_censored"),
        (EndCause.PREEMPTED, "right_censored"), (EndCause.REVOKED, "right_censored"),
    ],
)  # fmt: skip
def test_only_ends_of_its_own_show_the_whole_life(cause, observation):
    assert view(row("1", 0, 10, 20, cause=cause)).jobs["observation"].tolist() == [observation]


def test_a_life_that_began_before_the_record_is_truncated():
    made = view(row("1", 0, 0, 20, is_before_record=True))
    assert made.jobs["observation"].tolist() == ["left_truncated"]


def test_a_job_requeued_and_then_withdrawn_keeps_the_life_that_was_seen():
    made = view(row("1", 0, 10, 70, cause=EndCause.REQUEUED), row("1", 70, cause=EndCause.CANCELLED))
    (job,) = made.jobs.to_dict("records")
    assert (job["cause"], job["lived_s"], job["observation"]) == ("cancelled", 60, "right_censored")


def test_pending_arrays_are_counted_and_limits_kept():
    """T01."""
    made = view(row("9", 0, num_tasks=800, most_at_once=500, limit=Limit(LimitKind.FINITE, 60.0)))
    (job,) = made.jobs.to_dict("records")
    assert (job["num_tasks"], job["most_at_once"], job["limit_s"]) == (800, 500, 60)


def test_the_order_of_rows_makes_no_difference_and_nothing_is_an_empty_view():
    rows = [row(str(k % 7), 100.0 * k, 100.0 * k + 5, 100.0 * k + 50, EndCause.REQUEUED) for k in range(40)]
    one, other = view(*rows), view(*reversed(rows))
    assert one.jobs.equals(other.jobs)
    assert one.attempts.equals(other.attempts)
    nothing = view()
    assert nothing.jobs.empty
    assert nothing.attempts.empty
