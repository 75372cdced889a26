"""Jobs of a history in the schema: what is in, what is left out and counted, and what models make of it."""

import pandas as pd
import pytest

from data.history import from_frame
from data.records import AttemptRecord
from data.shelf.arrow import table_of
from data.shelf.jobs import jobs_view
from data.shelf.jobs_export import NO_POOL, STATES, export_jobs, most_at_once, quotas_needed
from domain.attempts import UNLIMITED, EndCause, Limit, LimitKind
from domain.jobs import JobState
from models.backtest import Kind, facts, known_at, record_of


def row(raw_id="1", submit=0.0, start=None, end=None, cause=EndCause.COMPLETED, **more):
    more = {"user": "ada", "name": "train", "pool": "p", "gpus_asked_milli": 1000, **more}
    return AttemptRecord("c", raw_id, submit, start_s=start, end_s=end, cause=cause, **more)


def export(*rows, **options):
    return export_jobs(jobs_view(table_of(rows)), **options)


def test_what_is_exported_obeys_the_schema():
    made = export(
        row("1", 0, 10, 110, limit=Limit(LimitKind.FINITE, 3600.0), gpu_type="a100", array_id="7"),
        row("2", 5, 10, 60, EndCause.TIMEOUT, limit=UNLIMITED),
    )
    history = from_frame(made.frame, source="export", quotas={"p": 4})
    assert history.skipped == ()
    first, second = history.frame.to_dict("records")
    assert (first["job_id"], first["pool"], first["num_gpus"], first["duration_s"]) == ("1", "p", 1, 100.0)
    assert (first["start_s"], first["limit_s"], first["state"]) == (10.0, 3600.0, "completed")
    assert (first["user"], first["name"], first["gpu_type"], first["array_id"]) == (
        "ada",
        "train",
        "a100",
        "7",
    )
    assert second["state"] == "timeout"
    assert pd.isna(second["limit_s"])
    assert made.told == {"lives cut off: of at least that length": 1}


def test_what_cannot_be_in_it_is_left_out_and_counted():
    made = export(
        row("1", 0, 10, 20),
        row("2", 0, cause=EndCause.NOT_ENDED),
        row("3", 0, cause=EndCause.CANCELLED),
        row("4", 0, 10, 20, gpus_asked_milli=None),
        row("5", 0, 10, 20, gpus_asked_milli=0),
        row("6", 0, 10, None, EndCause.COMPLETED),
        row("7", 0, 10, 20, is_before_record=True),
    )
    assert made.frame["job_id"].tolist() == ["1"]
    assert made.left_out == {
        "still waiting": 1, "never ran": 1, "GPUs not known": 1, "without GPUs": 1, "length not known": 1,
        "began before the record": 1,
    }  # fmt: skip


def test_a_span_and_a_pool_can_be_chosen():
    rows = [row(str(k), 10.0 * k, 10.0 * k, 1000.0, pool=f"p{k % 2}") for k in range(10)]
    made = export(*rows, since_s=20.0, until_s=60.0, pool="p0")
    assert made.frame["job_id"].tolist() == ["2", "4"]
    assert made.left_out == {"outside of --since and --until": 6, "in other pools": 2}


def test_shares_become_whole_gpus_and_unknown_pools_one():
    made = export(
        row("1", 0, 1, 2, gpus_given_milli=460, pool=None), row("2", 0, 1, 2, gpus_given_milli=8000)
    )
    assert made.frame["num_gpus"].tolist() == [1, 8]
    assert made.frame["pool"].tolist() == [NO_POOL, "p"]
    assert made.told == {
        "shares of GPUs rounded up to whole ones": 1,
        f"without a pool: in pool {NO_POOL}": 1,
    }


def test_ids_that_were_used_again_are_told_apart():
    made = export(row("1", 0, 1, 2), row("1", 1e7, 1e7 + 1, 1e7 + 2), row("1", 2e7, 2e7 + 1, 2e7 + 2))
    assert made.frame["job_id"].tolist() == ["1", "1@10000000", "1@20000000"]


REQUEUED = (
    row("1", 0, 10, 70, EndCause.PREEMPTED),
    row("1", 70, 80, 90, EndCause.NODE_FAIL),
    row("1", 90, 100, 4100),
    row("2", 5, 10, None, EndCause.NOT_ENDED),
)


def test_a_job_has_its_last_life_and_attempts_have_their_own():
    jobs = export(*REQUEUED).frame
    assert jobs["job_id"].tolist() == ["1", "2"]
    first = jobs.iloc[0]
    assert (first["submit_s"], first["start_s"], first["duration_s"], first["num_attempts"]) == (
        0,
        100,
        4000,
        3,
    )
    assert first["first_start_s"] == 10
    attempts = export(*REQUEUED, as_attempts=True).frame
    assert attempts["job_id"].tolist() == ["1", "2", "1#2", "1#3"]
    assert attempts["duration_s"].tolist() == [60, 4090, 10, 4000]
    assert attempts["state"].tolist() == ["cut_off", "cut_off", "cut_off", "completed"]
    assert attempts["submit_s"].tolist() == [0, 5, 70, 90]


def test_every_cause_has_a_state_and_those_that_hide_the_life_say_so():
    assert set(STATES) == set(EndCause)
    for cause, state in STATES.items():
        whole = cause.is_natural or cause is EndCause.UNKNOWN
        assert state.hides_life == (not whole), cause


def test_lives_that_were_cut_off_are_no_short_jobs_to_models():
    frame = from_frame(export(*REQUEUED, as_attempts=True).frame, source="export").frame
    record = record_of(frame, 4100.0)
    told = {(record.jobs[fact.place].job_id, fact.kind) for fact in facts(record) if fact.kind > Kind.STARTED}
    assert told == {
        ("1", Kind.CUT_OFF), ("1#2", Kind.CUT_OFF), ("1#3", Kind.ENDED), ("2", Kind.CUT_OFF)
    }  # fmt: skip
    assert record.has_ended.tolist() == [False, False, False, True]
    assert record.lived_s.tolist() == [60.0, 4090.0, 10.0, 4000.0]
    past, going_on = known_at(record, 4100.0)
    assert [job.job_id for job, _ in past] == ["1", "1#2", "2", "1#3"]
    assert going_on == []


def test_what_runs_at_the_cut_is_as_old_as_it_was_then():
    record = record_of(from_frame(export(*REQUEUED).frame, source="export").frame, 1000.0)
    assert record.lived_s.tolist() == [900.0, 990.0]
    assert not record.has_ended.any()
    past, going_on = known_at(record, 1000.0)
    assert past == []
    assert [(job.job_id, age_s) for job, age_s in going_on] == [("1", 900.0), ("2", 990.0)]


@pytest.mark.parametrize("as_attempts", [False, True])
def test_nothing_makes_an_empty_table(as_attempts):
    made = export(as_attempts=as_attempts)
    assert made.frame.empty
    assert made.left_out == {}


def test_most_at_once_counts_what_runs_together():
    rows = [
        row("1", 0, 0, 10, gpus_given_milli=4000),
        row("2", 0, 5, 15, gpus_given_milli=2000),
        row("3", 0, 10, 20, gpus_given_milli=3000),
        row("4", 0, 0, 1, pool="q", gpus_given_milli=8000),
    ]
    frame = export(*rows).frame
    assert most_at_once(frame[frame["pool"] == "p"]) == 6
    assert quotas_needed(frame) == [("p", 6, 4), ("q", 8, 8)]
    assert JobState("cut_off").hides_life
