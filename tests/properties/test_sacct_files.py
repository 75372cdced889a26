"""Whatever jobs sacct prints, with whatever between them and in whatever order: they are read back."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_exports import JOB, Found

from data.intake.text import cleaned
from data.slurm.durations import elapsed_text, limit_text
from domain.attempts import INHERITED_LIMIT, UNLIMITED, EndCause, Limit, LimitKind

fixed = settings(derandomize=True, deadline=None, max_examples=150)

BETWEEN = "|^~@#!;&$*<>{}\x1f\t\u2016\u00a7"
DELIMITERS = st.text(BETWEEN, min_size=1, max_size=4)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=BETWEEN + '\n\r\0"'), max_size=12)
STATES = {
    "COMPLETED": EndCause.COMPLETED,
    "CANCELLED by 5": EndCause.CANCELLED,
    "TIMEOUT": EndCause.TIMEOUT,
    "FAILED": EndCause.FAILED,
}
LIMITS = st.one_of(
    st.sampled_from([UNLIMITED, INHERITED_LIMIT]),
    st.integers(1, 10**6).map(lambda seconds: Limit(LimitKind.FINITE, float(seconds))),
)


@st.composite
def jobs(draw):
    """What happened to one job, as it is to be read back."""
    submit_s = draw(st.integers(10**9, 2 * 10**9))
    start_s = submit_s + draw(st.integers(0, 10**6))
    run_s = draw(st.integers(1, 10**6))
    given_gpus = draw(st.integers(0, 64))
    return {
        "raw_id": str(draw(st.integers(1, 10**9))),
        "submit_s": submit_s,
        "start_s": start_s,
        "end_s": start_s + run_s,
        "compute_s": draw(st.integers(0, run_s)),
        "state": draw(st.sampled_from(sorted(STATES))),
        "gpus": given_gpus,
        "name": draw(WORDS),
        "limit": draw(LIMITS),
    }


def printed(job, *, epoch):
    """The job as sacct prints it."""

    def stamp(instant_s):
        if epoch:
            return str(instant_s)
        return datetime.fromtimestamp(instant_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    return JOB | {
        "JobIDRaw": job["raw_id"],
        "JobID": job["raw_id"],
        "Submit": stamp(job["submit_s"]),
        "Eligible": stamp(job["submit_s"]),
        "Start": stamp(job["start_s"]),
        "End": stamp(job["end_s"]),
        "ElapsedRaw": "",
        "Elapsed": elapsed_text(job["compute_s"]),
        "State": job["state"],
        "TimelimitRaw": "",
        "Timelimit": limit_text(job["limit"]),
        "ReqTRES": f"cpu=1,gres/gpu={job['gpus']}",
        "AllocTRES": f"cpu=1,gres/gpu:a100={job['gpus']},gres/gpu={job['gpus']}",
        "JobName": job["name"],
    }


def written(found, names, delimiter, *, closed):
    end = delimiter if closed else ""
    lines = [names, *([one[name] for name in names] for one in found)]
    return "".join(delimiter.join(line) + end + "\n" for line in lines)


def read(text):
    with tempfile.TemporaryDirectory() as folder:
        found = Found(Path(folder), text, tz=UTC)
        assert found.report.format == "sacct"
        assert found.report.read == found.report.accepted + found.report.repaired + found.report.rejected
        return found


@fixed
@given(
    st.lists(jobs(), min_size=1, max_size=4),
    DELIMITERS,
    st.permutations(sorted(JOB)),
    st.booleans(),
    st.booleans(),
)
def test_jobs_come_back_as_they_went(found, delimiter, names, closed, epoch):
    names = [*names, "Elapsed", "Timelimit"]
    text = written([printed(job, epoch=epoch) for job in found], names, delimiter, closed=closed)
    back = read(text).records
    assert len(back) == len(found)
    for job, record in zip(found, back, strict=True):
        assert record.raw_id == job["raw_id"]
        assert (record.submit_s, record.start_s, record.end_s) == (
            job["submit_s"],
            job["start_s"],
            job["end_s"],
        )
        assert record.compute_s == job["compute_s"]
        assert record.cause is STATES[job["state"]]
        assert record.gpus_given_milli == record.gpus_asked_milli == 1000 * job["gpus"]
        assert record.name == cleaned(job["name"])[0]
        assert record.limit == job["limit"]


@fixed
@given(jobs(), st.permutations(sorted(JOB)), st.permutations(sorted(JOB)), DELIMITERS)
def test_the_order_of_columns_changes_nothing(job, names, other, delimiter):
    one, two = (
        read(written([printed(job, epoch=False)], order, delimiter, closed=False)) for order in (names, other)
    )
    assert one.records == two.records
    assert one.rules == two.rules


@fixed
@given(
    jobs(),
    st.lists(st.sampled_from(["|", "a", "||", " "]), max_size=5).map("".join),
    st.permutations(sorted(JOB)),
)
def test_a_delimiter_in_the_only_free_text_is_kept_wherever_that_stands(job, name, names):
    text = written([printed(job, epoch=True) | {"JobName": name}], names, "|", closed=False)
    assert read(text).only.name == (name.strip() or None)
