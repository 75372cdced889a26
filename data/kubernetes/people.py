"""Whose work an object is, which queue it waits in, what it is called: by labels, in a documented order."""

from typing import Final

from data.kubernetes.objects import Meta, Object, mapping, safe, text

LOCAL_QUEUE: Final = "kueue.x-k8s.io/queue-name"

_QUEUES: Final = (
    "scheduling.volcano.sh/queue-name", "volcano.sh/queue-name", "kai.scheduler/queue", "runai/queue",
    "yunikorn.apache.org/queue",
)  # fmt: skip
_USERS: Final = (
    "hub.jupyter.org/username", "notebooks.kubeflow.org/creator", "workflows.argoproj.io/creator",
    "yunikorn.apache.org/username", "run.ai/user", "app.kubernetes.io/created-by", "username", "user",
    "owner", "submitter", "creator",
)  # fmt: skip
_GROUPS: Final = (
    "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io", "pod-group-name",
)  # fmt: skip
_POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_OTHER_GANGS: Final = ("ray.io/cluster", "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name")
_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def user_of(meta: Meta) -> str | None:
    """Who submitted it, by the first label or annotation that says so."""
    return meta.said(*_USERS)


def local_queue_of(meta: Meta, spec: Object) -> str | None:
    """The LocalQueue of Kueue that it waits in."""
    if meta.kind == "Workload":
        return text(spec.get("queueName"))
    return meta.said(LOCAL_QUEUE)


def other_queue_of(meta: Meta, spec: Object) -> str | None:
    """The queue of another scheduler (Volcano, KAI, Run:ai, YuniKorn) that it waits in."""
    named = text(spec.get("queue")) if meta.kind in {"PodGroup", "Job"} else None
    return named or meta.said(*_QUEUES)


def name_of(meta: Meta, found: Object) -> str:
    """What it is called, without what was generated for it alone, so that repetitions have one name.

    An object that another made is called as its maker; of one that says how its name began before it was
    generated the rest is left out. Names are not guessed at otherwise.
    """
    owner = meta.controller
    if owner is not None and owner.name:
        digest = text(meta.labels.get("pod-template-hash"))
        return owner.name.removesuffix(f"-{digest}") if digest and owner.kind == "ReplicaSet" else owner.name
    begin = text(mapping(found.get("metadata")).get("generateName"))
    if begin is not None and meta.name.startswith(begin) and begin.rstrip("-."):
        return begin.rstrip("-.")
    return meta.name


def group_keys(meta: Meta) -> list[str]:
    """Names under which a gang that a pod says it is part of may be known."""
    keys = [
        f"PodGroup {meta.namespace}/{group}" for name in _GROUPS if (group := meta.said(name)) is not None
    ]
    if (group := meta.said(_POD_GROUP)) is not None:
        keys.append(f"Workload {meta.namespace}/{group}")
    return keys


def gang_of(meta: Meta) -> tuple[str | None, int | None]:
    """The gang that a pod says it is part of, for where the gang has no object, and its place in it."""
    owner = meta.controller
    index = meta.said(_INDEX)
    if index is not None and owner is not None:
        place = int(index) if index.isascii() and index.isdecimal() and len(index) < 8 else None
        return owner.uid, place
    if keys := group_keys(meta):
        return safe(keys[0].partition(" ")[2]), None
    for name in _OTHER_GANGS:
        if (gang := meta.said(name)) is not None:
            return safe(f"{meta.namespace}/{gang}"), None
    return None, None
