"""Objects that stand for gangs of pods: which kinds there are, and how many pods of what sort each has."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from data.intake.rows import Notes
from data.kubernetes.objects import NOTHING, Object, count, kind_of, mapping, objects
from data.kubernetes.resources import Asked, added, amounts, asked, pod_amounts

RANKS: Final = {
    "Workload": 0,
    "RayJob": 1,
    "VolcanoJob": 2,
    "KubeflowJob": 2,
    "JobSet": 2,
    "Job": 3,
    "PodGroup": 4,
    "RayCluster": 5,
}
"""Of several objects that stand for the same gang the one with the lowest rank tells it: it knows most of
queues, admissions and evictions."""

_KUBEFLOW: Final = frozenset({"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob"})

MAKERS: Final = frozenset(
    {*RANKS, *_KUBEFLOW, "AppWrapper", "TrainJob", "LeaderWorkerSet", "SparkApplication", "Pod"}
    - {"VolcanoJob"}
)
"""Kinds of owners that are one gang themselves; others (CronJob, Deployment) make many."""


class PodSet(NamedTuple):
    """Some pods that are alike."""

    pods: int
    template: Object


def gang_kind(found: Object) -> str | None:
    """The name in `RANKS` of an object's kind; None if it stands for no gang."""
    group, kind = kind_of(found)
    if kind == "Job" and group is not None and group.startswith("batch.volcano.sh"):
        return "VolcanoJob"
    if kind in _KUBEFLOW:
        return "KubeflowJob"
    return kind if kind in RANKS and kind not in {"VolcanoJob", "KubeflowJob"} else None


def gang_asked(
    kind: str, found: Object, pod_gpus_milli: int | None, notes: Notes
) -> tuple[Asked, int | None]:
    """What a gang asks for in all, and its number of pods where that is said.

    Args:
        kind: its name in `RANKS`.
        found: the object.
        pod_gpus_milli: what one of its pods asks for, where pods of it are in the file.
        notes: of the row.
    """
    spec = mapping(found.get("spec"))
    if kind == "PodGroup":
        return _of_group(spec, pod_gpus_milli, notes)
    sets = [one for one in _pod_sets(kind, spec) if one.pods]
    total = added((one.pods, pod_amounts(mapping(one.template.get("spec")), notes)) for one in sets)
    first = _widest(sets, notes)
    annotations = mapping(mapping(first.get("metadata")).get("annotations"))
    found_asked = asked(total, mapping(first.get("spec")), annotations, notes)
    pods = sum(one.pods for one in sets)
    if "gpu-fraction" in annotations and found_asked.gpus_milli:
        found_asked = Asked(
            found_asked.gpus_milli * pods,
            None,
            found_asked.gpu_type,
            found_asked.cpus,
            found_asked.memory_mib,
        )
    return found_asked, pods


def _of_group(spec: Object, pod_gpus_milli: int | None, notes: Notes) -> tuple[Asked, int | None]:
    members = count(spec.get("minMember"), 1)
    least = mapping(spec.get("minResources"))
    if least:
        return asked(amounts(least, notes), NOTHING, NOTHING, notes), members
    return Asked(None if pod_gpus_milli is None else members * pod_gpus_milli), members


def _widest(sets: list[PodSet], notes: Notes) -> Object:
    """The template whose pods have the most GPUs: its selector names the type."""

    def gpus(one: PodSet) -> Fraction:
        found = pod_amounts(mapping(one.template.get("spec")), notes)
        return max(
            (amount for name, amount in found.items() if "gpu" in name or "/mig-" in name),
            default=Fraction(0),
        )

    return max(sets, key=gpus).template if sets else NOTHING


def _pod_sets(kind: str, spec: Object) -> Iterator[PodSet]:
    match kind:
        case "Workload":
            yield from _counted(spec.get("podSets"), "count")
        case "VolcanoJob":
            yield from _counted(spec.get("tasks"), "replicas")
        case "Job":
            yield _of_job(spec)
        case "RayJob":
            yield from _of_ray(mapping(spec.get("rayClusterSpec")))
        case "RayCluster":
            yield from _of_ray(spec)
        case "JobSet":
            for one in objects(spec.get("replicatedJobs")):
                job = _of_job(mapping(mapping(one.get("template")).get("spec")))
                yield PodSet(count(one.get("replicas"), 1) * job.pods, job.template)
        case "KubeflowJob":
            specs = [mapping(value) for name, value in spec.items() if name.endswith("ReplicaSpecs")]
            yield from _counted([one for found in specs for one in found.values()], "replicas")


def _counted(sets: Any, number: str) -> Iterator[PodSet]:
    for one in objects(sets):
        yield PodSet(count(one.get(number), 1), mapping(one.get("template")))


def _of_job(spec: Object) -> PodSet:
    """Pods that a Job has at once: no more than are left to complete."""
    at_once = count(spec.get("parallelism"), 1)
    if spec.get("completions") is not None:
        at_once = min(at_once, count(spec.get("completions"), at_once))
    return PodSet(at_once, mapping(spec.get("template")))


def _of_ray(spec: Object) -> Iterator[PodSet]:
    head = mapping(mapping(spec.get("headGroupSpec")).get("template"))
    if head:
        yield PodSet(1, head)
    for one in objects(spec.get("workerGroupSpecs")):
        pods = count(one.get("replicas"), count(one.get("minReplicas"), 1)) * count(one.get("numOfHosts"), 1)
        yield PodSet(pods, mapping(one.get("template")))
