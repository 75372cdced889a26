"""A live cluster inside this process, led through histories: services and desks, no HTTP, no processes.

What has to hold whatever happens is checked from the tables alone (`check_tables`).
"""

import itertools
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodes import CAPABILITIES, ORIGIN, StandingClock, devices
from sqlmodel import select

from app.children.decide import Room
from app.children.state import LiveDesk
from app.services import applying, clusters, decide, executor_events, executors, observe, planning, report
from app.services.executor_events import Event
from app.services.executors import Executor, Opening
from app.services.facts import Fact, FactKind
from app.services.observe import Recorded
from app.store import clusters as inventories
from app.store import live
from app.store.engine import lock_cluster, make_engine, reading, transaction, upgrade
from app.store.tables import (
    ClusterRow,
    DesiredRow,
    ExecutorRow,
    JobRow,
    LogRow,
    NodeRow,
    PlacementRow,
    PoolRow,
)
from domain.plans import Plan
from solver.policies import POLICIES

CLUSTER = "c"
NODES = {"n1": 2, "n2": 2, "n3": 2}
QUOTAS = {"a": 2, "b": 2, "c": 1}
LEASE_S = 1e8

Json = dict[str, Any]


def template(folder: Path) -> Path:
    """A migrated database file, to be copied."""
    path = folder / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


class LiveCluster:
    """A cluster and its warm desk.

    Attributes:
        answers: what the warm desk said, by (epoch, number of the decision's entry).
        meanwhile: what happens before the next decision is answered.
        was_cut: quotas were cut or nodes lost at some time: own jobs may exceed them while they drain.
    """

    def __init__(self, database: Path, enforced_by: str, policy: str, settings: Mapping[str, str]) -> None:
        self.engine = make_engine(f"sqlite:///{database}")
        self.clock = StandingClock()
        self.room = Room(self.engine)
        self.answers: dict[tuple[int, int], Json] = {}
        self.was_cut = False
        self.has_own_lanes = POLICIES[policy].has_own_lanes
        self.num_jobs = 0
        self.meanwhile: list[Callable[[], None]] = []
        made = clusters.NewCluster(CLUSTER, enforced_by, policy, settings, clock_origin=ORIGIN)
        clusters.create(self.engine, made, self.clock)
        self.put(QUOTAS)

    def close(self) -> None:
        self.engine.dispose()

    @property
    def now_s(self) -> float:
        return (self.clock.now() - ORIGIN).total_seconds()

    def put(self, quotas: Mapping[str, int]) -> None:
        """Say what the cluster consists of."""
        pools = [
            PoolRow(cluster=CLUSTER, name=name, position=k, quota_gpus=quota)
            for k, (name, quota) in enumerate(quotas.items())
        ]
        nodes = [
            NodeRow(cluster=CLUSTER, name=name, position=k, num_gpus=num_gpus)
            for k, (name, num_gpus) in enumerate(NODES.items())
        ]
        clusters.put_inventory(self.engine, CLUSTER, pools, nodes, None, self.clock)

    def tell(self, *facts: Fact) -> Recorded:
        """Tell facts, as over the API."""
        with transaction(self.engine) as session:
            row = lock_cluster(session, CLUSTER)
            told = observe.record(session, row, facts, source="walk", clock=self.clock)
            session.flush()
            if row.enforced_by == "executors":
                applying.stop_what_left(session, row, self.clock)
        return told

    def submission(self, pool: str, num_gpus: int, *, may_be_sent_back: bool, shares: bool) -> Fact:
        """A new job's."""
        self.num_jobs += 1
        spec = {"argv": ["/bin/true"], "is_shareable": shares, "memory_mib": 1_000 if shares else None}
        data = {"pool": pool, "num_gpus": num_gpus, "spec": spec, "is_requeueable": may_be_sent_back}
        return Fact(FactKind.SUBMITTED, self.now_s, f"j{self.num_jobs:03d}", data)

    def ask(self, request: Json) -> Json:
        """What the warm desk says; remembered."""
        answer = self.room.answer(request)
        assert "refused" not in answer, answer["refused"]
        key = (request["epoch"], request["decided_seq"])
        self.answers[key] = {name: answer[name] for name in ("starts", "send_backs", "conversions", "holds")}
        return answer

    def decide(self, facts: Sequence[Fact], *, idle_gpus: int | None = None) -> decide.Decision:
        """Tell facts and ask; `meanwhile` happens before the answer is there."""

        def question(_row: ClusterRow) -> decide.Question:
            return decide.Question(list(facts), None, idle_gpus, "walk")

        return decide.decide(self.engine, _Deciders(self), self.clock, CLUSTER, question)  # type: ignore[arg-type]

    def jobs(self, *states: str) -> list[JobRow]:
        with reading(self.engine) as session:
            found = live.all_jobs(session, CLUSTER)
        return [job for job in found if not states or job.state in states]

    def log(self) -> Sequence[LogRow]:
        with reading(self.engine) as session:
            return live.entries(session, CLUSTER, 0, 10**9)

    def row(self) -> ClusterRow:
        with reading(self.engine) as session:
            found = session.get(ClusterRow, CLUSTER)
        assert found is not None
        return found


@dataclass
class _OnNode:
    """A node's executor: what really runs there, and what it has not told yet."""

    who: Executor
    session: int = 0
    running: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    untold: list[Event] = field(default_factory=list)


class Executed(LiveCluster):
    """A cluster that executors enforce; they follow their documents when they are told to look."""

    def __init__(self, database: Path, policy: str, settings: Mapping[str, str]) -> None:
        super().__init__(database, "executors", policy, settings)
        self.plans_under_way: list[tuple[Json, Json]] = []
        self.num_plans = 0
        self.num_events = 0
        self.nodes: dict[str, _OnNode] = {}
        for node in NODES:
            with transaction(self.engine) as session:
                token = executors.issue_join_token(session, CLUSTER, node, 60, self.clock)
            with transaction(self.engine) as session:
                made = executors.enrol(session, token, node, "0.3.0", self.clock)
            who = executors.authenticate(self.engine, made.executor_id, made.secret)
            self.nodes[node] = _OnNode(who)
            self.open(node)

    def open(self, node: str) -> None:
        """An executor opens a session with what it runs."""
        on = self.nodes[node]
        opening = Opening("boot", "0.3.0", devices(node, NODES[node]), CAPABILITIES, sorted(on.running))
        with transaction(self.engine) as session:
            on.session = executors.open_session(
                session, on.who, opening, lease_s=LEASE_S, clock=self.clock, runs=None
            )

    def begin_plan(self) -> None:
        """Ask for a plan; it is under way until it is applied or dropped."""
        request = planning.load(self.engine, CLUSTER, self.clock)
        self.plans_under_way.append((request, self.ask(request)))

    def end_plan(self, which: int, *, is_dropped: bool = False) -> Json:
        request, answer = self.plans_under_way.pop(which)
        if is_dropped:
            return {}
        self.num_plans += 1
        run_id = f"run-{self.num_plans}"
        return planning.publish(self.engine, CLUSTER, request, answer, run_id, self.clock)

    def plan(self) -> Json:
        """A plan applied at once, and again as long as it is stale."""
        for _ in range(50):
            self.begin_plan()
            done = self.end_plan(-1)
            if not done.get("is_stale"):
                return done
        raise AssertionError("a plan made and applied at once is stale for ever")

    def look(self, node: str) -> None:
        """An executor reads its document and follows it."""
        on = self.nodes[node]
        with reading(self.engine) as session:
            desired = session.get(DesiredRow, (CLUSTER, node))
        wanted = (
            {} if desired is None else {one["placement_id"]: one for one in desired.document["placements"]}
        )
        for placement_id in sorted(on.running - wanted.keys()):
            self.end(node, placement_id, exit_code=None, reason="stopped")
        for placement_id in sorted(wanted.keys() - on.running - on.ended):
            on.running.add(placement_id)
            self._note(node, "placement_started", placement_id)

    def end(self, node: str, placement_id: str, *, exit_code: int | None, reason: str = "exited") -> None:
        """A placement ends on its node; nobody knows yet."""
        on = self.nodes[node]
        on.running.discard(placement_id)
        on.ended.add(placement_id)
        self._note(node, "placement_ended", placement_id, exit_code=exit_code, reason=reason)

    def refuse(self, node: str, placement_id: str) -> None:
        """An executor cannot run what is wanted."""
        self.nodes[node].ended.add(placement_id)
        self._note(node, "placement_refused", placement_id, reason="no_memory")

    def deliver(self, node: str) -> None:
        """An executor tells what it has not told yet, if it may speak."""
        on = self.nodes[node]
        if self.is_lost(node):
            return
        with transaction(self.engine) as session:
            executor_events.take(session, on.who, on.session, on.untold, clock=self.clock, runs=None)
        on.untold.clear()

    def settle(self) -> None:
        """All executors look and tell."""
        for node in NODES:
            if not self.is_lost(node):
                self.look(node)
                self.deliver(node)

    def lose(self, node: str) -> None:
        """An executor's lease runs out."""
        with transaction(self.engine) as session:
            row = session.get(ExecutorRow, self.nodes[node].who.executor_id)
            assert row is not None
            row.lease_until = ORIGIN
        executors.sweep(self.engine, self.clock)
        self.was_cut = True

    def bring_back(self, node: str, *, has_rebooted: bool) -> None:
        on = self.nodes[node]
        if has_rebooted:
            on.running.clear()
        self.open(node)

    def is_lost(self, node: str) -> bool:
        with reading(self.engine) as session:
            row = session.get(NodeRow, (CLUSTER, node))
        assert row is not None
        return row.is_lost

    def wanted(self) -> Sequence[PlacementRow]:
        with reading(self.engine) as session:
            return live.wanted_placements(session, CLUSTER)

    def _note(self, node: str, kind: str, placement_id: str, **data: Any) -> None:
        self.num_events += 1
        event = Event(f"e{self.num_events}", kind, self.clock.now(), placement_id, None, data)
        self.nodes[node].untold.append(event)


class Scheduled(LiveCluster):
    """A cluster whose scheduler asks for decisions, and does as it pleases."""

    def __init__(self, database: Path, policy: str, settings: Mapping[str, str]) -> None:
        super().__init__(database, "scheduler", policy, settings)
        self.untold: list[Fact] = []
        self.num_facts = 0

    def note(self, kind: FactKind, job_id: str, **data: Any) -> None:
        self.num_facts += 1
        self.untold.append(Fact(kind, self.now_s, job_id, data, f"u{self.num_facts}"))

    def ask_again(self, *, idle_gpus: int | None = None) -> decide.Decision:
        """Tell what is untold and ask."""
        made = self.decide(self.untold, idle_gpus=idle_gpus)
        self.untold.clear()
        return made


@dataclass
class _Deciders:
    cluster: LiveCluster

    def ask(self, cluster: str, epoch: int, seq: int, *, explain: bool | None = None) -> Json:
        for happen in self.cluster.meanwhile:
            happen()
        self.cluster.meanwhile.clear()
        request = {"cluster": cluster, "epoch": epoch, "decided_seq": seq, "explain": explain}
        return dict(self.cluster.ask(request))


def check_tables(world: LiveCluster) -> None:
    """What holds after every step."""
    jobs = {job.job_id: job for job in world.jobs()}
    _check_log(world, jobs, world.log())
    _check_gpus(world, jobs)
    if world.has_own_lanes and not world.was_cut:
        _check_quotas(world, jobs)
    if isinstance(world, Executed):
        _check_placements(world, jobs)
    check_report(world, jobs)


_BECOMES = {
    "submitted": ((None,), "waiting"),
    "started": (("waiting",), "running"),
    "converted": (("running",), "running"),
    "sent_back": (("running",), "waiting"),
    "restarted": (("running",), "waiting"),
    "ended": (("running",), "ended"),
    "cancelled": (("waiting", "running"), "cancelled"),
}


def _check_log(world: LiveCluster, jobs: Mapping[str, JobRow], log: Sequence[LogRow]) -> None:
    """The table of jobs is the log's projection; nobody is lost, doubled or sent back as own."""
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    assert all(first.at_s <= second.at_s for first, second in itertools.pairwise(log))
    state: dict[str, str] = {}
    is_own: dict[str, bool] = {}
    attempts: Counter[str] = Counter()
    for entry in log:
        if entry.kind == FactKind.DECIDED:
            continue
        job_id = str(entry.job_id)
        before, after = _BECOMES[entry.kind]
        assert state.get(job_id) in before, (entry.seq, entry.kind, job_id)
        state[job_id] = after
        if entry.kind == FactKind.STARTED:
            is_own[job_id] = not entry.data["is_guest"]
            attempts[job_id] += 1
        elif entry.kind == FactKind.CONVERTED:
            assert not is_own[job_id]
            is_own[job_id] = True
        elif entry.kind == FactKind.SENT_BACK and isinstance(world, Executed):
            assert not is_own[job_id], "an own job was sent back"
    assert state == {job_id: job.state for job_id, job in jobs.items()}
    for job_id, job in jobs.items():
        assert job.attempts == attempts[job_id]
        if job.state == "running":
            assert (job.own_from_s is not None) == is_own[job_id]
        if job.state == "waiting":
            assert (job.own_from_s, job.started_s, job.gpus, job.host_job_id) == (None, None, [], None)


def _check_gpus(world: LiveCluster, jobs: Mapping[str, JobRow]) -> None:
    holders: dict[tuple[str, int], list[JobRow]] = defaultdict(list)
    riders: dict[str, list[JobRow]] = defaultdict(list)
    with reading(world.engine) as session:
        nodes = {node.name: node for node in inventories.nodes(session, CLUSTER)}
        cluster = session.get(ClusterRow, CLUSTER)
        assert cluster is not None
        epoch = live.epoch(session, CLUSTER, cluster.epoch)
        idle = live.idle_gpus(session, cluster)
    assert epoch is not None
    used = 0
    for job in jobs.values():
        if job.state != "running":
            assert job.gpus == []
            continue
        if job.host_job_id is None:
            used += job.num_gpus
        if not isinstance(world, Executed):
            continue
        assert len(job.gpus) == job.num_gpus
        if job.host_job_id is not None:
            riders[job.host_job_id].append(job)
            host = jobs[job.host_job_id]
            assert host.state == "running"
            assert host.gpus == job.gpus
            assert host.spec["is_shareable"]
            assert job.spec["is_shareable"]
            continue
        for node, index in job.gpus:
            assert not nodes[node].is_lost
            assert 0 <= index < nodes[node].num_gpus
            holders[node, index].append(job)
    assert all(len(those) == 1 for those in holders.values()), "a GPU has two holders"
    assert all(len(those) == 1 for those in riders.values()), "a host has two riders"
    assert idle == max(epoch.capacity_gpus - used, 0)
    if isinstance(world, Executed):
        assert used <= epoch.capacity_gpus


def _check_quotas(world: LiveCluster, jobs: Mapping[str, JobRow]) -> None:
    own: Counter[str] = Counter()
    for job in jobs.values():
        if job.state == "running" and job.own_from_s is not None:
            own[job.pool] += job.num_gpus
    with reading(world.engine) as session:
        for pool in inventories.pools(session, CLUSTER):
            assert own[pool.name] <= pool.quota_gpus, "own jobs exceed their quota"


def _check_placements(world: Executed, jobs: Mapping[str, JobRow]) -> None:
    wanted = world.wanted()
    asked = {(row.job_id, row.node, index) for row in wanted for index in row.gpu_indices}
    running = {
        (job.job_id, node, index)
        for job in jobs.values()
        if job.state == "running"
        for node, index in job.gpus
    }
    assert asked <= running, "what is wanted is no running job's"
    with reading(world.engine) as session:
        for job_id, node, index in sorted(running - asked):
            rows = session.exec(
                select(PlacementRow).where(
                    PlacementRow.job_id == job_id,
                    PlacementRow.node == node,
                    PlacementRow.attempt == jobs[job_id].attempts,
                )
            ).all()
            (row,) = [one for one in rows if index in one.gpu_indices]
            ranks = session.exec(
                select(PlacementRow).where(
                    PlacementRow.job_id == job_id, PlacementRow.attempt == jobs[job_id].attempts
                )
            ).all()
            assert row.ended_at is not None or any(one.ended_at is not None for one in ranks), (
                "a running job is wanted nowhere"
            )
        for node in NODES:
            document = session.get(DesiredRow, (CLUSTER, node))
            there = [] if document is None else document.document["placements"]
            assert {one["placement_id"] for one in there} == {
                row.placement_id for row in wanted if row.node == node
            }
    by_job = {row.job_id: row for row in wanted}
    for job_id, row in by_job.items():
        assert row.attempt == jobs[job_id].attempts


def check_report(world: LiveCluster, jobs: Mapping[str, JobRow]) -> None:
    said = report.report(world.engine, CLUSTER)
    states = Counter(job.state for job in jobs.values())
    assert said["jobs"] == len(jobs)
    assert (said["ended"], said["waiting"], said["running"]) == (
        states["ended"],
        states["waiting"],
        states["running"],
    )
    for name in ("jobs", "ended", "started_early", "slowed"):
        assert sum(pool[name] for pool in said["pools"]) == said[name], name
    assert said["slowed"] + said["unresolved"] <= said["ended"]
    assert min(said["lent_gpu_hours"], said["repeated_gpu_hours"], said["hours_earlier"]) >= 0.0
    assert said["guests"] <= said["jobs"]
    if not said["guests"]:
        assert said["lent_gpu_hours"] == 0.0


def check_decisions(world: LiveCluster) -> None:
    """A desk that knows nothing but the log says what the warm one said, and knows which GPUs are idle."""
    if isinstance(world, Executed):
        _check_idle(world)
    fresh = Room(world.engine)
    for (epoch, seq), said in sorted(world.answers.items()):
        answer = fresh.answer({"cluster": CLUSTER, "epoch": epoch, "decided_seq": seq})
        assert {name: answer[name] for name in said} == said


def _check_idle(world: Executed) -> None:
    desk = LiveDesk(world.engine, CLUSTER, world.row().epoch)
    desk.catch_up(10**9)
    taken = {(str(node), int(index)) for job in world.jobs("running") for node, index in job.gpus}
    there = {node: num_gpus for node, num_gpus in NODES.items() if not world.is_lost(node)}
    idle = [sum((node, k) not in taken for k in range(there[node])) for node in there]
    found = [] if desk._nodes is None else desk._nodes.room(Plan(), 0.0).nodes
    assert idle == [free for one in found for free in one.free_gpus]


def copy(database: Path, folder: Path, number: int) -> Path:
    """A fresh copy of a migrated database."""
    path = folder / f"walk-{number}.db"
    shutil.copy(database, path)
    return path
