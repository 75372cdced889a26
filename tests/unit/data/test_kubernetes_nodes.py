"""Nodes and queues of Kubernetes as an inventory."""

from typing import Any

import pytest
from kube_objects import condition, imported, meta, pod, read, records, rules, running, written

from data.intake.driver import recognise

READY = [condition("Ready", "08:00:00")]


def node(allocatable: dict[str, Any], labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta("n1", "N", labels=labels or {}),
        "spec": more.get("spec", {}),
        "status": {"allocatable": allocatable, "conditions": READY, **more.get("status", {})},
    }


def queue(name: str, *quotas: Any) -> dict[str, Any]:
    flavors = [
        {"name": f"f{k}", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": one}]}
        for k, one in enumerate(quotas)
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"resourceGroups": [{"flavors": flavors}]},
    }


PRODUCT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"


@pytest.mark.parametrize(
    ("allocatable", "labels", "devices"),
    [
        ({"nvidia.com/gpu": "8"}, {PRODUCT: H100}, (8, (), 0, H100.lower())),
        ({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"}, {}, (0, (("1g.5gb", 7),), 0, None)),
        ({"nvidia.com/gpu": "14"}, {PRODUCT: f"{A100}-MIG-1g.5gb"}, (0, (("1g.5gb", 14),), 0, A100.lower())),
        ({"nvidia.com/gpu": "16"}, {REPLICAS: "4", PRODUCT: "Tesla-T4-SHARED"}, (4, (), 16, "tesla-t4")),
        ({"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"}, {REPLICAS: "4"}, (4, (), 16, None)),
        ({"cpu": "4"}, {}, (0, (), 0, None)),
    ],
)
def test_devices_slices_and_shares_are_told_apart(allocatable, labels, devices, tmp_path):
    (found,) = records(read(written(tmp_path / "n", [node(allocatable, labels)])))
    assert (found.num_gpus, found.mig_slices, found.num_shards, found.gpu_type) == devices


@pytest.mark.parametrize(
    ("more", "is_available"),
    [
        ({}, True),
        ({"spec": {"unschedulable": True}}, False),
        ({"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}}, False),
        ({"status": {"conditions": [condition("Ready", "08:00:00", is_true=False)]}}, False),
        ({"status": {"conditions": []}}, None),
    ],
)
def test_whether_jobs_may_start_there(more, is_available, tmp_path):
    (found,) = records(read(written(tmp_path / "n", [node({"nvidia.com/gpu": 8}, **more)])))
    assert found.is_available is is_available


def test_broken_devices_are_told(tmp_path):
    rows = read(
        written(tmp_path / "n", [node({"nvidia.com/gpu": "7"}, status={"capacity": {"nvidia.com/gpu": "8"}})])
    )
    assert records(rows)[0].num_gpus == 7
    assert rules(rows) == ["gpus-disagree"]


def test_quotas_of_all_flavors_add_up(tmp_path):
    path = written(
        tmp_path / "q", [queue("research", "80", 8), queue("cpu-only"), node({"nvidia.com/gpu": 8})]
    )
    assert recognise(path)[0].name == "kubernetes-nodes"
    _, store = imported(path, tmp_path / "h")
    inventory = store.inventory("c")
    assert [(one.pool, one.gpus) for one in inventory.pools] == [("cpu-only", None), ("research", 88)]
    assert [one.node for one in inventory.nodes] == ["n1"]


def test_nodes_and_pods_in_one_file_are_both_kept(tmp_path):
    path = written(tmp_path / "both", [node({"nvidia.com/gpu": 8}), pod(meta("p", "P"), running())])
    report, store = imported(path, tmp_path / "h")
    assert (report.format, report.rejected) == ("kubernetes", 0)
    assert len(store.records("c")) == len(store.inventory("c").nodes) == 1
