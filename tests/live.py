"""A service that really listens, and a policy that asks it over HTTP."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from app.clock import Clock
from app.main import create_app
from app.settings import ServiceSettings
from app.store.engine import upgrade
from domain.jobs import Job
from domain.observers import Observer
from domain.plans import Hold, Plan, Start

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
"""A Monday; second 0 of the clusters of these tests."""

PATIENCE_S = 60.0
"""How long a condition is waited for before a test fails."""


@contextmanager
def serving(database_url: str, *, clock: Clock | None = None, **settings: Any) -> Iterator[httpx.Client]:
    """Run the API on a free port, without authentication, and give a client for it."""
    upgrade(database_url)
    made = ServiceSettings(
        database_url=database_url, auth="off", port=0, decide_limit_s=PATIENCE_S, **settings
    )
    server = uvicorn.Server(
        uvicorn.Config(create_app(made, clock=clock), host="127.0.0.1", port=0, log_level="warning")
    )
    thread = threading.Thread(target=server.run, name="api", daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the API does not start")
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


@contextmanager
def working(database_url: str, log: Path, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker in a process of its own; it is killed at the end if it does not stop by itself."""
    names = {f"ANTECAST_{name.upper()}": str(value) for name, value in settings.items()}
    env = {**os.environ, **names, "ANTECAST_DATABASE_URL": database_url}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "worker"], env=env, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def finished(client: httpx.Client, run_id: str) -> dict[str, Any]:
    """Wait for a run and return it; it has to succeed."""
    over = ("succeeded", "failed", "cancelled")

    def look() -> Any:
        run = ok(client.get(f"/v1/runs/{run_id}"))
        return run if run["status"] in over else None

    run = wait_until(look, f"run {run_id} does not end")
    assert run["status"] == "succeeded", run
    return run


def make_cluster(
    client: httpx.Client, quotas: Mapping[str, int], nodes: Sequence[Mapping[str, Any]] = (), **body: Any
) -> str:
    """A cluster with an inventory."""
    ok(client.post("/v1/clusters", json={"name": "c1", "clock_origin": instant(0.0), **body}))
    pools = [{"name": name, "quota_gpus": quota} for name, quota in quotas.items()]
    put_inventory(client, pools, nodes)
    return "c1"


def put_inventory(
    client: httpx.Client, pools: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Put the inventory of the cluster as it is now."""
    etag = client.get("/v1/clusters/c1").headers["etag"]
    body = {"pools": list(pools), "nodes": list(nodes)}
    ok(client.put("/v1/clusters/c1/inventory", json=body, headers={"If-Match": etag}))


def wait_until(holds: Any, otherwise: str, within_s: float = PATIENCE_S) -> Any:
    """Wait for a condition and return what it gave; fail loudly if it does not come."""
    until_s = time.monotonic() + within_s
    pause = threading.Event()
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > until_s:
            raise AssertionError(otherwise)
        pause.wait(0.02)


def ok(response: httpx.Response) -> Any:
    """The body of an answer that has to be good."""
    assert response.is_success, f"{response.status_code}: {response.text[:2000]}"
    return response.json() if response.content else None


def instant(seconds: float) -> str:
    """Seconds on the clock of these tests as they go over the wire."""
    return (ORIGIN + timedelta(microseconds=round(seconds * 1e6))).isoformat()


class Durations(Observer):
    """How long each job ran, as the scheduler measures it."""

    def __init__(self) -> None:
        self.by_job: dict[str, float] = {}

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:  # noqa: ARG002
        self.by_job[job.job_id] = duration_s


class RemotePolicy:
    """A policy that lives in the service: facts are collected and told with the next question.

    It stands where a scheduler's plug-in stands.
    """

    def __init__(self, client: httpx.Client, cluster: str, durations: Durations) -> None:
        self._client = client
        self._url = f"/v1/clusters/{cluster}/decisions"
        self._durations = durations
        self._jobs: dict[str, Job] = {}
        self._guests: dict[str, bool] = {}
        self._events: list[dict[str, Any]] = []
        self.decisions = 0
        self.last_seq = 0

    def submitted(self, job: Job, now_s: float) -> None:
        self._jobs[job.job_id] = job
        self._tell("submitted", job, now_s, job=_as_body(job))

    def started(self, job: Job, now_s: float) -> None:
        self._tell("started", job, now_s, is_guest=self._guests.pop(job.job_id))

    def sent_back(self, job: Job, now_s: float) -> None:
        self._tell("sent_back", job, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        self._tell("ended", job, now_s, duration_s=self._durations.by_job[job.job_id])

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        body = {"events": self._events, "at": instant(now_s)}
        answer = ok(self._client.post(self._url, json=body))
        assert not answer["events"]["rejected"], answer["events"]
        assert answer["idle_gpus"] == idle_gpus, (answer["idle_gpus"], idle_gpus)
        self._events = []
        self.decisions += 1
        self.last_seq = answer["seq"]
        starts = tuple(Start(self._jobs[one["job_id"]], one["is_guest"]) for one in answer["starts"])
        self._guests = {job.job_id: is_guest for job, is_guest in starts}
        return Plan(
            send_backs=tuple(self._jobs[job_id] for job_id in answer["send_backs"]),
            conversions=tuple(self._jobs[job_id] for job_id in answer["conversions"]),
            starts=starts,
            holds=tuple(Hold(hold["pool"], hold["num_gpus"]) for hold in answer["holds"]),
        )

    def _tell(self, kind: str, whose: Job, now_s: float, **more: Any) -> None:
        self._events.append({"kind": kind, "job_id": whose.job_id, "at": instant(now_s), **more})


def _as_body(job: Job) -> dict[str, Any]:
    return {
        "pool": job.pool,
        "num_gpus": job.num_gpus,
        "user": job.user,
        "name": job.name,
        "model": job.model,
        "limit_s": job.limit_s,
        "requeue_u": job.requeue_u,
    }
