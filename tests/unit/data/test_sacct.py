"""What sacct prints: the header tells the columns, and what cannot be read says how to export."""

import csv
import io

import pytest
from slurm_exports import JOB, PENDING, Found, sacct

from data.formats import sacct as reader
from data.intake.driver import recognise
from data.rules import Rule
from data.slurm.sacct_header import header_of
from domain.attempts import EndCause, LimitKind

DELIMITERS = ["|", "\t", ";", "^|^", "~~", "\x1f", "@", " | ", "_SEP_", "\u2016", "!#!", "xx"]


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("closed", [False, True])
def test_a_delimiter_is_found_from_the_names_of_fields(delimiter, closed):
    line = delimiter.join(JOB) + (delimiter if closed else "")
    header = header_of(line)
    assert header.delimiter == delimiter
    assert header.names == tuple(name.casefold() for name in JOB)
    assert header.is_closed is closed


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_any_delimiter_parts_the_lines_too(tmp_path, delimiter):
    found = Found(tmp_path, sacct(JOB, PENDING | {"JobIDRaw": "78"}, delimiter=delimiter))
    assert [one.raw_id for one in found.records] == ["77", "78"]
    assert found.records[0] == Found(tmp_path, sacct(JOB)).only


def test_names_count_in_any_case_and_order(tmp_path):
    turned = dict(reversed([(name.upper(), value) for name, value in JOB.items()]))
    assert Found(tmp_path, sacct(turned)).only == Found(tmp_path, sacct(JOB)).only


def test_a_table_that_was_saved_as_csv_is_read_with_its_quotes(tmp_path):
    text = io.StringIO()
    csv.writer(text).writerows([JOB, (JOB | {"JobName": 'say "hi", all'}).values()])
    found = Found(tmp_path, text.getvalue())
    assert found.only.name == 'say "hi", all'
    assert found.only.gpus_given_milli == 1000


@pytest.mark.parametrize(
    "line", ["", "name,user", "id|user|state", "x" * 1000, "|||", "JobName|User|State", "JobID"]
)
def test_other_first_lines_are_no_headers(line):
    assert header_of(line) is None


def test_columns_that_mean_nothing_here_are_named(tmp_path):
    found = Found(tmp_path, sacct(JOB | {"MaxRSS": "4K", "Priority": "7", "Brand New": "x"}))
    assert found.report.facts["columns_ignored"] == ["brand new", "maxrss", "priority"]
    assert found.rules == {}


def test_a_file_without_its_header_says_how_to_export_it(tmp_path):
    lines = sacct(JOB).splitlines(keepends=True)
    found = Found(tmp_path, lines[1])
    assert found.report.format == "sacct"
    assert found.report.fault["rule"] == Rule.MISSING_COLUMN
    assert "--noheader" in found.report.fault["message"]
    assert reader.COMMAND in found.report.fault["message"]


def test_a_table_of_a_fixed_width_says_how_to_export_it(tmp_path):
    text = (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
        "77                train        gpu    physics          4  COMPLETED      0:0 \n"
    )
    found = Found(tmp_path, text)
    assert found.report.fault["rule"] == Rule.MISSING_COLUMN
    assert "fixed width" in found.report.fault["message"]


def test_a_table_without_submissions_is_refused(tmp_path):
    job = {name: JOB[name] for name in JOB if name != "Submit"}
    found = Found(tmp_path, sacct(job))
    assert found.report.fault["rule"] == Rule.MISSING_COLUMN
    assert "Submit" in found.report.fault["message"]


def test_two_columns_are_enough(tmp_path):
    found = Found(tmp_path, "JobID|Submit\n5_7|2024-05-01T10:00:00\n", "sacct")
    record = found.only
    assert (record.raw_id, record.array_id, record.array_task) == ("5_7", "5", 7)
    assert (record.cause, record.limit.kind) == (EndCause.UNKNOWN, LimitKind.UNKNOWN)
    assert (record.user, record.gpus_asked_milli, record.start_s) == (None, None, None)


def test_steps_are_rejected_and_their_job_is_kept(tmp_path):
    steps = [JOB | {"JobID": f"77.{step}", "JobIDRaw": f"77.{step}"} for step in ("batch", "extern", "0")]
    found = Found(tmp_path, sacct(JOB, *steps))
    assert found.rules == {"step-row": 3}
    assert found.only.raw_id == "77"


def test_a_header_between_two_pulls_is_rejected(tmp_path):
    found = Found(tmp_path, sacct(JOB) + sacct(JOB | {"JobIDRaw": "78"}))
    assert found.rules == {"bad-job-id": 1}
    assert [one.raw_id for one in found.records] == ["77", "78"]


@pytest.mark.parametrize(
    "job_id", ["abc", "77_x", "77_[9-1]", "77_[1-5%0]", "-5", "1e9", "7 7", "\u0667\u0667"]
)
def test_what_is_no_id_of_slurm_is_rejected(tmp_path, job_id):
    for changed in ({"JobID": job_id}, {"JobIDRaw": job_id}, {"JobID": "", "JobIDRaw": job_id}):
        found = Found(tmp_path, sacct(JOB, JOB | changed))
        assert found.rules == {"bad-job-id": 1}


@pytest.mark.parametrize(
    ("asked", "kept"), [("", ["alpha", "beta"]), ("cluster", ["alpha", "beta"]), ("mine", ["mine", "mine"])]
)
def test_rows_keep_their_own_cluster_unless_one_is_given(tmp_path, asked, kept):
    found = Found(tmp_path, sacct(JOB, JOB | {"Cluster": "beta"}), cluster=asked)
    assert [one.cluster for one in found.records] == kept
    assert found.report.facts["clusters_named"] == ["alpha", "beta"]


def test_rows_that_name_no_cluster_are_of_the_default_one(tmp_path):
    assert Found(tmp_path, sacct(JOB | {"Cluster": ""})).only.cluster == "cluster"


@pytest.mark.parametrize(
    ("column", "word", "rule", "field"),
    [
        ("TimelimitRaw", "soon", "bad-limit", "limit.kind"),
        ("AllocTRES", "gres/gpu=many", "bad-gpus", "gpus_given_milli"),
        ("AllocTRES", "gres/gpu=1,gres/gpu:a100=2", "bad-gpus", "gpus_given_milli"),
        ("NNodes", "some", "bad-number", None),
        ("ReqMem", "lots", "bad-number", None),
        ("ElapsedRaw", "long", "bad-duration", None),
        ("Suspended", "75:99", "bad-duration", None),
    ],
)
def test_what_cannot_be_read_is_not_known_and_said_so(tmp_path, column, word, rule, field):
    job = JOB | {column: word}
    if column == "ReqMem":
        job |= {"ReqTRES": "cpu=4,gres/gpu=1"}
    if column == "Suspended":
        job |= {"ElapsedRaw": ""}
    found = Found(tmp_path, sacct(JOB, job))
    assert set(found.rules) == {rule}
    assert found.report.repaired == 1
    if field == "gpus_given_milli":
        assert found.records[1].gpus_given_milli is None
    if field == "limit.kind":
        assert found.records[1].limit.kind is LimitKind.UNKNOWN


@pytest.mark.parametrize(
    ("end", "rule"), [("2024-05-01T10:04:59", "clock-skew"), ("2024-05-01T09:00:00", "end-before-start")]
)
def test_an_end_before_the_start_is_moved_only_if_it_is_the_clocks_doing(tmp_path, end, rule):
    found = Found(tmp_path, sacct(JOB, JOB | {"End": end, "ElapsedRaw": "0"}))
    assert found.rules == {rule: 1}


def test_an_end_of_what_runs_is_an_expectation(tmp_path):
    found = Found(tmp_path, sacct(JOB | {"State": "RUNNING"}))
    assert found.only.end_s is None
    assert found.only.compute_s == 3600
    assert found.rules == {"expected-end": 1}


def test_a_length_beyond_start_and_end_is_told_and_kept(tmp_path):
    found = Found(tmp_path, sacct(JOB | {"ElapsedRaw": "7200"}))
    assert (found.only.compute_s, found.only.occupancy_s) == (7200, 3600)
    assert found.rules == {"duration-mismatch": 1}


@pytest.mark.parametrize(
    ("req_mem", "memory_mib"),
    [("4000Mc", 16_000), ("8Gn", 16_384), ("16G", 16_384), ("1.50T", 1_572_864), ("0", None)],
)
def test_memory_is_of_all_of_the_job(tmp_path, req_mem, memory_mib):
    job = JOB | {"ReqMem": req_mem, "NNodes": "2", "ReqTRES": "", "AllocTRES": ""}
    assert Found(tmp_path, sacct(job)).only.memory_mib == memory_mib


def test_energy_in_the_allocation_is_no_resource(tmp_path):
    for tres in ("energy=5,gres/gpu=2", "gres/gpu=2,energy=5", "cpu=1,energy=-2,gres/gpu=2"):
        assert Found(tmp_path, sacct(JOB | {"AllocTRES": tres})).only.gpus_given_milli == 2000


def test_an_account_or_user_that_is_a_null_word_is_nobody(tmp_path):
    record = Found(
        tmp_path, sacct(JOB | {"User": "", "UID": "1021", "Account": "(null)", "QOS": "Unknown"})
    ).only
    assert (record.user, record.account, record.qos) == ("1021", None, None)


def test_a_job_may_be_called_none(tmp_path):
    assert Found(tmp_path, sacct(JOB | {"JobName": "none"})).only.name == "none"


@pytest.mark.parametrize("content", ["JobID,user\n1,2\n", "a|b\n1|2\n", '{"jobs": []}', "; comment\n"])
def test_other_files_are_not_taken_for_it(tmp_path, content):
    found = Found(tmp_path, content)
    assert found.report.format != "sacct" or found.report.fault is not None


def test_eagle_has_a_reader_of_its_own(tmp_path):
    header = (
        "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,"
        "submit_time,start_time,end_time,run_time,state,name,work_dir,submit_line"
    )
    line = (
        "5,u,a,p,normal,3600.0,2,36,4,184000.0,2019-01-02 08:00:00,2019-01-02 08:10:00,2019-01-02 08:40:00,"
        "1800.0,TIMEOUT,n,w,s"
    )
    path = tmp_path / "eagle.csv"
    path.write_text(f"{header}\n{line}\n", encoding="utf-8")
    assert recognise(path)[0].name == "eagle"
    found = Found(tmp_path, f"{header}\n{line}\n{line}\n")
    first, second = found.records
    assert (first.raw_id, second.raw_id, second.array_id) == ("5", "5_1", "5")
    assert found.rules == {"id-from-row": 1}
    assert (first.gpus_asked_milli, first.cpus, first.memory_mib, first.num_nodes) == (4000, 36, 184_000, 2)
    assert (first.cause, first.compute_s, first.limit.limit_s) == (EndCause.TIMEOUT, 1800, 3600)
