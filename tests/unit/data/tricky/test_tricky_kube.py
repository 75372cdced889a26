"""Traps that real inventories and objects of Kubernetes have, each by its id, with the right behaviour."""

import pytest
from kube_objects import (
    at,
    condition,
    ended,
    imported,
    job,
    meta,
    pod,
    read,
    records,
    rules,
    running,
    stamp,
    workload,
    written,
)

from domain.attempts import EndCause, Observation


def one(id_, *values):
    return pytest.param(*values, id=id_)


@pytest.mark.parametrize(
    ("line", "gpus", "memory_mib"),
    [
        one("T17-unit-glued", "m31,8, 24GB", 8, 24 * 1024),
        one("T17-no-blank", "m31,2,12GB", 2, 12 * 1024),
        one("T17-na-is-not-zero", "m31,NA, 24GB", None, 24 * 1024),
        one("T17-no-memory", "m31,8,NA", 8, None),
        one("T17-trailing-comma", "m31,8, 24GB,", 8, 24 * 1024),
    ],
)
def test_machines_with_blanks_units_and_na(line, gpus, memory_mib, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(f"machineId, number of GPUs, single GPU mem\n{line}\n")
    (node,) = records(read(path))
    assert (node.node, node.num_gpus, node.gpu_memory_mib) == ("m31", gpus, memory_mib)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        one("T41-preempted", "Preempted", EndCause.PREEMPTED),
        one("T41-pods-ready", "PodsReadyTimeout", EndCause.BOOT_FAIL),
        one("T41-admission-check", "AdmissionCheck", EndCause.REQUEUED),
        one("T41-cluster-queue", "ClusterQueueStopped", EndCause.REQUEUED),
        one("T41-local-queue", "LocalQueueStopped", EndCause.REQUEUED),
        one("T41-deactivated", "Deactivated", EndCause.CANCELLED),
        one("T41-deactivated-old", "InactiveWorkload", EndCause.CANCELLED),
        one("T41-too-long", "DeactivatedDueToMaximumExecutionTimeExceeded", EndCause.TIMEOUT),
        one("T41-node", "NodeFailures", EndCause.NODE_FAIL),
    ],
)
def test_each_eviction_has_its_own_cause(reason, cause, tmp_path):
    admitted = workload(meta("w", "W"), 2, 4, [condition("Admitted", "08:10:00")])
    evicted = workload(
        meta("w", "W"),
        2,
        4,
        [condition("Admitted", "09:00:00", is_true=False), condition("Evicted", "09:00:00", reason=reason)],
    )
    rows = read(
        written(
            tmp_path / "w", [{"type": "ADDED", "object": admitted}, {"type": "MODIFIED", "object": evicted}]
        )
    )
    last = records(rows)[-1]
    assert (last.cause, last.reason) == (cause, reason)
    assert (last.start_s, last.end_s) == (at("08:10:00"), at("09:00:00"))
    assert last.observation is Observation.RIGHT_CENSORED


def test_an_eviction_for_an_unknown_reason_is_told_and_not_called_preemption(tmp_path):
    found = workload(meta("w", "W"), 1, 1, [condition("Evicted", "09:00:00", reason="NewInKueue9")])
    rows = read(written(tmp_path / "w", [found]))
    assert records(rows)[0].cause is EndCause.REQUEUED
    assert "unknown-state" in rules(rows)


NODE = """NodeName=gpu01 Arch=x86_64
   CPUAlloc=16 CPUTot=192 CPULoad=1.0
   Gres={gres}
   GresUsed={used}
   RealMemory=819200
   State=MIXED ThreadsPerCore=1
   Partitions=gpu
   CfgTRES={cfg}
   AllocTRES={alloc}
"""


UNTRACKED = "cpu=192,mem=800G,billing=192"
SHARED, TRACKED = "gpu:a100:4,shard:16", "gres/gpu=4,gres/shard=16"
USED_SHARES = "gpu:a100:1(IDX:0),shard:a100:2(0/4,1/4,1/4,0/4)"


@pytest.mark.parametrize(
    ("fields", "gpus", "in_use", "shards"),
    [
        one("T47-alloc-tres", ("gpu:h100:8", "N/A", "cpu=8,gres/gpu=8", "cpu=1,gres/gpu=3"), 8, 3, 0),
        one("T47-na-is-not-zero", ("gpu:h100:8", "N/A", "N/A", "N/A"), 8, None, 0),
        one("T48-not-tracked", ("gpu:h100:8", "gpu:h100:5(IDX:0-4)", UNTRACKED, "cpu=16"), 8, 5, 0),
        one("T48-only-used-says-so", ("(null)", "gpu:h100:5(IDX:0-4)", UNTRACKED, "cpu=16"), 5, 5, 0),
        one("T51-shards-are-no-gpus", (SHARED, "gpu:a100:0,shard:0", TRACKED, ""), 4, 0, 16),
        one("T51-one-shard-takes-a-gpu", (SHARED, USED_SHARES, TRACKED, ""), 4, 3, 16),
        one("T51-shards-of-tres", (SHARED, "(null)", TRACKED, "gres/gpu=1,gres/shard=5"), 4, 3, 16),
        one("T53-slices", ("gpu:a100:2,gpu:a100_1g.5gb:7", "gpu:a100:1(IDX:0)", "gres/gpu=9", ""), 2, 1, 0),
    ],
)
def test_gpus_of_a_node_where_fields_disagree(fields, gpus, in_use, shards, tmp_path):
    path = tmp_path / "nodes"
    path.write_text(NODE.format(**dict(zip(("gres", "used", "cfg", "alloc"), fields, strict=True))))
    (node,) = records(read(path))
    assert (node.num_gpus, node.num_gpus_in_use, node.num_shards) == (gpus, in_use, shards)


def test_t48_the_disagreement_is_told(tmp_path):
    path = tmp_path / "nodes"
    path.write_text(NODE.format(gres="gpu:h100:8", used="gpu:h100:5", cfg="cpu=192,billing=192", alloc=""))
    assert rules(read(path)) == ["gpus-disagree"]


@pytest.mark.parametrize(
    ("resource", "amount", "gpus_milli", "profile"),
    [
        one("T53-mig", "nvidia.com/mig-1g.5gb", 2, 2000, "1g.5gb"),
        one("T53-whole", "nvidia.com/gpu", "8", 8000, None),
        one("T53-time-sliced", "nvidia.com/gpu.shared", 1, None, None),
        one("T53-mig-shared", "nvidia.com/mig-1g.5gb.shared", 1, None, None),
        one("T53-percent", "tencent.com/vcuda-core", 50, 500, None),
    ],
)
def test_slices_and_shares_of_pods(resource, amount, gpus_milli, profile, tmp_path):
    rows = read(written(tmp_path / "p", [pod(meta("p", "P"), running(), resource=resource, amount=amount)]))
    (found,) = records(rows)
    assert (found.gpus_asked_milli, found.mig_profile) == (gpus_milli, profile)
    assert ("unknown-share" in rules(rows)) == (gpus_milli is None)


def test_t62_what_is_never_seen_again_has_no_end(tmp_path):
    first = written(tmp_path / "monday", [pod(meta("p", "P"), running())])
    imported(first, tmp_path / "h")
    second = written(tmp_path / "tuesday", [pod(meta("q", "Q", "10:00:00"), running("10:01:00"))])
    _, store = imported(second, tmp_path / "h")
    gone = next(one for one in store.records("c") if one.raw_id == "P")
    assert (gone.end_s, gone.cause) == (None, EndCause.NOT_ENDED)
    assert gone.observation is Observation.RIGHT_CENSORED


def test_t62_a_gap_of_a_watch_is_told_as_one(tmp_path):
    gone = {"kind": "Status", "code": 410, "message": "too old resource version: 1 (9)"}
    path = written(
        tmp_path / "watch",
        [{"type": "ADDED", "object": pod(meta("p", "P"), running())}, {"type": "ERROR", "object": gone}],
    )
    report, store = imported(path, tmp_path / "h")
    assert report.rules["watch-gap"] == 1
    assert report.facts["watch_gaps"] == 1
    assert [one.end_s for one in store.records("c")] == [None]


def test_t62_a_workload_that_was_collected_leaves_its_job(tmp_path):
    """The Job alone says less of queues, and still says all of its life."""
    done = [condition("Complete", "09:30:00")]
    (found,) = records(read(written(tmp_path / "j", [job(meta("train", "J"), 2, 4, done)])))
    assert (found.gpus_asked_milli, found.cause) == (8000, EndCause.COMPLETED)
    assert (found.start_s, found.end_s) == (at("08:00:30"), at("09:30:00"))


def test_a_stamp_without_an_offset_is_refused_not_guessed(tmp_path):
    found = pod(meta("p", "P", created="08:00:00"), running())
    found["metadata"]["creationTimestamp"] = stamp("08:00:00").removesuffix("Z")
    assert rules(read(written(tmp_path / "p", [found]))) == ["bad-time"]


def test_a_kill_that_nobody_accounts_for_is_no_natural_end(tmp_path):
    killed = {"phase": "Failed", **ended(137, "Error")}
    rows = read(written(tmp_path / "p", [pod(meta("p", "P"), killed)]))
    (found,) = records(rows)
    assert found.observation is Observation.RIGHT_CENSORED
    assert rules(rows) == ["killed-from-outside"]
