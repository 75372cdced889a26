"""Jobs from objects of Kubernetes: gangs once, lives from where they are told, ends with their causes."""

import json

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
    template,
    workload,
    written,
)

from data.formats import FORMATS
from data.intake.driver import recognise
from data.intake.format import Reading, ReadOptions
from domain.attempts import UNKNOWN_LIMIT, UNLIMITED, EndCause, Limit, LimitKind, Observation

JOB = ("Job", "train", "J")


def jobs_pods(*clocks):
    return [
        pod(meta(f"train-{k}", f"P{k}", owner=JOB), running(clock), amount=4)
        for k, clock in enumerate(clocks)
    ]


def test_a_pod_that_nobody_owns_is_a_job(tmp_path):
    path = written(tmp_path / "p", [pod(meta("p", "P", labels={"user": "ann"}), running(), amount=2)])
    (found,) = records(read(path))
    assert (found.raw_id, found.shown_id, found.pool, found.account, found.user) == (
        "P",
        "ml/p",
        "ml",
        "ml",
        "ann",
    )
    assert (found.submit_s, found.start_s, found.end_s) == (at("08:00:00"), at("08:01:00"), None)
    assert (found.gpus_asked_milli, found.gpus_given_milli) == (2000, 2000)
    assert (found.cause, found.limit) == (EndCause.NOT_ENDED, UNLIMITED)


def test_a_pending_pod_has_asked_and_was_given_nothing(tmp_path):
    waiting = {
        "phase": "Pending",
        "conditions": [condition("PodScheduled", "08:00:00", is_true=False, reason="Unschedulable")],
    }
    (found,) = records(read(written(tmp_path / "p", [pod(meta("p", "P"), waiting, amount=2)])))
    assert (found.gpus_asked_milli, found.gpus_given_milli, found.start_s) == (2000, None, None)
    assert (found.reason, found.observation) == ("Unschedulable", Observation.NEVER_RAN)


@pytest.mark.parametrize(
    ("status", "metadata", "cause"),
    [
        ({"phase": "Succeeded", **ended(0, "Completed")}, {}, EndCause.COMPLETED),
        ({"phase": "Failed", **ended(1, "Error")}, {}, EndCause.FAILED),
        ({"phase": "Failed", **ended(137, "OOMKilled")}, {}, EndCause.OUT_OF_MEMORY),
        (
            {"phase": "Failed", **ended(143, "Error")},
            {"deletionTimestamp": stamp("09:00:30")},
            EndCause.CANCELLED,
        ),
        ({"phase": "Failed", "reason": "DeadlineExceeded", **ended(137, "Error")}, {}, EndCause.TIMEOUT),
        ({"phase": "Failed", "reason": "Evicted", **ended(137, "Error")}, {}, EndCause.NODE_FAIL),
        (
            {
                "phase": "Failed",
                "conditions": [condition("DisruptionTarget", "09:00:00", reason="PreemptionByScheduler")],
                **ended(143, "Error"),
            },
            {},
            EndCause.PREEMPTED,
        ),
    ],
)
def test_how_a_pod_ended(status, metadata, cause, tmp_path):
    (found,) = records(read(written(tmp_path / "p", [pod(meta("p", "P", **metadata), status)])))
    assert (found.cause, found.end_s) == (cause, at("09:00:00"))


def test_a_job_and_its_pods_are_one_gang(tmp_path):
    for order in (1, -1):
        objects = [job(meta("train", "J"), 2, 4), *jobs_pods("08:02:00", "08:03:00")][::order]
        rows = read(written(tmp_path / "j", objects))
        (found,) = records(rows)
        assert (found.raw_id, found.gpus_asked_milli, found.start_s) == ("J", 8000, at("08:02:00"))
        assert rules(rows) == ["part-of-gang"] * 2


def test_a_workload_tells_its_job_under_the_jobs_own_key(tmp_path):
    objects = [
        *jobs_pods("08:02:00"),
        workload(
            meta("job-train-1a2b3", "W", "08:00:02", owner=JOB),
            2,
            4,
            [condition("Admitted", "08:01:00")],
            admission={"clusterQueue": "research"},
        ),
        job(meta("train", "J"), 2, 4, activeDeadlineSeconds=3600),
    ]
    rows = read(written(tmp_path / "w", objects))
    (found,) = records(rows)
    assert (found.raw_id, found.submit_s, found.name, found.pool) == (
        "J",
        at("08:00:00"),
        "train",
        "research",
    )
    assert (found.start_s, found.gpus_asked_milli) == (at("08:01:00"), 8000)
    assert found.limit == Limit(LimitKind.FINITE, 3600.0)
    assert rules(rows) == ["part-of-gang"] * 2


def test_pods_alone_are_parts_of_a_gang_where_they_say_so(tmp_path):
    labels = [{"batch.kubernetes.io/job-completion-index": str(k)} for k in range(2)]
    objects = [
        pod(meta(f"t-{k}", f"P{k}", owner=JOB, labels=labels[k]), running(), amount=4) for k in range(2)
    ]
    found = records(read(written(tmp_path / "p", objects)))
    assert [(one.het_id, one.het_offset, one.gpus_asked_milli) for one in found] == [
        ("J", 0, 4000),
        ("J", 1, 4000),
    ]
    assert {one.name for one in found} == {"train"}
    assert {one.limit for one in found} == {UNKNOWN_LIMIT}


def test_pods_alone_that_do_not_say_so_are_siblings(tmp_path):
    found = records(read(written(tmp_path / "p", jobs_pods("08:02:00", "08:03:00"))))
    assert [(one.raw_id, one.array_id, one.het_id) for one in found] == [("P0", "J", None), ("P1", "J", None)]


def test_pods_of_a_pod_group_of_kueue_are_told_by_its_workload(tmp_path):
    labels = {"kueue.x-k8s.io/pod-group-name": "g"}
    owners = [{"kind": "Pod", "name": f"p{k}", "uid": f"P{k}"} for k in range(2)]
    objects = [
        *(pod(meta(f"p{k}", f"P{k}", labels=labels), running(), amount=1) for k in range(2)),
        workload(meta("g", "W", ownerReferences=owners), 2, 1, [condition("Admitted", "08:01:00")]),
    ]
    (found,) = records(read(written(tmp_path / "w", objects)))
    assert (found.raw_id, found.gpus_asked_milli) == ("W", 2000)


def test_a_pod_group_of_volcano_counts_its_least_members(tmp_path):
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta("g", "G"),
        "spec": {"minMember": 3, "queue": "vision"},
        "status": {"phase": "Running"},
    }
    pods = [
        pod(meta(f"p{k}", f"P{k}", annotations={"scheduling.k8s.io/group-name": "g"}), running(), amount=2)
        for k in range(3)
    ]
    (found,) = records(read(written(tmp_path / "g", [group, *pods])))
    assert (found.gpus_asked_milli, found.pool, found.start_s) == (6000, "vision", at("08:01:00"))
    group["spec"]["minResources"] = {"nvidia.com/gpu": "6", "cpu": "500m"}
    (found,) = records(read(written(tmp_path / "g", [group])))
    assert (found.gpus_asked_milli, found.cpus) == (6000, 0.5)


def test_a_job_of_volcano_sums_its_tasks(tmp_path):
    found_job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": meta("v", "V"),
        "spec": {
            "queue": "vision",
            "tasks": [
                {"replicas": 1, "template": template(amount=0)},
                {"replicas": 3, "template": template(amount=8)},
            ],
        },
        "status": {"state": {"phase": "Completed", "lastTransitionTime": stamp("09:00:00")}},
    }
    (found,) = records(read(written(tmp_path / "v", [found_job])))
    assert (found.gpus_asked_milli, found.pool) == (24_000, "vision")
    assert (found.cause, found.end_s) == (EndCause.COMPLETED, at("09:00:00"))


def test_a_ray_job_its_cluster_and_its_submitter_are_one(tmp_path):
    workers = template(amount=4, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": meta("r", "R"),
        "spec": {
            "rayClusterSpec": {
                "headGroupSpec": {"template": template(amount=0)},
                "workerGroupSpecs": [{"replicas": 2, "template": workers}],
            }
        },
        "status": {
            "jobStatus": "SUCCEEDED",
            "startTime": stamp("08:05:00"),
            "endTime": stamp("09:05:00"),
        },
    }
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": meta("r-c", "C", owner=("RayJob", "r", "R")),
        "spec": ray["spec"]["rayClusterSpec"],
    }
    submitter = job(meta("r-s", "S", owner=("RayJob", "r", "R")), 1, 0)
    worker = pod(meta("r-w", "P", owner=("RayCluster", "r-c", "C")), running("08:04:00"), amount=4)
    (found,) = records(read(written(tmp_path / "r", [worker, cluster, submitter, ray])))
    assert (found.raw_id, found.gpus_asked_milli, found.gpu_type) == ("R", 8000, "nvidia-h100-80gb-hbm3")
    assert (found.start_s, found.end_s, found.cause) == (at("08:04:00"), at("09:05:00"), EndCause.COMPLETED)


def test_a_training_job_of_kubeflow_sums_its_replicas(tmp_path):
    found_job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta("t", "T"),
        "spec": {
            "runPolicy": {"activeDeadlineSeconds": 60},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template(amount=8)},
                "Worker": {"replicas": 3, "template": template(amount=8)},
            },
        },
        "status": {"conditions": [condition("Succeeded", "09:00:00")], "startTime": stamp("08:00:10")},
    }
    (found,) = records(read(written(tmp_path / "t", [found_job])))
    assert (found.gpus_asked_milli, found.limit.limit_s, found.end_s) == (32_000, 60.0, at("09:00:00"))


def test_a_failed_job_whose_pod_ran_out_of_memory_did_so(tmp_path):
    oom = pod(meta("train-x", "P", owner=JOB), {"phase": "Failed", **ended(137, "OOMKilled")}, amount=4)
    failed = [condition("Failed", "09:00:05", reason="BackoffLimitExceeded")]
    (found,) = records(read(written(tmp_path / "j", [job(meta("train", "J"), 1, 4, failed), oom])))
    assert found.cause is EndCause.OUT_OF_MEMORY


def test_a_job_beyond_its_deadline_timed_out(tmp_path):
    failed = [condition("Failed", "09:00:05", reason="DeadlineExceeded")]
    (found,) = records(
        read(written(tmp_path / "j", [job(meta("train", "J"), 1, 4, failed, activeDeadlineSeconds=9)]))
    )
    assert (found.cause, found.limit.limit_s) == (EndCause.TIMEOUT, 9.0)


def test_evictions_are_attempts_and_the_last_one_ends_the_job(tmp_path):
    again = [condition("Admitted", "09:30:00"), condition("Evicted", "09:30:00", is_true=False)]
    seen = [
        [condition("Admitted", "08:10:00")],
        [
            condition("Admitted", "09:00:00", is_true=False),
            condition("Evicted", "09:00:00", reason="Preempted"),
        ],
        again,
        [*again, condition("Finished", "10:00:00", reason="Succeeded")],
    ]
    events = [{"type": "MODIFIED", "object": workload(meta("w", "W"), 1, 8, one)} for one in seen]
    _, store = imported(written(tmp_path / "w", events), tmp_path / "h")
    found = store.records("c")
    assert [(one.attempt, one.cause, one.start_s, one.end_s) for one in found] == [
        (0, EndCause.PREEMPTED, at("08:10:00"), at("09:00:00")),
        (1, EndCause.COMPLETED, at("09:30:00"), at("10:00:00")),
    ]


def test_later_events_update_and_the_same_file_changes_nothing(tmp_path):
    done = {"phase": "Succeeded", **ended(0, "Completed")}
    events = [
        {"type": "ADDED", "object": pod(meta("p", "P"), {"phase": "Pending"})},
        {"type": "MODIFIED", "object": pod(meta("p", "P"), running())},
        {
            "type": "BOOKMARK",
            "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}},
        },
        {"type": "MODIFIED", "object": pod(meta("p", "P"), done)},
        {"type": "DELETED", "object": pod(meta("p", "P", deletionTimestamp=stamp("09:30:00")), done)},
    ]
    path = written(tmp_path / "watch", events)
    report, store = imported(path, tmp_path / "h")
    (found,) = store.records("c")
    assert (found.cause, found.end_s, report.read) == (EndCause.COMPLETED, at("09:00:00"), 5)
    again, _ = imported(path, tmp_path / "h")
    assert again.was_known
    assert store.records("c") == [found]


def test_what_a_watch_sees_go_ended_then(tmp_path):
    gone = pod(meta("p", "P", deletionTimestamp=stamp("08:30:00")), running())
    (found,) = records(read(written(tmp_path / "w", [{"type": "DELETED", "object": gone}])))
    assert (found.cause, found.end_s) == (EndCause.CANCELLED, at("08:30:00"))


@pytest.mark.parametrize(
    "shape", ["lines", "pretty list", "list of the API", "array", "array on a line", "documents", "one line"]
)
def test_shapes_of_kubectl_and_the_api_are_read_alike(shape, tmp_path):
    pods = [pod(meta(f"p{k}", f"P{k}"), running()) for k in range(3)]
    bare = [{key: value for key, value in one.items() if key not in {"kind", "apiVersion"}} for one in pods]
    text = {
        "lines": "\n".join(map(json.dumps, pods)),
        "pretty list": json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}, indent=4),
        "list of the API": json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": bare}),
        "array": json.dumps(pods, indent=1),
        "array on a line": json.dumps(pods) + "\n",
        "documents": "\n".join(json.dumps(one, indent=4) for one in pods),
        "one line": json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}),
    }[shape]
    path = tmp_path / "found"
    path.write_text(text)
    assert recognise(path)[0].name == "kubernetes"
    assert [one.raw_id for one in records(read(path))] == ["P0", "P1", "P2"]


def test_a_list_that_breaks_keeps_what_stood_before(tmp_path):
    pods = [pod(meta(f"p{k}", f"P{k}"), running()) for k in range(3)]
    path = tmp_path / "list"
    path.write_text(json.dumps({"items": [job(meta("train", "J"), 1, 1), *pods], "kind": "List"})[:-300])
    report, store = imported(path, tmp_path / "h")
    assert (report.read, report.rejected, report.rules["cut-short"]) == (4, 1, 1)
    assert {one.raw_id for one in store.records("c")} == {"J", "P0", "P1"}


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": "X"}}, "not-a-job"),
        ({"no": "kind"}, "not-a-job"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "no-job-id"),
        ({"kind": "Pod", "metadata": {"name": "p", "uid": "P"}}, "no-submit"),
        ({"kind": "Pod", "metadata": {"uid": "P", "creationTimestamp": "yesterday"}}, "bad-time"),
    ],
)
def test_what_is_no_job_is_rejected_by_itself(found, rule, tmp_path):
    rows = list(
        FORMATS["kubernetes"].rows(
            Reading(written(tmp_path / "x", [found, pod(meta("p", "P"), running())]), ReadOptions())
        )
    )
    assert rules(rows) == [rule]
    assert len(records(rows)) == 1


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        (meta("train-x7k2p", "P", owner=JOB), "train"),
        (
            meta(
                "web-7d9f-abcde",
                "P",
                owner=("ReplicaSet", "web-7d9f", "S"),
                labels={"pod-template-hash": "7d9f"},
            ),
            "web",
        ),
        (meta("night-ab12c", "P", generateName="night-"), "night"),
        (meta("exp-20260302-1", "P"), "exp-20260302-1"),
    ],
)
def test_names_lose_what_was_generated_only_where_the_object_says_so(metadata, name, tmp_path):
    (found,) = records(read(written(tmp_path / "p", [pod(metadata, running())])))
    assert (found.name, found.shown_id) == (name, f"ml/{metadata['name']}")


def test_a_local_queue_is_its_cluster_queue_where_the_file_says_so(tmp_path):
    queue = {
        "kind": "LocalQueue",
        "metadata": {"name": "team", "namespace": "ml"},
        "spec": {"clusterQueue": "research"},
    }
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    found = pod(meta("p", "P", labels=labels), running())
    assert records(read(written(tmp_path / "a", [found])))[0].pool == "team"
    assert records(read(written(tmp_path / "b", [found, queue])))[0].pool == "research"


def test_a_fraction_of_kai_is_thousandths(tmp_path):
    found = pod(meta("p", "P", annotations={"gpu-fraction": "0.25"}), running(), resource="cpu", amount=1)
    assert records(read(written(tmp_path / "p", [found])))[0].gpus_asked_milli == 250


def test_a_claim_is_an_unknown_number_not_zero(tmp_path):
    found = pod(meta("p", "P"), running(), resource="cpu", amount=1)
    found["spec"]["resourceClaims"] = [{"name": "gpu"}]
    rows = read(written(tmp_path / "p", [found]))
    assert records(rows)[0].gpus_asked_milli is None
    assert rules(rows) == ["unknown-share"]


def test_containers_that_run_before_the_others_do_not_add_up(tmp_path):
    found = pod(meta("p", "P"), running(), amount=2)
    found["spec"]["initContainers"] = [{"resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "4"}}}]
    (record,) = records(read(written(tmp_path / "p", [found])))
    assert (record.gpus_asked_milli, record.cpus) == (2000, 4.0)


@pytest.mark.parametrize("first", ["garbage", "[1]", "{", '{"kind": "Po', "{}", "null"])
def test_a_first_line_that_is_broken_costs_itself_only(first, tmp_path):
    path = tmp_path / "x"
    path.write_text(first + "\n" + json.dumps(pod(meta("p", "P"), running())) + "\n")
    rows = read(path, "kubernetes")
    assert len(rows) == 2
    assert len(records(rows)) == 1
