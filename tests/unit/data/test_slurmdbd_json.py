"""Slurm's accounting as JSON, in the shapes of all versions of its data parser."""

import json

import pytest
from slurm_exports import JOB, JSON_JOB, Found, sacct, slurmdbd

from data.intake.text import hashed
from data.rules import Rule
from domain.attempts import EndCause, LimitKind

OLD = JSON_JOB | {
    "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task": None, "task_id": None},
    "het": {"job_id": 0, "job_offset": None},
    "kill_request_user": None,
    "required": {"CPUs": 4, "memory": 16384},
    "state": {"current": "COMPLETED", "reason": "None"},
    "time": JSON_JOB["time"] | {"limit": 120},
    "tres": {
        kind: [one | {"name": one["name"] or None} for one in JSON_JOB["tres"][kind]]
        for kind in ("allocated", "requested")
    },
}
"""As data parser v0.0.37 has it."""

NEW = JSON_JOB | {
    "state": {"current": ["COMPLETED"], "reason": "None"},
    "time": {
        name: value if isinstance(value, dict) else {"set": True, "infinite": False, "number": value}
        for name, value in JSON_JOB["time"].items()
    },
    "allocation_nodes": {"set": True, "infinite": False, "number": 1},
    "required": JSON_JOB["required"] | {"CPUs": {"set": True, "infinite": False, "number": 4}},
}
"""With a number of the long kind wherever there may be one."""


@pytest.mark.parametrize(
    "job", [OLD, JSON_JOB, NEW, JSON_JOB | {"state": "COMPLETED"}, JSON_JOB | {"state": ["COMPLETED"]}]
)
def test_every_shape_says_what_sacct_says(tmp_path, job):
    found = Found(tmp_path, slurmdbd(job))
    assert found.only == Found(tmp_path, sacct(JOB)).only
    assert found.rules == {}


@pytest.mark.parametrize("version", ["v0.0.37", "v0.0.40", "v0.0.43"])
def test_the_version_of_the_data_parser_is_told(tmp_path, version):
    found = Found(tmp_path, slurmdbd(JSON_JOB, version=version))
    assert found.report.facts["data_parser"] == version
    assert version in found.report.why
    assert found.report.format == "slurmdbd-json"


def test_a_bare_list_of_jobs_is_read(tmp_path):
    assert len(Found(tmp_path, json.dumps([JSON_JOB, JSON_JOB | {"job_id": 78}])).records) == 2


def test_a_file_that_breaks_off_keeps_what_stood_before(tmp_path):
    text = slurmdbd(JSON_JOB, JSON_JOB | {"job_id": 78})
    found = Found(tmp_path, text[: text.index('"job_id": 78') + 40])
    assert found.report.read == 2
    assert found.rules == {"cut-short": 1}


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"job_id": None}, "no-job-id"),
        ({"job_id": "x7"}, "bad-job-id"),
        ({"job_id": -7}, "bad-job-id"),
        ({"time": {}}, "no-submit"),
        ({"time": None}, "no-submit"),
        ({"time": JSON_JOB["time"] | {"submission": 10**15}}, "bad-time"),
        ({"time": JSON_JOB["time"] | {"start": 5}}, "end-before-start"),
    ],
)
def test_a_job_that_is_none_is_rejected_and_the_rest_is_read(tmp_path, changed, rule):
    found = Found(tmp_path, slurmdbd(JSON_JOB, JSON_JOB | changed, JSON_JOB | {"job_id": 78}))
    assert found.rules == {rule: 1}
    assert [one.raw_id for one in found.records] == ["77", "78"]


@pytest.mark.parametrize("job", [5, "x", None, [], {}, {"name": "x"}])
def test_what_is_no_job_at_all_is_rejected(tmp_path, job):
    found = Found(tmp_path, slurmdbd(JSON_JOB, job))
    assert found.report.rejected == 1
    assert set(found.rules) <= {"not-an-object", "not-a-job"}


@pytest.mark.parametrize("value", [None, [], {}, "x", 1.5, True, [[]], {"set": True, "number": None}])
def test_any_kind_of_value_in_any_place_costs_that_job_at_most(tmp_path, value):
    for name in JSON_JOB:
        found = Found(tmp_path, slurmdbd(JSON_JOB, JSON_JOB | {name: value}))
        assert found.report.fault is None
        assert found.report.read == 2
    for outer in ("time", "tres", "array", "het", "required"):
        for name in JSON_JOB[outer]:
            job = JSON_JOB | {outer: JSON_JOB[outer] | {name: value}}
            assert Found(tmp_path, slurmdbd(JSON_JOB, job)).report.read == 2


def test_who_killed_it_is_kept_as_a_hash(tmp_path):
    job = JSON_JOB | {"state": {"current": ["CANCELLED"], "reason": "None"}, "kill_request_user": "root"}
    record = Found(tmp_path, slurmdbd(job)).only
    assert (record.cause, record.actor) == (EndCause.CANCELLED, hashed("root"))
    completed = Found(tmp_path, slurmdbd(JSON_JOB | {"kill_request_user": "root"})).only
    assert completed.actor is None


def test_of_several_states_the_first_counts(tmp_path):
    job = JSON_JOB | {"state": {"current": ["TIMEOUT", "COMPLETING"], "reason": "TimeLimit"}}
    record = Found(tmp_path, slurmdbd(job)).only
    assert (record.cause, record.reason) == (EndCause.TIMEOUT, "TimeLimit")


@pytest.mark.parametrize("unset", [0, 4294967294, {"set": False, "infinite": False, "number": 0}, None])
def test_an_instant_that_has_not_come_is_not_known(tmp_path, unset):
    times = JSON_JOB["time"] | {"start": unset, "end": unset, "elapsed": 0}
    record = Found(tmp_path, slurmdbd(JSON_JOB | {"state": "PENDING", "time": times})).only
    assert (record.start_s, record.end_s) == (None, None)


def test_the_association_fills_what_the_job_does_not_say(tmp_path):
    gone = {"user": "", "account": "", "cluster": ""}
    record = Found(tmp_path, slurmdbd(JSON_JOB | gone)).only
    assert (record.user, record.account, record.cluster) == ("ana", "physics", "alpha")


def test_no_zone_is_needed(tmp_path):
    assert Found(tmp_path, slurmdbd(JSON_JOB), tz=None).only.submit_s == 1_714_550_400.0


def test_the_queue_is_another_format(tmp_path):
    queue = json.dumps({"jobs": [{"job_id": 7, "job_state": ["PENDING"], "submit_time": 1714550400}]})
    found = Found(tmp_path, queue)
    assert (found.report.fault, found.report.format) == (None, "squeue")
    assert found.only.submit_s == 1714550400


def test_a_document_without_jobs_has_no_row(tmp_path):
    found = Found(tmp_path, slurmdbd(), "slurmdbd-json")
    assert found.report.fault["rule"] == Rule.NO_ROWS


def test_an_infinite_limit_is_unlimited(tmp_path):
    job = JSON_JOB | {"time": JSON_JOB["time"] | {"limit": {"set": False, "infinite": True, "number": 0}}}
    assert Found(tmp_path, slurmdbd(job)).only.limit.kind is LimitKind.UNLIMITED


@pytest.mark.parametrize("number", ["1e99999999999999999999", "9" * 5000, "1e999", "-1e999"])
def test_numbers_of_any_size_end_in_a_report(tmp_path, number):
    text = slurmdbd(JSON_JOB, JSON_JOB | {"job_id": 78}).replace('"job_id": 78', f'"job_id": {number}')
    found = Found(tmp_path, text)
    assert found.report.fault is None
    assert found.report.rejected == 1
    assert [one.raw_id for one in found.records] == ["77"]
