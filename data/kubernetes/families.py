"""Which objects of a file are one job: a Workload and its Job and its pods are counted once.

A first look over a file finds the objects that stand for gangs and who owns whom; if there are any, a second
look takes from their pods what a gang's own object does not say: when the first container started, on which
nodes, and whether the kernel ended one for want of memory. What is remembered is a few hundred bytes per
gang, so there is a limit to gangs, and none to pods or events.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from data.intake.rows import Notes, RejectedError, Unreadable
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError
from data.kubernetes.gangs import MAKERS, RANKS, gang_kind
from data.kubernetes.lives import Life, job_life, pod_life
from data.kubernetes.objects import Meta, instant_s, mapping, meta_of, safe, text
from data.kubernetes.people import group_keys, name_of, user_of
from data.kubernetes.resources import asked, pod_amounts
from data.kubernetes.watch import Seen
from domain.attempts import EndCause

MAX_GANGS: Final = 400_000
"""Most objects of one file that stand for gangs: about 300 MiB of memory."""

_MOST_NODES: Final = 64
_MOST_STEPS: Final = 6

Items = Iterable[tuple[int, Seen | Unreadable]]


class TooManyError(Exception):
    """A file has more gangs than are remembered."""


@dataclass(slots=True)
class Family:
    """The objects that are one job.

    Attributes:
        rank, teller: kind (by `RANKS`) and uid of the object that tells the job.
        created_s: when its first owner was created; None if that is not in the file.
        shown_id, name: of that owner.
        user: who submitted it, where any of its objects says so.
        limit_s: seconds that it may be active, where any of its objects says so.
        first_start_s, last_end_s: of its pods.
        is_oom: whether one of its pods ran out of memory.
        pod_gpus_milli: the most that one of its pods asks for.
        nodes: names of nodes of its pods.
        end: how its Job ended, for a Workload that says only that it did.
        admitted_s: when it was admitted last, as far as the rows so far say.
        evictions: evictions that the rows so far have told, by their instants: place and admission of each.
    """

    rank: int = len(RANKS)
    teller: str = ""
    created_s: float | None = None
    shown_id: str | None = None
    name: str | None = None
    user: str | None = None
    limit_s: float | None = None
    first_start_s: float | None = None
    last_end_s: float | None = None
    is_oom: bool = False
    pod_gpus_milli: int | None = None
    nodes: set[str] = field(default_factory=set)
    end: Life | None = None
    admitted_s: float | None = None
    evictions: dict[float, tuple[int, float | None]] = field(default_factory=dict)


class Families:
    """The families of one file."""

    def __init__(self) -> None:
        self._gangs: dict[str, int] = {}
        self._families: dict[str, Family] = {}
        self._parents: dict[str, str] = {}
        self._known_as: dict[str, str] = {}
        self.queues: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._families)

    def look(self, items: Items) -> None:
        """The first look: gangs, owners, names and queues.

        Raises:
            TooManyError: if there are more gangs than are remembered.
        """
        for seen in _readable(items):
            gang = gang_kind(seen.found)
            if gang is not None:
                self._add(gang, seen)
            elif seen.found.get("kind") == "LocalQueue":
                self._learn_queue(seen)
            if len(self._gangs) > MAX_GANGS:
                raise TooManyError
        for uid, rank in self._gangs.items():
            family = self._families.setdefault(self._up(uid), Family())
            if not family.teller or (rank, uid) < (family.rank, family.teller):
                family.rank, family.teller = rank, uid

    def look_again(self, items: Items) -> None:
        """The second look: what pods, and other objects of a gang, say that its teller does not."""
        for seen in _readable(items):
            try:
                gang = gang_kind(seen.found)
                if gang is not None:
                    self._learn(gang, seen)
                elif seen.found.get("kind") == "Pod":
                    family = self.of_pod(meta_of(seen.found))
                    if family is not None:
                        _learn_pod(family, seen)
            except RejectedError:
                continue  # its own row says why

    def root(self, meta: Meta) -> str:
        """The uid of the first owner of a gang's object, in the file or not."""
        return self._up(meta.uid)

    def of(self, meta: Meta) -> Family:
        """The family of a gang's object."""
        return self._families[self.root(meta)]

    def of_pod(self, meta: Meta) -> Family | None:
        """The family of a pod, if an object of it is in the file."""
        for key in _pod_keys(meta):
            family = self._families.get(self._up(self._known_as.get(key, key)))
            if family is not None:
                return family
        return None

    def _add(self, gang: str, seen: Seen) -> None:
        try:
            meta = meta_of(seen.found)
        except RejectedError:
            return  # its own row says why
        self._gangs[meta.uid] = RANKS[gang]
        owner = meta.controller
        if owner is not None and owner.kind in MAKERS and owner.kind != "Pod" and owner.uid != meta.uid:
            self._parents[meta.uid] = owner.uid
        if gang in {"PodGroup", "Workload"}:
            self._known_as[f"{gang} {meta.namespace}/{meta.name}"] = meta.uid
            self._known_as.update({one.uid: meta.uid for one in meta.owners if one.kind == "Pod"})
        if gang == "Workload":
            spec, status = mapping(seen.found.get("spec")), mapping(seen.found.get("status"))
            local, queue = (
                text(spec.get("queueName")),
                text(mapping(status.get("admission")).get("clusterQueue")),
            )
            if local is not None and queue is not None:
                self.queues[meta.namespace, local] = queue

    def _learn_queue(self, seen: Seen) -> None:
        meta = mapping(seen.found.get("metadata"))
        name, namespace = text(meta.get("name")), text(meta.get("namespace"))
        queue = text(mapping(seen.found.get("spec")).get("clusterQueue"))
        if name is not None and queue is not None:
            self.queues[namespace or "", name] = queue

    def _learn(self, gang: str, seen: Seen) -> None:
        meta = meta_of(seen.found)
        family = self.of(meta)
        family.user = user_of(meta) or family.user
        family.limit_s = limit_of(seen) or family.limit_s
        if self.root(meta) == meta.uid:
            family.created_s = created_s(meta)
            family.shown_id, family.name = meta.shown_id, name_of(meta, seen.found)
        if gang == "Job":
            life = job_life(seen.found, Notes())
            family.end = life if life.cause.is_end_of_attempt else family.end

    def _up(self, uid: str) -> str:
        for _ in range(_MOST_STEPS):
            parent = self._parents.get(uid)
            if parent is None:
                return uid
            uid = parent
        return uid


def limit_of(seen: Seen) -> float | None:
    """Seconds that an object says it may be active; None where it says nothing."""
    spec = mapping(seen.found.get("spec"))
    for name in ("activeDeadlineSeconds", "maximumExecutionTimeSeconds"):
        value = spec.get(name, mapping(spec.get("runPolicy")).get(name))
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**31:
            return float(value)
    return None


def _pod_keys(meta: Meta) -> Iterator[str]:
    yield from group_keys(meta)
    yield meta.uid
    if meta.controller is not None:
        yield meta.controller.uid


def _learn_pod(family: Family, seen: Seen) -> None:
    notes = Notes()
    life = pod_life(seen.found, notes)
    if life.start_s is not None:
        known = family.first_start_s
        family.first_start_s = life.start_s if known is None else min(known, life.start_s)
    if life.end_s is not None:
        family.last_end_s = max(life.end_s, family.last_end_s or life.end_s)
    family.is_oom |= life.cause is EndCause.OUT_OF_MEMORY
    spec = mapping(seen.found.get("spec"))
    annotations = mapping(mapping(seen.found.get("metadata")).get("annotations"))
    gpus_milli = asked(pod_amounts(spec, notes), spec, annotations, notes).gpus_milli
    if gpus_milli is not None:
        family.pod_gpus_milli = max(gpus_milli, family.pod_gpus_milli or 0)
    node = safe(spec.get("nodeName"))
    if node is not None and len(family.nodes) < _MOST_NODES:
        family.nodes.add(node)


def _readable(items: Items) -> Iterator[Seen]:
    """What can be read; where the file breaks, what stands before."""
    try:
        for _, item in items:
            if not isinstance(item, Unreadable):
                yield item
    except BrokenFileError:
        return  # reading the rows comes to it again, and says so


def created_s(meta: Meta) -> float:
    """When an object was submitted.

    Raises:
        RejectedError: if it does not say, or not as a time.
    """
    found = instant_s(meta.created, "creationTimestamp")
    if found is None:
        raise RejectedError(ImportRule.NO_SUBMIT, "it has no metadata.creationTimestamp")
    return found
