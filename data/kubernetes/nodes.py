"""Nodes and queues of Kubernetes as records: allocatable devices, slices and shares, taints, quotas."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from data.intake.rows import Notes, Record
from data.intake.rules import ImportRule
from data.intake.text import clean
from data.inventory_records import NodeRecord, PoolRecord
from data.kubernetes.objects import Meta, Object, conditions, mapping, objects, text
from data.kubernetes.quantities import parse_quantity
from data.kubernetes.resources import PRODUCTS, WHOLE, Amounts, amounts, mig_profile, product_of

INVENTORY_KINDS: Final = frozenset({"Node", "ClusterQueue", "Queue"})

_CLOSING_TAINTS: Final = frozenset(
    {
        "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
        "node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized", "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted", "karpenter.sh/disruption",
    }
)  # fmt: skip
"""Taints that no job is meant to tolerate; others, such as `nvidia.com/gpu`, keep strangers out only."""


def node_record(cluster: str, meta: Meta, found: Object, notes: Notes) -> NodeRecord:
    """A Node: what it can give out, which is what it has less what is broken."""
    status = mapping(found.get("status"))
    allocatable = amounts(mapping(status.get("allocatable")), notes)
    product, product_slice = _product(meta)
    devices = int(sum((allocatable.get(name, Fraction(0)) for name in WHOLE), Fraction(0)))
    slices = {profile: int(amount) for name, amount in allocatable.items() if (profile := mig_profile(name))}
    shards = int(allocatable.get("nvidia.com/gpu.shared", Fraction(0)))
    if product_slice is not None:
        slices[product_slice] = slices.get(product_slice, 0) + devices
        devices = 0
    replicas = _label_int(meta, "nvidia.com/gpu.replicas")
    if replicas is not None and replicas > 1:
        shards, devices = shards or devices, (shards or devices) // replicas
    _tell_broken(status, allocatable, notes)
    memory = allocatable.get("memory")
    gpu_memory = _label_int(meta, "nvidia.com/gpu.memory")
    return NodeRecord(
        cluster=cluster,
        node=clean(meta.name, notes, "the node") or meta.uid,
        num_gpus=devices,
        gpu_type=product,
        gpu_memory_mib=gpu_memory,
        cpus=float(allocatable["cpu"]) if "cpu" in allocatable else None,
        memory_mib=None if memory is None else float(memory / 2**20),
        state=_state(found),
        is_available=_is_available(found),
        mig_slices=tuple(sorted((profile, number) for profile, number in slices.items() if number)),
        num_shards=shards,
    )


def pool_records(cluster: str, meta: Meta, found: Object, notes: Notes) -> Sequence[Record]:
    """A queue: a ClusterQueue of Kueue, a Queue of Volcano or KAI, with the GPUs that are its own."""
    name = clean(meta.name, notes, "the queue") or meta.uid
    spec = mapping(found.get("spec"))
    if meta.kind == "ClusterQueue":
        gpus = _nominal(spec, notes)
    elif meta.group is not None and meta.group.startswith("scheduling.run.ai"):
        gpus = _quota(mapping(mapping(spec.get("resources")).get("gpu")).get("quota"))
    else:
        own = amounts(mapping(spec.get("deserved")) or mapping(spec.get("capability")), notes)
        gpus = _whole(own)
    return [PoolRecord(cluster, name, gpus)]


def _nominal(spec: Object, notes: Notes) -> int | None:
    """GPUs of its nominal quotas over all flavors; None if it has a quota of none of them."""
    total: Fraction | None = None
    for group in objects(spec.get("resourceGroups")):
        for flavor in objects(group.get("flavors")):
            for one in objects(flavor.get("resources")):
                if text(one.get("name")) in WHOLE:
                    quota = amounts({"quota": one.get("nominalQuota")}, notes).get("quota", Fraction(0))
                    total = quota + (total or Fraction(0))
    return None if total is None else int(total)


def _whole(found: Amounts) -> int | None:
    named = [amount for name, amount in found.items() if name in WHOLE]
    return int(sum(named, Fraction(0))) if named else None


def _quota(value: object) -> int | None:
    """A quota of KAI: GPUs, or -1 for no limit."""
    try:
        quota = parse_quantity(str(value))
    except ValueError:
        return None
    return int(quota) if quota >= 0 else None


def _product(meta: Meta) -> tuple[str | None, str | None]:
    label = next((found for name in PRODUCTS if (found := text(meta.labels.get(name))) is not None), None)
    return product_of(label)


def _label_int(meta: Meta, name: str) -> int | None:
    label = text(meta.labels.get(name))
    return (
        int(label)
        if label is not None and label.isascii() and label.isdecimal() and len(label) < 10
        else None
    )


def _tell_broken(status: Object, allocatable: Amounts, notes: Notes) -> None:
    capacity = mapping(status.get("capacity"))
    has = amounts({name: value for name, value in capacity.items() if name in WHOLE}, notes)
    for name, amount in has.items():
        given = allocatable.get(name, Fraction(0))
        if given != amount:
            notes.add(
                ImportRule.GPUS_DISAGREE, f"capacity has {int(amount)} of {name}, allocatable {int(given)}"
            )


def _state(found: Object) -> str:
    """Words as `kubectl get nodes` has them."""
    ready = conditions(mapping(found.get("status"))).get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.is_true else "NotReady"]
    if mapping(found.get("spec")).get("unschedulable") is True:
        words.append("SchedulingDisabled")
    return ",".join(words)


def _is_available(found: Object) -> bool | None:
    spec = mapping(found.get("spec"))
    taints = {
        text(one.get("key")) for one in objects(spec.get("taints")) if one.get("effect") != "PreferNoSchedule"
    }
    if spec.get("unschedulable") is True or taints & _CLOSING_TAINTS:
        return False
    ready = conditions(mapping(found.get("status"))).get("Ready")
    return None if ready is None else ready.is_true
