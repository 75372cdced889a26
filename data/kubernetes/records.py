"""Objects to records: a pod by itself, a gang by the object that tells it, nodes and queues."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from data.intake.instants import Times, resolve
from data.intake.rows import Notes, Record, RejectedError, quoted
from data.intake.rules import ImportRule
from data.intake.text import clean
from data.kubernetes.conditions import DISRUPTIONS
from data.kubernetes.families import Families, Family, created_s, limit_of
from data.kubernetes.gangs import gang_asked, gang_kind
from data.kubernetes.lives import LIVES, Life, pod_life
from data.kubernetes.nodes import INVENTORY_KINDS, node_record, pool_records
from data.kubernetes.objects import Meta, Object, conditions, instant_s, mapping, meta_of, objects, text
from data.kubernetes.people import gang_of, local_queue_of, name_of, other_queue_of, user_of
from data.kubernetes.resources import Asked, asked, pod_amounts
from data.kubernetes.watch import Seen
from data.records import AttemptRecord
from data.stamps import Doubt, Instant
from domain.attempts import UNKNOWN_LIMIT, UNLIMITED, EndCause, Limit, LimitKind

_SILENT: Final = frozenset({"LocalQueue", "ResourceFlavor", "PriorityClass", "WorkloadPriorityClass"})
"""Kinds that are read for what they say of others, and are no job themselves."""

_LIMITED_BY_OWNER: Final = frozenset({"PodGroup", "RayCluster"})
"""Kinds that have no limit of their own, while what made them may."""


class Reader:
    """Reads the objects of one file, in its order."""

    def __init__(self, cluster: str, families: Families) -> None:
        """Read for a cluster; the families are those of the same file."""
        self._cluster = cluster
        self._families = families
        self.kinds: Counter[str] = Counter()
        self.gaps = 0

    def parse(self, seen: Seen, notes: Notes) -> Sequence[Record]:
        """Records of an object or an event.

        Raises:
            RejectedError: if it is no job, node or queue, or lacks what makes one.
        """
        if seen.event in {"BOOKMARK", "SYNC"}:
            return []
        if seen.event == "ERROR":
            return self._gap(seen, notes)
        gang = gang_kind(seen.found)
        kind = gang or text(seen.found.get("kind")) or ""
        if kind in INVENTORY_KINDS:
            return self._inventory(kind, seen, notes)
        if kind in _SILENT:
            return []
        if gang is None and kind != "Pod":
            raise RejectedError(
                ImportRule.NOT_A_JOB, f"an object of kind {quoted(kind)} is no job and no node"
            )
        meta = meta_of(seen.found)
        self.kinds[kind] += 1
        for what, value in (("the name", meta.name), ("the namespace", meta.namespace)):
            if "\N{REPLACEMENT CHARACTER}" in value:
                notes.add(ImportRule.NOT_UTF8, f"bytes of {what} that are not UTF-8 were replaced")
        return self._pod(meta, seen, notes) if gang is None else self._gang(gang, meta, seen, notes)

    def _gap(self, seen: Seen, notes: Notes) -> Sequence[Record]:
        self.gaps += 1
        message = text(seen.found.get("message")) or text(seen.found.get("reason")) or "no reason given"
        notes.add(ImportRule.WATCH_GAP, f"the watch broke off: {quoted(message)}")
        return []

    def _inventory(self, kind: str, seen: Seen, notes: Notes) -> Sequence[Record]:
        meta = meta_of(seen.found, needs_uid=False)
        self.kinds[kind] += 1
        if kind != "Node":
            return pool_records(self._cluster, meta, seen.found, notes)
        node = node_record(self._cluster, meta, seen.found, notes)
        return [replace(node, is_available=False, state="Deleted") if seen.event == "DELETED" else node]

    def _pod(self, meta: Meta, seen: Seen, notes: Notes) -> Sequence[Record]:
        if self._families.of_pod(meta) is not None:
            notes.add(
                ImportRule.PART_OF_GANG, "a pod whose job is in the file; the job's own object counts it"
            )
            return []
        spec = mapping(seen.found.get("spec"))
        of_pod = asked(pod_amounts(spec, notes), spec, meta.annotations, notes)
        life = _deleted(pod_life(seen.found, notes), meta, seen)
        het_id, het_offset = gang_of(meta)
        owner = meta.controller
        limit_s = limit_of(seen)
        record = self._record(meta, seen, of_pod, life, created_s(meta), notes)
        return [
            replace(
                record,
                het_id=het_id,
                het_offset=het_offset,
                array_id=owner.uid if owner is not None and het_id is None else None,
                limit=_limit(limit_s, is_silent=owner is not None),
                nodes=clean(text(spec.get("nodeName")), notes, "the node"),
                num_nodes=1 if text(spec.get("nodeName")) else None,
            )
        ]

    def _gang(self, gang: str, meta: Meta, seen: Seen, notes: Notes) -> Sequence[Record]:
        family = self._families.of(meta)
        if family.teller != meta.uid:
            found = f"a {gang} whose job is told by another object of the file"
            notes.add(ImportRule.PART_OF_GANG, found)
            return []
        of_gang, _ = gang_asked(gang, seen.found, family.pod_gpus_milli, notes)
        life = _deleted(LIVES[gang](seen.found, notes), meta, seen)
        attempt, life = _attempt(family, life, seen.found)
        life = _completed(gang, family, life, attempt)
        if (
            life.is_eviction
            and life.start_s is None
            and "Admitted" in conditions(mapping(seen.found.get("status")))
        ):
            notes.add(ImportRule.BEFORE_RECORD, "it was admitted before the file begins; when is not said")
        submit_s = created_s(meta) if family.created_s is None else family.created_s
        limit_s = limit_of(seen) or family.limit_s
        is_silent = gang in _LIMITED_BY_OWNER or family.shown_id is None
        record = self._record(meta, seen, of_gang, life, submit_s, notes)
        return [
            replace(
                record,
                raw_id=clean(self._families.root(meta), notes, "the uid") or record.raw_id,
                attempt=attempt,
                shown_id=family.shown_id or record.shown_id,
                name=clean(family.name, notes, "the name") or record.name,
                user=record.user or clean(family.user, notes, "the user"),
                limit=_limit(limit_s, is_silent=is_silent),
                nodes=",".join(sorted(family.nodes)) or None,
                num_nodes=len(family.nodes) or None,
            )
        ]

    def _record(
        self, meta: Meta, seen: Seen, found: Asked, life: Life, submit_s: float, notes: Notes
    ) -> AttemptRecord:
        times = _times(submit_s, life, notes)
        spec = mapping(seen.found.get("spec"))
        priority = text(spec.get("priorityClassName")) or meta.said("kueue.x-k8s.io/priority-class")
        return AttemptRecord(
            cluster=self._cluster,
            raw_id=meta.uid,
            submit_s=times.submit_s,
            shown_id=meta.shown_id,
            pool=clean(self._pool(meta, seen.found), notes, "the queue"),
            account=meta.namespace or None,
            user=clean(user_of(meta), notes, "the user"),
            name=clean(name_of(meta, seen.found), notes, "the name"),
            qos=clean(priority, notes, "the priority class"),
            gpus_asked_milli=found.gpus_milli,
            gpus_given_milli=found.gpus_milli if times.start_s is not None else None,
            gpu_type=clean(found.gpu_type, notes, "the product"),
            mig_profile=found.mig_profile,
            cpus=found.cpus,
            memory_mib=found.memory_mib,
            start_s=times.start_s,
            end_s=times.end_s,
            cause=life.cause,
            reason=clean(life.reason, notes, "the reason"),
        )

    def _pool(self, meta: Meta, found: Object) -> str | None:
        """ClusterQueue, LocalQueue, another scheduler's queue, or the namespace: the first that is known."""
        spec = mapping(found.get("spec"))
        queue = text(mapping(mapping(found.get("status")).get("admission")).get("clusterQueue"))
        local = local_queue_of(meta, spec)
        if queue is not None and meta.kind == "Workload":
            return queue
        if local is not None:
            return self._families.queues.get((meta.namespace, local), local)
        return other_queue_of(meta, spec) or meta.namespace or None


def _deleted(life: Life, meta: Meta, seen: Seen) -> Life:
    """The life of an object that a watch saw go: what has not ended by itself ended then."""
    if seen.event != "DELETED" or life.cause.is_end_of_attempt:
        return life
    end_s = instant_s(meta.deleted, "deletionTimestamp")
    target = conditions(mapping(seen.found.get("status"))).get("DisruptionTarget")
    if target is not None and target.is_true and target.reason in DISRUPTIONS:
        return replace(life, end_s=end_s, cause=DISRUPTIONS[target.reason], reason=target.reason)
    return replace(life, end_s=end_s, cause=EndCause.CANCELLED, reason="deleted")


def _attempt(family: Family, life: Life, found: Object) -> tuple[int, Life]:
    """The place of an attempt: evictions that came before, as the object counts them or rows have told.

    An object that was evicted no longer says since when it had been admitted; an earlier row may have.
    """
    stats = mapping(mapping(found.get("status")).get("schedulingStats"))
    counted = sum(
        number for one in objects(stats.get("evictions")) if isinstance(number := one.get("count"), int)
    )
    if not life.is_eviction:
        family.admitted_s = life.start_s if life.start_s is not None else family.admitted_s
        return (counted or len(family.evictions)), life
    at_s = life.end_s if life.end_s is not None else -1.0
    if at_s not in family.evictions:
        start_s = life.start_s if life.start_s is not None else family.admitted_s
        family.evictions[at_s] = (len(family.evictions), start_s)
        family.admitted_s = None
    place, start_s = family.evictions[at_s]
    return (counted - 1 if counted else place), replace(life, start_s=start_s)


def _completed(gang: str, family: Family, life: Life, attempt: int) -> Life:
    """A gang's life with what its pods and its Job say beside."""
    pods_tell = gang != "Workload" and family.first_start_s is not None
    is_missing = life.start_s is None and attempt == 0 and not life.is_eviction
    if pods_tell or is_missing:
        life = replace(life, start_s=family.first_start_s)
    if life.is_eviction or not life.cause.is_end_of_attempt:
        return life
    if life.end_s is None:
        life = replace(life, end_s=family.last_end_s)
    if gang == "Workload" and family.end is not None:
        life = replace(life, cause=family.end.cause, reason=family.end.reason or life.reason)
    if life.cause is EndCause.FAILED and family.is_oom:
        life = replace(life, cause=EndCause.OUT_OF_MEMORY, reason="OOMKilled")
    return life


def _limit(limit_s: float | None, *, is_silent: bool) -> Limit:
    """A limit that an object says; without one it has none, unless somebody else may know of one."""
    if limit_s is not None:
        return Limit(LimitKind.FINITE, limit_s)
    return UNKNOWN_LIMIT if is_silent else UNLIMITED


def _times(submit_s: float, life: Life, notes: Notes) -> Times:
    found = {"submit": submit_s, "start": life.start_s, "end": life.end_s}
    instants = {
        name: None if at_s is None else Instant(at_s, Doubt.NONE, at_s) for name, at_s in found.items()
    }
    return resolve(instants, None, notes)
