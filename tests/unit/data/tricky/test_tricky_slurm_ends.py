"""Real traps of Slurm's states and GPUs, each with the behaviour that is right."""

import pytest
from slurm_exports import JOB, JSON_JOB, PENDING, Found, case, sacct, slurmdbd

from data.intake.text import hashed
from data.rules import Rule
from domain.attempts import EndCause, Observation

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("state", "actor"),
    [
        case("T37", "CANCELLED by 1060117917", hashed("1060117917")),
        case("T37", "CANCELLED+", None, note="cut"),
        case("T37", "CANCELLED+(Reason)", None, note="reason"),
    ],
)
def test_who_cancelled_a_job_is_kept_as_a_hash_and_censors_its_life(tmp_path, state, actor):
    record = Found(tmp_path, sacct(JOB | {"State": state})).only
    assert (record.cause, record.actor) == (EndCause.CANCELLED, actor)
    assert record.observation is Observation.RIGHT_CENSORED
    assert "1060117917" not in repr(record)


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        case("T38", "TIMEOUT", EndCause.TIMEOUT),
        case("T38", "OUT_OF_MEMORY", EndCause.OUT_OF_MEMORY, note="oom"),
        case("T38", "OUT_OF_ME+", EndCause.OUT_OF_MEMORY, note="cut"),
        case("T38", "NODE_FAIL", EndCause.NODE_FAIL, note="node"),
        case("T38", "PREEMPTED", EndCause.PREEMPTED, note="preempted"),
        case("T38", "BOOT_FAIL", EndCause.BOOT_FAIL, note="boot"),
        case("T38", "DEADLINE", EndCause.DEADLINE, note="deadline"),
    ],
)
def test_every_end_is_an_end(tmp_path, state, cause):
    record = Found(tmp_path, sacct(JOB | {"State": state})).only
    assert record.cause is cause
    assert record.cause.is_end_of_attempt


@pytest.mark.parametrize(
    "state", [case("T38", "TELEPORTED", note="unknown"), case("T38", "?", note="no-word")]
)
def test_a_state_that_nobody_knows_has_not_ended_and_is_told(tmp_path, state):
    for content in (sacct(JOB | {"State": state}), slurmdbd(JSON_JOB | {"state": {"current": [state]}})):
        found = Found(tmp_path, content)
        assert not found.only.cause.is_end_of_attempt
        assert found.rules == {"unknown-state": 1}


@pytest.mark.parametrize(
    ("tres", "milli", "gpu_type"),
    [
        case("T45", "cpu=4,gres/gpu:a100=1,gres/gpu=1", 1000, "a100"),
        case("T45", "gres/gpu:a100=2,gres/gpu:v100=1", 3000, None, note="typed-only"),
        case("T45", "gres/gpu=4,gres/gpu:a100=3", 4000, None, note="rest-untyped"),
        case("T45", "gres/gpu:a100_1g.5gb=2,gres/gpu=2", 2000, "a100", note="mig"),
    ],
)
def test_typed_and_untyped_gpus_are_not_added_up(tmp_path, tres, milli, gpu_type):
    record = Found(tmp_path, sacct(JOB | {"AllocTRES": tres})).only
    assert (record.gpus_given_milli, record.gpu_type) == (milli, gpu_type)
    assert record.mig_profile == ("1g.5gb" if "1g" in tres else None)


@pytest.mark.parametrize("word", [case("T47", word) for word in ("", "N/A", "None", "(null)")])
def test_gpus_that_are_not_said_are_unknown_and_never_none(tmp_path, word):
    job = JOB | {"AllocTRES": word, "ReqTRES": word, "ReqGRES": word, "AllocGRES": word}
    record = Found(tmp_path, sacct(job)).only
    assert (record.gpus_asked_milli, record.gpus_given_milli) == (None, None)


@pytest.mark.parametrize("asked", [case("T47", "billing=4,cpu=4,mem=16G,node=1", note="not-in-the-request")])
def test_gpus_that_only_the_allocation_names_were_asked_for(tmp_path, asked):
    found = Found(tmp_path, sacct(JOB | {"ReqTRES": asked}))
    assert (found.only.gpus_asked_milli, found.only.gpus_given_milli) == (1000, 1000)
    assert found.rules == {"gpus-disagree": 1}


NO_GPUS = "billing=4,cpu=4,mem=16G,node=1"


@pytest.mark.parametrize(
    "content",
    [
        case("T48", sacct(*[JOB | {"ReqTRES": NO_GPUS, "AllocTRES": NO_GPUS}] * 2)),
        case(
            "T48",
            slurmdbd(JSON_JOB | {"tres": {"allocated": JSON_JOB["tres"]["allocated"][:4], "requested": []}}),
            note="json",
        ),
    ],
)
def test_a_file_that_counts_resources_and_no_gpus_is_refused(tmp_path, content):
    found = Found(tmp_path, content)
    assert found.report.fault["rule"] == Rule.NO_GPU_COUNTS
    assert "AccountingStorageTRES=gres/gpu" in found.report.fault["message"]


@pytest.mark.parametrize("columns", [case("T48", ("ReqTRES", "AllocTRES"), note="all-empty")])
def test_a_file_that_counts_nothing_is_read_and_gpus_are_unknown(tmp_path, columns):
    record = Found(tmp_path, sacct(JOB | dict.fromkeys(columns, ""))).only
    assert record.gpus_asked_milli is None


@pytest.mark.parametrize("partition", [case("T48", "cpu", note="mixed-cluster")])
def test_jobs_without_gpus_of_a_cluster_that_counts_them_have_none(tmp_path, partition):
    jobs = (JOB | {"Partition": partition, "ReqTRES": NO_GPUS, "AllocTRES": NO_GPUS}, JOB)
    found = Found(tmp_path, sacct(*jobs))
    assert [one.gpus_given_milli for one in found.records] == [0, 1000]
    assert found.rules == {}


@pytest.mark.parametrize("gres", [case("T48", "gpu:h100:5(IDX:0-4)", note="gres-is-right")])
def test_gres_counts_where_tres_does_not(tmp_path, gres):
    job = JOB | {"ReqTRES": NO_GPUS, "AllocTRES": NO_GPUS, "AllocGRES": gres}
    found = Found(tmp_path, sacct(job))
    assert (found.only.gpus_given_milli, found.only.gpu_type) == (5000, "h100")
    assert found.rules == {"gpus-disagree": 2}


@pytest.mark.parametrize(
    ("tres", "milli", "shards"),
    [
        case("T51", "cpu=4,gres/shard=4", None, 4),
        case("T51", "cpu=4,gres/shard:a100=4,gres/shard=4", None, 4, note="typed"),
        case("T51", "cpu=4,gres/mps=50", 500, None, note="percent"),
        case("T51", "cpu=4,gres/gpu=1,gres/shard=4", 1000, None, note="beside-a-gpu"),
    ],
)
def test_shares_of_a_device_are_no_devices(tmp_path, tres, milli, shards):
    found = Found(tmp_path, sacct(JOB | {"AllocTRES": tres, "ReqTRES": tres}))
    assert (found.only.gpus_given_milli, found.only.gpu_shards) == (milli, shards)
    assert found.rules == ({"shares-unsized": 1} if shards else {})


@pytest.mark.parametrize(
    "job",
    [
        case("T54", PENDING),
        case("T54", PENDING | {"State": "CANCELLED by 5", "End": JOB["End"]}, note="gone"),
    ],
)
def test_what_never_ran_asked_for_gpus_and_was_given_none_that_is_known(tmp_path, job):
    record = Found(tmp_path, sacct(job)).only
    assert (record.gpus_asked_milli, record.gpus_given_milli) == (1000, None)
