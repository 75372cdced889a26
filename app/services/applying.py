"""A decision applied to a cluster that our executors enforce: facts, placements, shares, documents.

Everything happens in the caller's one transaction: either the log, the placements and the documents on the
nodes all say that a job runs, or none does.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, UnknownResource
from app.services import actions, modes, observe, places, placing, push
from app.services.epochs import is_there
from app.services.facts import Fact, FactKind
from app.store import clusters, executors, live
from app.store.tables import ClusterRow, EnforcedBy, JobRow, LiveState, LogRow, Mode, PlacementRow
from domain.cluster import Gpu, Node
from solver.packing.consenting import HOST_SHARE_PCT, RIDER_SHARE_PCT, Packable, Pair, pair_up

Json = dict[str, Any]

_SOURCE: Final = "plan"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass
class _Scene:
    session: Session
    cluster: ClusterRow
    at_s: float
    clock: Clock
    plan_id: str | None
    jobs: dict[str, JobRow]
    dropped: list[Json]

    def record(self, facts: Sequence[Fact]) -> set[str]:
        """Record facts; those refused are dropped from the plan. Returns the jobs of the others."""
        done = observe.record(self.session, self.cluster, facts, source=_SOURCE, clock=self.clock)
        for refused in done.rejected:
            self.dropped.append({"job_id": refused.job_id, "why": refused.reason})
        return {fact.job_id for fact in facts} - {refused.job_id for refused in done.rejected}


def log_decision(
    session: Session, cluster: ClusterRow, *, at_s: float, idle_gpus: int, source: str, clock: Clock
) -> int:
    """Write into the log that a decision is made here, with all it depends on; returns its number.

    `at_s` does not lie before the log's last entry.
    """
    accepted = actions.accepted(session, cluster)
    return live.append(
        session,
        cluster,
        LogRow(
            cluster=cluster.name,
            seq=0,
            kind=FactKind.DECIDED.value,
            at_s=at_s,
            data={"idle_gpus": idle_gpus, "is_lending": modes.lends(cluster)}
            | ({} if accepted is None else {"accepted": accepted}),
            source=source,
            recorded_at=clock.now(),
        ),
    )


def apply(
    session: Session,
    cluster: ClusterRow,
    answer: Mapping[str, Any],
    *,
    seq_seen: int,
    at_s: float,
    clock: Clock,
    plan_id: str | None,
) -> Json:
    """Carry a decision out as far as reality still allows it; the caller holds the cluster's lock.

    The decision was made as of log entry `seq_seen`. A job submitted since may own the GPUs that it lends,
    so starts of guests are dropped then; the next decision makes up for it. Own starts stay. Whether the
    cluster lends is asked now, not when the decision began: the kill switch may have been thrown since.

    Returns:
        What the plan comes to: starts with their GPUs, riders, send-backs, conversions, holds, changed
        shares, and what was dropped and why.
    """
    jobs = {job.job_id: job for job in live.unfinished(session, cluster.name)}
    scene = _Scene(session, cluster, at_s, clock, plan_id, jobs, [])
    sent_back = _send_back(scene, answer["send_backs"])
    conversions = _convert(scene, answer["conversions"])
    starts = _start(scene, answer, why_no_guest=_why_no_guest(scene, seq_seen))
    packs = modes.lends(cluster) and cluster.mode == Mode.ENFORCE  # nobody reviews who rides along
    riders = _pack(scene, answer["starts"]) if packs else []
    shares = _share(scene)
    session.flush()
    push.publish(session, cluster.name, clock)
    return {
        "starts": starts,
        "riders": riders,
        "send_backs": sent_back,
        "conversions": conversions,
        "holds": list(answer["holds"]),
        "shares": shares,
        "dropped": scene.dropped,
    }


def _why_no_guest(scene: _Scene, seq_seen: int) -> str | None:
    """Why no guest may start by this decision; None where guests may."""
    if not modes.lends(scene.cluster):
        return modes.STOPPED
    since = live.entries(scene.session, scene.cluster.name, seq_seen, scene.cluster.seq)
    is_news = any(entry.kind == FactKind.SUBMITTED for entry in since)
    return "jobs have arrived since: decided again next time" if is_news else None


def _send_back(scene: _Scene, job_ids: Sequence[str]) -> list[str]:
    facts = [
        Fact(FactKind.SENT_BACK, scene.at_s, job_id, {"reason": "its GPUs are wanted by their owner"})
        for job_id in job_ids
    ]
    done = scene.record(facts)
    for job_id in done:
        unplace(scene.session, scene.cluster.name, job_id)
    return [job_id for job_id in job_ids if job_id in done]


def unplace(session: Session, cluster: str, job_id: str) -> None:
    """Want a job's placements no more."""
    for placement in live.wanted_of(session, cluster, job_id):
        placement.is_wanted = False


def stop_what_left(session: Session, cluster: ClusterRow, clock: Clock) -> None:
    """Want the placements of jobs that no longer run (cancelled, or ended by the sender's word) no more."""
    running = {job.job_id for job in live.running(session, cluster.name)}
    left = [row for row in live.wanted_placements(session, cluster.name) if row.job_id not in running]
    for placement in left:
        placement.is_wanted = False
    if left:
        session.flush()
        push.publish(session, cluster.name, clock)


def pause(session: Session, cluster: ClusterRow, job_id: str, *, is_paused: bool, clock: Clock) -> None:
    """Let a running job stand still, or go on; the caller holds the cluster's lock.

    It keeps its GPUs and its place, and its time counts as running: whoever pauses a job slows that job.

    Raises:
        UnknownResource: if there is no such job.
        Conflict: if it does not run, or not through our executors.
    """
    if cluster.enforced_by != EnforcedBy.EXECUTORS:
        raise Conflict(f"the jobs of cluster {cluster.name} are run by its scheduler: pause them there")
    job = live.job(session, cluster.name, job_id)
    if job is None:
        raise UnknownResource(f"cluster {cluster.name} has no job {job_id!r}")
    if job.state != LiveState.RUNNING:
        raise Conflict(f"job {job_id} does not run, it is {job.state}")
    for placement in live.wanted_of(session, cluster.name, job_id):
        placement.state = "paused" if is_paused else "running"
    session.flush()
    push.publish(session, cluster.name, clock)


def _convert(scene: _Scene, job_ids: Sequence[str]) -> list[str]:
    converted = convert(scene.session, scene.cluster, job_ids, at_s=scene.at_s, clock=scene.clock)
    for job_id in converted:
        for placement in live.wanted_of(scene.session, scene.cluster.name, job_id):
            if placement.role == "guest":
                placement.role = "own"
    return converted


def convert(
    session: Session, cluster: ClusterRow, job_ids: Sequence[str], *, at_s: float, clock: Clock
) -> list[str]:
    """Note that guests have become their pools' own; those that no longer run, or are own, are left out."""
    if not job_ids:
        return []
    jobs = live.jobs_by_id(session, cluster.name, job_ids)
    guests = [
        job_id
        for job_id in job_ids
        if job_id in jobs and jobs[job_id].state == LiveState.RUNNING and jobs[job_id].own_from_s is None
    ]
    facts = [Fact(FactKind.CONVERTED, at_s, job_id) for job_id in guests]
    observe.record(session, cluster, facts, source=_SOURCE, clock=clock)
    return guests


def _start(scene: _Scene, answer: Mapping[str, Any], *, why_no_guest: str | None) -> list[Json]:
    guests = {start["job_id"]: bool(start["is_guest"]) for start in answer["starts"]}
    wanted: list[JobRow] = []
    for job_id, is_guest in guests.items():
        job = scene.jobs.get(job_id)
        if job is None or job.state != LiveState.WAITING:
            scene.dropped.append({"job_id": job_id, "why": "it no longer waits"})
        elif is_guest and why_no_guest is not None:
            scene.dropped.append({"job_id": job_id, "why": why_no_guest})
        else:
            wanted.append(job)
    placed = placing.place_wanted(scene.jobs, _there(scene), wanted, guests, answer["holds"])
    scene.dropped += [{"job_id": job_id, "why": why} for job_id, why in placed.dropped.items()]
    facts = [
        Fact(
            FactKind.STARTED,
            scene.at_s,
            job.job_id,
            {
                "is_guest": guests[job.job_id],
                "gpus": [[gpu.node, gpu.index] for gpu in placed.gpus[job.job_id]],
            },
        )
        for job in wanted
        if job.job_id in placed.gpus
    ]
    done = scene.record(facts)
    started = [job for job in wanted if job.job_id in done]
    for job in started:
        _want(scene, job, "guest" if job.is_guest else "own")
    return [{"job_id": job.job_id, "is_guest": job.is_guest, "gpus": job.gpus} for job in started]


def _there(scene: _Scene) -> list[Node]:
    """Nodes that are there."""
    return [
        Node(row.name, row.num_gpus, row.gpu_type)
        for row in clusters.nodes(scene.session, scene.cluster.name)
        if is_there(scene.cluster, row)
    ]


def _pack(scene: _Scene, starts: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Let consenting jobs that wait ride along with consenting jobs that run."""
    own = {start["job_id"] for start in starts if not start["is_guest"]}
    willing = [job for job in scene.jobs.values() if _is_packable(job)]
    waiting = [job for job in willing if job.state == LiveState.WAITING]
    if not waiting:
        return []
    has_rider = {job.host_job_id for job in scene.jobs.values()}
    hosts = [
        job
        for job in willing
        if job.state == LiveState.RUNNING and job.host_job_id is None and job.job_id not in has_rider
    ]
    memory_mib = executors.gpu_memory_mib(scene.session, scene.cluster.name)
    pairs = pair_up(
        [Packable(job.job_id, job.spec["memory_mib"]) for job in waiting],
        [
            Packable(
                job.job_id,
                job.spec["memory_mib"],
                memory_mib.get((str(job.gpus[0][0]), int(job.gpus[0][1])), 0),
            )
            for job in hosts
            if job.gpus
        ],
    )
    pairs = _lawful(scene, pairs)
    facts = [
        Fact(
            FactKind.STARTED,
            scene.at_s,
            pair.rider,
            {
                "is_guest": pair.rider not in own,
                "gpus": scene.jobs[pair.host].gpus,
                "host_job_id": pair.host,
                "share_pct": RIDER_SHARE_PCT,
            },
        )
        for pair in pairs
    ]
    done = scene.record(facts)
    riding = [pair for pair in pairs if pair.rider in done]
    for pair in riding:
        _want(scene, scene.jobs[pair.rider], "rider")
    return [{"job_id": pair.rider, "host_job_id": pair.host} for pair in riding]


def _lawful(scene: _Scene, pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs that keep the rules of packing; the others are dropped from the plan."""
    rides: dict[str, Sequence[Gpu]] = {
        pair.rider: [Gpu(str(node), int(index)) for node, index in scene.jobs[pair.host].gpus]
        for pair in pairs
    }
    refused = places.refused(scene.jobs, _there(scene), rides)
    scene.dropped += [{"job_id": job_id, "why": why} for job_id, why in refused.items()]
    return [pair for pair in pairs if pair.rider not in refused]


def _is_packable(job: JobRow) -> bool:
    return bool(job.num_gpus == 1 and job.spec.get("is_shareable") and job.spec.get("memory_mib"))


def _share(scene: _Scene) -> list[Json]:
    """Squeeze who shares a GPU, swell who has it alone again."""
    running = [job for job in scene.jobs.values() if job.state == LiveState.RUNNING]
    hosts = {job.host_job_id for job in running if job.host_job_id is not None}
    changed: list[Json] = []
    for job in running:
        pct = 100.0
        if job.host_job_id is not None:
            pct = RIDER_SHARE_PCT
        elif job.job_id in hosts:
            pct = HOST_SHARE_PCT
        if job.share_pct == pct:
            continue
        primitive = "squeeze" if pct < job.share_pct else "swell"
        changed.append({"job_id": job.job_id, "primitive": primitive, "share_pct": pct})
        job.share_pct = pct
        for placement in live.wanted_of(scene.session, scene.cluster.name, job.job_id):
            placement.share_pct = pct
            if placement.role in ("host", "rider"):
                placement.role = "guest" if job.own_from_s is None else "own"
            if job.job_id in hosts:
                placement.role = "host"
    return changed


def _want(scene: _Scene, job: JobRow, role: str) -> None:
    """One placement a node for a job that starts."""
    by_node = list(_by_node(job))
    for rank, (node, indices) in enumerate(by_node):
        scene.session.add(
            PlacementRow(
                placement_id=placement_id(job.job_id, job.attempts, rank),
                cluster=scene.cluster.name,
                job_id=job.job_id,
                attempt=job.attempts,
                node=node,
                rank=rank,
                num_ranks=len(by_node),
                gpu_indices=indices,
                share_pct=job.share_pct,
                role=role,
                plan_id=scene.plan_id,
                observed={},
            )
        )


def _by_node(job: JobRow) -> Iterator[tuple[str, list[int]]]:
    nodes = dict.fromkeys(str(node) for node, _ in job.gpus)
    for node in nodes:
        yield node, [int(index) for name, index in job.gpus if name == node]


def placement_id(job_id: str, attempt: int, rank: int) -> str:
    """Name of an attempt's part on a node: safe as a file name, and no other job's."""
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:12]
    return f"p-{_UNSAFE.sub('_', job_id)[:64]}-{digest}.{attempt}.{rank}"
