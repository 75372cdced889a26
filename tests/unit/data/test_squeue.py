"""The queue of Slurm's controller: which of its times are true, and what it says of GPUs."""

import json

import pytest
from slurm_exports import Found

from data.formats.squeue import COMMAND, FORMAT
from data.intake.driver import import_file, recognise
from data.intake.format import ReadOptions
from domain.attempts import EndCause

NAMES = (
    "JOBID", "PARTITION", "STATE", "SUBMIT_TIME", "START_TIME", "END_TIME", "NODES", "TRES_PER_NODE", "NAME"
)  # fmt: skip
RUNS = {
    "JOBID": "9",
    "PARTITION": "gpu",
    "STATE": "RUNNING",
    "SUBMIT_TIME": "1714514400",
    "START_TIME": "1714514460",
    "END_TIME": "1714600860",
    "NODES": "2",
    "TRES_PER_NODE": "gres/gpu:a100:4",
    "NAME": "train",
}


def text(*jobs, delimiter="|", names=NAMES):
    lines = [delimiter.join(names), *(delimiter.join(job.get(name, "") for name in names) for job in jobs)]
    return "".join(line + "\n" for line in lines)


def document(**more):
    job = {"job_id": 9, "job_state": ["RUNNING"], "submit_time": 1714514400, "start_time": 1714514460}
    return json.dumps({"jobs": [job | more]})


@pytest.mark.parametrize(
    ("state", "start_s", "end_s", "cause"),
    [
        ("RUNNING", 1714514460, None, EndCause.NOT_ENDED),
        ("PENDING", None, None, EndCause.NOT_ENDED),
        ("REQUEUE_HOLD", None, None, EndCause.NOT_ENDED),
        ("SPECIAL_EXIT", None, None, EndCause.NOT_ENDED),
        ("COMPLETED", 1714514460, 1714600860, EndCause.COMPLETED),
    ],
)
def test_times_that_are_expectations_are_not_read(tmp_path, state, start_s, end_s, cause):
    found = Found(tmp_path, text(RUNS | {"STATE": state}))
    assert (found.only.start_s, found.only.end_s, found.only.cause) == (start_s, end_s, cause)
    assert found.rules == {}


@pytest.mark.parametrize(
    ("per_node", "nodes", "milli", "kind"),
    [
        ("gres/gpu:a100:4", "2", 8000, "a100"),
        ("gres:gpu:2", "3", 6000, None),
        ("gpu", "1", 1000, None),
        ("N/A", "2", None, None),
        ("(null)", "2", None, None),
        ("gres/gpu:4", "", None, None),
        ("gres/shard:2", "1", None, None),
    ],
)
def test_gpus_are_those_of_each_node_times_the_nodes_or_not_known(tmp_path, per_node, nodes, milli, kind):
    record = Found(tmp_path, text(RUNS | {"TRES_PER_NODE": per_node, "NODES": nodes})).only
    assert (record.gpus_asked_milli, record.gpus_given_milli, record.gpu_type) == (milli, None, kind)


def test_json_tells_what_was_asked_for_and_given(tmp_path):
    tres = {"tres_req_str": "cpu=4,gres/gpu=4", "tres_alloc_str": "cpu=4,gres/gpu=4,gres/gpu:h100=4"}
    record = Found(tmp_path, document(**tres, memory_per_cpu={"set": True, "number": 1024}, cpus=4)).only
    assert (record.gpus_asked_milli, record.gpus_given_milli, record.gpu_type) == (4000, 4000, "h100")
    assert record.memory_mib == 4096


def test_gres_count_where_tres_are_not_of_gpus(tmp_path):
    more = {"tres_req_str": "cpu=4", "tres_per_node": "gres/gpu:4", "node_count": 2}
    found = Found(tmp_path, document(**more))
    assert found.only.gpus_asked_milli == 8000
    assert found.rules == {"gpus-disagree": 1}


def test_a_part_of_a_heterogeneous_job_is_one(tmp_path):
    record = Found(tmp_path, document(het_job_id={"set": True, "number": 8}, het_job_offset=1)).only
    assert (record.raw_id, record.het_id, record.het_offset) == ("9", "8", 1)


@pytest.mark.parametrize("delimiter", ["|", "@|@", "\t", ";", ","])
def test_any_delimiter_will_do_and_may_stand_in_the_name(tmp_path, delimiter):
    found = Found(tmp_path, text(RUNS | {"NAME": f"a{delimiter}b"}, delimiter=delimiter))
    assert found.report.format == "squeue"
    assert found.rules["surplus-delimiter"] == 1
    assert found.only.gpus_asked_milli == 8000


def test_columns_for_people_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "queue"
    path.write_text(
        "  JOBID PARTITION     NAME     USER ST  TIME  NODES NODELIST(REASON)\n  9 gpu x ana R 1:00 1 n1\n"
    )
    report = import_file(path, "squeue", ReadOptions(), None)
    assert report.fault["rule"] == "missing-column"
    assert "squeue --states=all" in report.fault["message"]
    assert import_file(path, "auto", ReadOptions(), None).fault["rule"] == "unknown-format"


def test_without_submissions_there_is_no_telling_attempts_apart(tmp_path):
    path = tmp_path / "queue"
    path.write_text(text(RUNS, names=[name for name in NAMES if name != "SUBMIT_TIME"]))
    assert "SUBMIT_TIME" in import_file(path, "squeue", ReadOptions(), None).fault["message"]


def test_an_object_that_is_no_job_is_rejected(tmp_path):
    path = tmp_path / "queue"
    path.write_text(json.dumps({"jobs": [{"job_id": 1}, json.loads(document())["jobs"][0]]}))
    report = import_file(path, "squeue", ReadOptions(), None)
    assert (report.rejected, report.accepted) == (1, 1)


def test_the_command_that_is_recommended_prints_what_is_recognised(tmp_path):
    assert COMMAND.count("%") == 17
    path = tmp_path / "queue"
    path.write_text(document())
    assert recognise(path)[0] is FORMAT
