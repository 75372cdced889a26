"""A small cluster that executors enforce, jobs placed on it, and executors that speak the protocol."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from sqlalchemy import Engine
from sqlmodel import Session, select

from app.services import epochs, executors, observe, push
from app.services.executors import Executor, Opening
from app.services.facts import Fact, FactKind
from app.services.times import to_s
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import (
    ClusterRow,
    DesiredRow,
    JobRow,
    LogRow,
    NodeRow,
    PlacementRow,
    PoolRow,
)

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
LEASE_S = 30.0
SPEC = {
    "argv": ["/bin/true"],
    "env": {"LR": "0.1"},
    "grace_s": 5,
    "on_disconnect": "hold",
    "memory_mib": None,
}


@dataclass
class StandingClock:
    """A clock that moves when it is told to."""

    at: datetime = ORIGIN + timedelta(hours=1)

    def now(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def make_cluster(
    engine: Engine,
    clock: Any,
    nodes: Mapping[str, int],
    *,
    name: str = "c",
    quotas: Mapping[str, int] | None = None,
) -> None:
    with transaction(engine) as session:
        row = ClusterRow(
            name=name,
            clock_origin=ORIGIN,
            enforced_by="executors",
            policy="fcfs",
            settings={},
            created_at=clock.now(),
        )
        session.add(row)
        session.flush()
        for position, (pool, quota) in enumerate((quotas or {"a": sum(nodes.values())}).items()):
            session.add(PoolRow(cluster=name, name=pool, position=position, quota_gpus=quota))
        for position, (node, num_gpus) in enumerate(nodes.items()):
            session.add(NodeRow(cluster=name, name=node, position=position, num_gpus=num_gpus))
        session.flush()
        epochs.begin(session, row, "made", clock)


def devices(node: str, num_gpus: int) -> list[dict[str, Any]]:
    return [
        {
            "uuid": f"GPU-{node}-{index}",
            "index": index,
            "name": "NVIDIA H200",
            "memory_total_mib": {"value": 143771.0, "reason": ""},
            "memory_reserved_mib": {"value": 771.0, "reason": ""},
            "is_lost": False,
        }
        for index in range(num_gpus)
    ]


CAPABILITIES = [
    {"name": "launch", "supported": True, "enforcement": "native", "effective_at": "now", "reason": ""}
]


@dataclass
class Enrolled:
    """An executor inside this process: what its requests come to, without HTTP."""

    engine: Engine
    clock: Any
    who: Executor
    session: int = 0

    @classmethod
    def on(cls, engine: Engine, clock: Any, node: str, num_gpus: int, cluster: str = "c") -> "Enrolled":
        with transaction(engine) as session:
            token = executors.issue_join_token(session, cluster, node, 60, clock)
        with transaction(engine) as session:
            made = executors.enrol(session, token, node, "0.3.0", clock)
        executor = cls(engine, clock, executors.authenticate(engine, made.executor_id, made.secret))
        executor.open(num_gpus)
        return executor

    def open(self, num_gpus: int, adopted: Sequence[str] = ()) -> None:
        opening = Opening("boot", "0.3.0", devices(self.who.node, num_gpus), CAPABILITIES, adopted)
        with transaction(self.engine) as session:
            self.session = executors.open_session(
                session, self.who, opening, lease_s=LEASE_S, clock=self.clock, runs=None
            )


@dataclass
class RemoteExecutor:
    """An executor that speaks HTTP."""

    client: httpx.Client
    node: str
    num_gpus: int
    cluster: str = "c"
    executor_id: str = ""
    secret: str = field(default="", repr=False)
    session: int = 0

    def token(self) -> str:
        answer = self.client.post(f"/v1/clusters/{self.cluster}/join-tokens", json={"node": self.node})
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    def enrol(self, token: str | None = None) -> httpx.Response:
        body = {"token": token or self.token(), "node": self.node, "version": "0.3.0"}
        answer = self.client.post("/v1/executors/enroll", json=body)
        if answer.status_code == 201:
            self.executor_id, self.secret = answer.json()["executor_id"], answer.json()["secret"]
        return answer

    def open(self, adopted: Sequence[str] = (), **changes: Any) -> httpx.Response:
        body = {
            "boot_id": "5f0c",
            "version": "0.3.0",
            "devices": devices(self.node, self.num_gpus),
            "capabilities": CAPABILITIES,
            "placements": list(adopted),
        }
        answer = self.post("sessions", body | changes)
        if answer.status_code == 201:
            self.session = answer.json()["session"]
        return answer

    def begin(self) -> "RemoteExecutor":
        assert self.enrol().status_code == 201
        answer = self.open()
        assert answer.status_code == 201, answer.text
        return self

    def desired(self, after: int = 0, wait_s: float = 0.0, **more: Any) -> httpx.Response:
        query = {"session": self.session, "after": after, "wait_s": wait_s} | more
        return self.client.get(self._url("desired"), params=query, headers=self._headers())

    def status(self, **changes: Any) -> httpx.Response:
        body = {
            "session": self.session,
            "epoch": 1,
            "generation": 0,
            "accepted": True,
            "refusals": [],
            "placements": [],
            "devices": devices(self.node, self.num_gpus),
            "capabilities": CAPABILITIES,
            "sent_at": ORIGIN.isoformat(),
        }
        return self.post("status", body | changes)

    def events(self, *events: Mapping[str, Any]) -> httpx.Response:
        return self.post("events", {"session": self.session, "events": list(events)})

    def post(self, what: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = self._headers() | {"Content-Type": "application/json"}
        return self.client.post(self._url(what), content=content, headers=headers)

    def _url(self, what: str) -> str:
        return f"/v1/executors/{self.executor_id}/{what}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


def told(placement_id: str, state: str = "running", **changes: Any) -> dict[str, Any]:
    """A placement's part of a status."""
    part = {
        "placement_id": placement_id,
        "job_id": placement_id.partition(".")[0],
        "state": state,
        "pid": 4711,
        "started_at": None,
        "ended_at": None,
        "exit_code": None,
        "signal": None,
        "adopted": False,
        "conditions": [],
    }
    return part | changes


def event(kind: str, placement_id: str | None, at: datetime, **data: Any) -> dict[str, Any]:
    """An event on the wire."""
    return {
        "event_id": str(uuid.uuid4()),
        "kind": kind,
        "at": at.isoformat(),
        "placement_id": placement_id,
        "job_id": None if placement_id is None else placement_id.partition(".")[0],
        "data": data,
    }


def ended(placement_id: str, at: datetime, exit_code: int | None = 0, **data: Any) -> dict[str, Any]:
    values = {"exit_code": exit_code, "signal": None, "reason": "exited", "duration_s": None} | data
    return event("placement_ended", placement_id, at, **values)


def start(
    engine: Engine,
    clock: Any,
    job_id: str,
    gpus: Sequence[tuple[str, int]],
    *,
    is_guest: bool = False,
    cluster: str = "c",
    **spec: Any,
) -> list[str]:
    """Submit a job and place it; the ids of its placements."""
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        now_s = to_s(row, clock.now())
        job = {"pool": "a", "num_gpus": len(gpus), "spec": SPEC | spec}
        facts = [
            Fact(FactKind.SUBMITTED, now_s, job_id, job),
            Fact(FactKind.STARTED, now_s, job_id, {"is_guest": is_guest, "gpus": [list(g) for g in gpus]}),
        ]
        done = observe.record(session, row, facts, source="test", clock=clock)
        assert not done.rejected, done.rejected
        session.flush()
        ids = _place(session, cluster, job_id, gpus, "guest" if is_guest else "own")
        session.flush()
        push.publish(session, cluster, clock)
        return ids


def _place(
    session: Session, cluster: str, job_id: str, gpus: Sequence[tuple[str, int]], role: str
) -> list[str]:
    job = session.get(JobRow, (cluster, job_id))
    assert job is not None
    nodes = list(dict.fromkeys(node for node, _ in gpus))
    ids = [f"{job_id}.{job.attempts}.{rank}" for rank in range(len(nodes))]
    for rank, node in enumerate(nodes):
        row = PlacementRow(
            placement_id=ids[rank],
            cluster=cluster,
            job_id=job_id,
            attempt=job.attempts,
            node=node,
            rank=rank,
            num_ranks=len(nodes),
            gpu_indices=[index for name, index in gpus if name == node],
            role=role,
            observed={},
        )
        session.add(row)
    return ids


def want_no_more(engine: Engine, clock: Any, *placement_ids: str, cluster: str = "c") -> None:
    with transaction(engine) as session:
        lock_cluster(session, cluster)
        for placement_id in placement_ids:
            row = session.get(PlacementRow, placement_id)
            assert row is not None
            row.is_wanted = False
        push.publish(session, cluster, clock)


def job(engine: Engine, job_id: str, cluster: str = "c") -> JobRow:
    with reading(engine) as session:
        row = session.get(JobRow, (cluster, job_id))
    assert row is not None
    return row


def placement(engine: Engine, placement_id: str) -> PlacementRow:
    with reading(engine) as session:
        row = session.get(PlacementRow, placement_id)
    assert row is not None
    return row


def document(engine: Engine, node: str, cluster: str = "c") -> dict[str, Any]:
    with reading(engine) as session:
        row = session.get(DesiredRow, (cluster, node))
    assert row is not None
    return row.document


def wanted_on(engine: Engine, node: str) -> list[str]:
    return [entry["placement_id"] for entry in document(engine, node)["placements"]]


def log(engine: Engine, *kinds: str, cluster: str = "c") -> list[LogRow]:
    """Entries of the log, of these kinds."""
    with reading(engine) as session:
        rows = session.exec(select(LogRow).where(LogRow.cluster == cluster).order_by(LogRow.seq)).all()
    return [row for row in rows if row.kind in kinds]
