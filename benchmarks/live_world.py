"""A service, a scheduler that asks it over HTTP, and the same policy without a service."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pandas as pd
import uvicorn
from sqlalchemy import event

from app.children.state import LiveDesk
from app.main import create_app
from app.services.deciding import Deciders
from app.settings import ServiceSettings
from app.store import history
from app.store.engine import make_engine, transaction
from app.store.tables import HistoryImportRow, ImportStatus
from data.history import from_frame
from domain.jobs import Job
from domain.plans import Hold, Plan, Start
from solver.desk import Desk

POLICY = "anticipatory"
ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
PATIENCE_S = 600.0


@dataclass
class Meter:
    """What the API has spent so far."""

    statements: int = 0
    database_s: float = 0.0
    child_s: float = 0.0


@dataclass(frozen=True)
class Cost:
    """What one decision cost."""

    events: int
    whole_s: float
    child_s: float = 0.0
    database_s: float = 0.0
    statements: int = 0


class Alone:
    """The policy and its forecasters in this process."""

    def __init__(self, desk: Desk, durations: Mapping[str, float]) -> None:
        self._desk = desk
        self._durations = durations
        self._events = 0
        self._spent_s = 0.0
        self.costs: list[Cost] = []

    def submitted(self, job: Job, now_s: float) -> None:
        self._timed(lambda: self._desk.submitted(job, now_s))

    def started(self, job: Job, now_s: float) -> None:
        self._timed(lambda: self._desk.started(job, now_s))

    def sent_back(self, job: Job, now_s: float) -> None:
        self._timed(lambda: self._desk.sent_back(job, now_s))

    def ended(self, job: Job, now_s: float) -> None:
        self._timed(lambda: self._desk.ended(job, now_s, self._durations[job.job_id]))

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        begun_s = time.perf_counter()
        plan = self._desk.decide(now_s, idle_gpus)
        self.costs.append(Cost(self._events, self._spent_s + time.perf_counter() - begun_s))
        self._events, self._spent_s = 0, 0.0
        return plan

    def _timed(self, tell: Callable[[], None]) -> None:
        begun_s = time.perf_counter()
        tell()
        self._spent_s += time.perf_counter() - begun_s
        self._events += 1


class Remote:
    """The same, asked over HTTP: facts are collected and told with the next question."""

    def __init__(
        self, client: httpx.Client, cluster: str, durations: Mapping[str, float], meter: Meter
    ) -> None:
        self._client = client
        self._url = f"/v1/clusters/{cluster}/decisions"
        self._durations = durations
        self._meter = meter
        self._jobs: dict[str, Job] = {}
        self._guests: dict[str, bool] = {}
        self._events: list[dict[str, Any]] = []
        self.costs: list[Cost] = []

    def submitted(self, job: Job, now_s: float) -> None:
        self._jobs[job.job_id] = job
        known = ("pool", "num_gpus", "user", "name", "model", "limit_s", "requeue_u")
        self._tell("submitted", job, now_s, job={name: getattr(job, name) for name in known})

    def started(self, job: Job, now_s: float) -> None:
        self._tell("started", job, now_s, is_guest=self._guests.pop(job.job_id))

    def sent_back(self, job: Job, now_s: float) -> None:
        self._tell("sent_back", job, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        self._tell("ended", job, now_s, duration_s=self._durations[job.job_id])

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        before = Meter(**vars(self._meter))
        begun_s = time.perf_counter()
        answer = ok(self._client.post(self._url, json={"events": self._events, "at": instant(now_s)}))
        whole_s = time.perf_counter() - begun_s
        if answer["events"]["rejected"] or answer["idle_gpus"] != idle_gpus:
            raise SystemExit(f"the service has it otherwise: {answer}")
        self.costs.append(
            Cost(
                len(self._events),
                whole_s,
                self._meter.child_s - before.child_s,
                self._meter.database_s - before.database_s,
                self._meter.statements - before.statements,
            )
        )
        self._events = []
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


class _TimedDeciders:
    """The API's way to its warm processes, with a clock beside it."""

    def __init__(self, deciders: Deciders, meter: Meter) -> None:
        self._deciders = deciders
        self._meter = meter
        self.close = deciders.close

    def ask(self, cluster: str, epoch: int, seq: int, *, explain: bool | None = None) -> dict[str, Any]:
        begun_s = time.perf_counter()
        answer = self._deciders.ask(cluster, epoch, seq, explain=explain)
        self._meter.child_s += time.perf_counter() - begun_s
        return answer


def watch(app: Any, meter: Meter) -> None:
    """Time the API's statements, commits and questions to its warm processes."""
    engine, begun_s = app.state.engine, [0.0]
    commit = engine.dialect.do_commit

    def before(*_: Any) -> None:
        begun_s[0] = time.perf_counter()

    def after(*_: Any) -> None:
        meter.database_s += time.perf_counter() - begun_s[0]
        meter.statements += 1

    def timed_commit(connection: Any) -> None:
        before()
        commit(connection)
        after()

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    engine.dialect.do_commit = timed_commit
    app.state.deciders = _TimedDeciders(app.state.deciders, meter)


@contextmanager
def serving(url: str) -> Iterator[tuple[httpx.Client, Meter]]:
    """The API in a thread of this process."""
    settings = ServiceSettings(
        database_url=url, auth="off", max_body_kib=65_536, decide_limit_s=PATIENCE_S, plan_limit_s=PATIENCE_S
    )
    app, meter = create_app(settings), Meter()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, name="api", daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise SystemExit("the API does not start")
        time.sleep(0.01)
    watch(app, meter)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            yield client, meter
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def begin(
    client: httpx.Client,
    url: str,
    name: str,
    quotas: Mapping[str, int],
    earlier: pd.DataFrame,
    cut_s: float,
) -> None:
    """A cluster that has learned from these jobs as of an instant."""
    body = {"name": name, "clock_origin": instant(0.0), "enforced_by": "scheduler", "policy": POLICY}
    ok(client.post("/v1/clusters", json=body))
    pools = [{"name": pool, "quota_gpus": quota} for pool, quota in quotas.items()]
    etag = client.get(f"/v1/clusters/{name}").headers["etag"]
    inventory = {"pools": pools, "nodes": []}
    ok(client.put(f"/v1/clusters/{name}/inventory", json=inventory, headers={"If-Match": etag}))
    engine = make_engine(url)
    with transaction(engine) as session:
        row = HistoryImportRow(import_id=f"i-{name}", cluster=name, file_format="csv", created_at=ORIGIN)
        row.status = ImportStatus.IMPORTED.value
        history.add(session, row)
        known = from_frame(earlier, source="generated", quotas=quotas).frame
        frame = known[list(history.JOB_COLUMNS)].astype(object)
        history.add_jobs(session, name, row.import_id, frame.where(frame.notna(), None).to_dict("records"))
    engine.dispose()
    as_of = {"as_of": instant(cut_s), "reason": "benchmark"}
    ok(client.post(f"/v1/clusters/{name}/epochs", json=as_of))
    ok(client.post(f"/v1/clusters/{name}/decisions", json={"at": as_of["as_of"]}))  # its process is warm


def alone(url: str, cluster: str, durations: Mapping[str, float]) -> Alone:
    """The policy as the warm process has it at the beginning of the epoch."""
    engine = make_engine(url)
    trained = LiveDesk(engine, cluster, newest_epoch(engine, cluster)).trained
    engine.dispose()
    return Alone(Desk(trained.policy, trained.forecasters.observers), durations)


def newest_epoch(engine: Any, cluster: str) -> int:
    """Number of a cluster's epoch."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT epoch FROM clusters WHERE name = '{cluster}'")  # noqa: S608
        return int(found.scalar_one())


def ok(response: httpx.Response) -> Any:
    """The body of an answer that has to be good."""
    if not response.is_success:
        raise SystemExit(f"{response.status_code}: {response.text[:2000]}")
    return response.json()


def instant(seconds: float) -> str:
    """Seconds on the cluster's clock as they go over the wire."""
    return (ORIGIN + timedelta(microseconds=round(seconds * 1e6))).isoformat()
