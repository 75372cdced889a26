import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.history import from_jobs
from data.splits import ended_before, split
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome

Spans = list[tuple[int, int]]
spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20)


def frame_of(submits_and_durations: Spans) -> pd.DataFrame:
    jobs = [Job(f"j{k:02}", "p", float(submit), 1) for k, (submit, _) in enumerate(submits_and_durations)]
    outcomes = {
        job.job_id: JobOutcome(job.job_id, float(duration))
        for job, (_, duration) in zip(jobs, submits_and_durations, strict=True)
    }
    return from_jobs(jobs, outcomes)


def test_a_job_counts_from_the_instant_it_may_have_ended() -> None:
    frame = frame_of([(0, 10), (5, 5), (5, 6), (10, 0), (11, 0)])
    kept = ended_before(frame, 10.0)
    assert kept["job_id"].tolist() == ["j00", "j01", "j03"]
    assert kept.index.tolist() == [0, 1, 2]
    assert len(ended_before(frame, math.inf)) == 5
    assert ended_before(frame, -1.0).empty


def test_the_parts_of_a_split() -> None:
    parts = split(frame_of([(0, 5), (0, 20), (10, 1), (12, 1), (15, 9)]), train_until_s=10, eval_from_s=12)
    assert parts.train["job_id"].tolist() == ["j00"]
    assert parts.replay["job_id"].tolist() == ["j02", "j03", "j04"]
    assert parts.replay.index.tolist() == [0, 1, 2]
    assert parts.evaluated == {"j03", "j04"}


def test_an_instant_job_at_the_cut_is_replayed_and_not_learned_from() -> None:
    parts = split(frame_of([(10, 0)]), train_until_s=10, eval_from_s=10)
    assert len(parts.replay) == len(parts.evaluated) == 1
    assert parts.train.empty


@given(spans, st.integers(0, 100), st.integers(0, 20))
def test_nothing_of_the_future_is_learned_from(jobs: Spans, cut_s: int, warm_up_s: int) -> None:
    frame = frame_of(jobs)
    parts = split(frame, train_until_s=cut_s, eval_from_s=cut_s + warm_up_s)
    assert (parts.train["submit_s"] + parts.train["duration_s"] <= cut_s).all()
    assert (parts.replay["submit_s"] >= cut_s).all()
    assert parts.evaluated <= set(parts.replay["job_id"])
    left_out = set(frame["job_id"]) - set(parts.train["job_id"]) - set(parts.replay["job_id"])
    ends = frame.set_index("job_id").loc[sorted(left_out)]
    assert ((ends["submit_s"] < cut_s) & (ends["submit_s"] + ends["duration_s"] > cut_s)).all()


@given(spans, st.integers(0, 100))
def test_lengths_of_jobs_that_end_later_do_not_matter(jobs: Spans, as_of_s: int) -> None:
    longer = [(s, d if s + d <= as_of_s else d + 1_000) for s, d in jobs]
    assert ended_before(frame_of(longer), as_of_s).equals(ended_before(frame_of(jobs), as_of_s))


@pytest.mark.parametrize(
    ("train_until_s", "eval_from_s", "message"),
    [
        (10, 9, "eval_from_s is 9, must be at least train_until_s = 10"),
        (math.nan, 9, "train_until_s is nan"),
        (10, math.nan, "eval_from_s is nan"),
    ],
)
def test_a_split_backwards_is_refused(train_until_s: float, eval_from_s: float, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        split(frame_of([(0, 1)]), train_until_s=train_until_s, eval_from_s=eval_from_s)


def test_an_instant_that_is_no_number_is_refused() -> None:
    with pytest.raises(SettingError, match="as_of_s is nan"):
        ended_before(frame_of([(0, 1)]), math.nan)
