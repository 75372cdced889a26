from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.history import content_hash, from_frame, from_jobs, in_order, to_jobs
from data.rules import FaultLog, Rule
from data.schema import COLUMNS
from domain.errors import InputError
from domain.jobs import Job, JobOutcome, JobState, submit_order

JOBS = [
    Job("b", "p", 5.0, 2, user="u", name="train-7", model="LM", limit_s=60.0, deadline_s=99.0, requeue_u=0.5),
    Job("a", "p", 5.0, 1),
    Job("c", "6214e9", -3.5, 4, model="LM"),
]
OUTCOMES = {
    "a": JobOutcome("a", 0.0),
    "b": JobOutcome("b", 12.5, JobState.TIMEOUT),
    "c": JobOutcome("c", 7.0, JobState.FAILED),
}


def test_jobs_survive_the_table() -> None:
    frame = from_jobs(JOBS, OUTCOMES)
    jobs, outcomes = to_jobs(frame)
    assert jobs == sorted(JOBS, key=submit_order)
    assert outcomes == OUTCOMES
    assert type(jobs[0].submit_s) is float
    assert type(jobs[0].num_gpus) is int


def test_checkpoints_and_priorities_survive_the_round_trip() -> None:
    told = [replace(job, priority=float(k), checkpoint_s=600.0 * k or None) for k, job in enumerate(JOBS)]
    told[-1] = replace(told[-1], restart_s=90.0)
    jobs, _ = to_jobs(from_jobs(told, OUTCOMES))
    assert jobs == sorted(told, key=submit_order)


def test_a_table_of_jobs_obeys_the_schema() -> None:
    frame = from_jobs(JOBS, OUTCOMES)
    history = from_frame(frame.sample(frac=1, random_state=1), source="memory")
    pd.testing.assert_frame_equal(history.frame, frame)
    assert list(frame.columns) == [column.name for column in COLUMNS]
    assert frame.index.tolist() == [0, 1, 2]


def test_no_jobs_make_an_empty_table() -> None:
    frame = from_jobs([], {})
    assert to_jobs(frame) == ([], {})
    assert frame["num_gpus"].dtype == "int64"


def test_a_job_without_an_outcome_has_no_row() -> None:
    with pytest.raises(KeyError):
        from_jobs(JOBS, {})


def test_a_refused_table_names_all_faults() -> None:
    frame = from_jobs(JOBS, OUTCOMES).assign(num_gpus=[0, 9, 1], duration_s=[1.0, 2.0, -1.0])
    with pytest.raises(InputError) as caught:
        from_frame(frame, source="memory", quotas={"p": 8, "6214e9": 8})
    found = [(fault.line, fault.rule) for fault in caught.value.faults]
    assert found == [(1, "width-below-one"), (2, "width-above-quota"), (3, "negative-duration")]


def test_faults_of_the_source_join_those_of_the_table() -> None:
    log = FaultLog("memory")
    log.add(2, Rule.FIELD_COUNT, "short")
    frame = from_jobs(JOBS, OUTCOMES).assign(num_gpus=[0, 2, 1])
    history = from_frame(frame, source="memory", is_lenient=True, log=log)
    assert [fault.rule for fault in history.skipped] == ["width-below-one", "field-count"]
    assert history.num_skipped_rows == 2
    assert len(history.frame) == 2


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="no-rows: there is a header but no row"):
        from_frame(from_jobs([], {}), source="memory")


def test_text_is_sorted_by_code_point() -> None:
    frame = from_jobs(
        [Job(name, "p", 0.0, 1) for name in ("é", "a", "B", "10", "9")], _ended("éaB", "10", "9")
    )
    assert frame["job_id"].tolist() == ["10", "9", "B", "a", "é"]


def _ended(letters: str, *names: str) -> dict[str, JobOutcome]:
    return {name: JobOutcome(name, 1.0) for name in (*letters, *names)}


def test_the_hash_is_that_of_the_content() -> None:
    frame = from_jobs(JOBS, OUTCOMES)
    known = content_hash(frame)
    assert len(known) == 64
    assert known == content_hash(frame[sorted(frame.columns)])
    assert known == content_hash(frame.astype({"job_id": object}))
    assert known == content_hash(frame.assign(note=None))
    unused = from_jobs(JOBS[1:2], OUTCOMES)
    assert content_hash(unused) == content_hash(unused.drop(columns=["user", "limit_s"]))


@pytest.mark.parametrize(
    "changes",
    [
        {"duration_s": [7.0, 0.0, 12.5000001]},
        {"num_gpus": [4, 1, 3]},
        {"job_id": ["c", "a", "B"]},
        {"user": ["u", None, "u"]},
        {"user": [None, "u", None]},
        {"user": [None, None, ""]},
        {"pool": ["6214e", "9p", "p"]},
        {"note": ["x", "y", "z"]},
    ],
)
def test_the_hash_tells_tables_apart(changes: dict[str, list[object]]) -> None:
    frame = from_jobs(JOBS, OUTCOMES)
    assert content_hash(frame.assign(**changes)) != content_hash(frame)


def test_the_hash_is_stable_from_version_to_version() -> None:
    known = "418ec31aa37905c47ad4d0dd16dc1d2e241873c0211f86e99ed4b88cfe72c2e3"
    assert content_hash(from_jobs(JOBS, OUTCOMES)) == known


@given(st.permutations(range(6)))
def test_order_is_restored(order: list[int]) -> None:
    jobs = [Job(f"j{k}", "p", float(k // 2), 1) for k in range(6)]
    frame = from_jobs(jobs, {job.job_id: JobOutcome(job.job_id, 1.0) for job in jobs})
    pd.testing.assert_frame_equal(in_order(frame.iloc[order]), frame)
