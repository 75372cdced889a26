"""The whole loop with real HTTP and real processes: service, worker, two executors, jobs.

One stack a database; the scenes follow one another on it.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from databases import Database
from live import finished, ok, put_inventory, wait_until
from sqlmodel import select

from app.demo import job as demo_job
from app.demo import scenario
from app.demo.processes import Stage
from app.store.engine import reading
from app.store.tables import ExecutorEventRow

POOLS = [
    {"name": "a", "quota_gpus": 2, "is_requeueable": True},
    {"name": "b", "quota_gpus": 2, "is_requeueable": True},
]
NODES = [{"name": "n1", "num_gpus": 2}, {"name": "n2", "num_gpus": 2}]
LEASE_S = 4.0
FOREVER = 100_000
"""Steps of a job that ends only when it is told to."""


class Loop:
    """The running stack, as a user and an onlooker see it."""

    def __init__(self, stage: Stage, client: httpx.Client, database: Database) -> None:
        self.stage = stage
        self.database = database
        self.client = client
        self.executors: dict[str, Any] = {}
        self._submitted: dict[str, int] = {}

    def submit(self, job_id: str, pool: str, num_gpus: int = 1, steps: int = FOREVER, **fields: Any) -> None:
        argv = [sys.executable, "-I", "-S", demo_job.__file__, str(steps), "20"]
        job = {"pool": pool, "num_gpus": num_gpus, "spec": {"argv": argv, "grace_s": 0.5}, **fields}
        self.tell(kind="submitted", job_id=job_id, job=job)

    def learn(self, now: datetime) -> None:
        """Import a history in which speech is busy and vision seldom is."""
        clock_origin = datetime.fromisoformat(ok(self.client.get("/v1/clusters/c1"))["clock_origin"])
        csv_text = scenario.history_csv((now - clock_origin).total_seconds(), seed=7)
        rows = [row for row in csv_text.splitlines() if ",4," not in row]  # no gang wider than a quota
        headers = {"Content-Type": "text/csv"}
        queued = ok(self.client.post("/v1/clusters/c1/history", content="\n".join(rows), headers=headers))
        finished(self.client, queued["run_id"])

    def seq_of(self, job_id: str) -> int:
        """Number of the log's entry by which a job was submitted, at the latest."""
        if job_id not in self._submitted:
            self._submitted[job_id] = int(ok(self.client.get("/v1/clusters/c1"))["seq"])
        return self._submitted[job_id]

    def until_plan(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the newest plan is as wanted."""
        wait_until(
            lambda: any(map(holds, self.plans()[:1])), f"no such plan: {self.plans()[:1]}\n{self.logs()}"
        )

    def tell(self, **event: Any) -> None:
        told = ok(self.client.post("/v1/clusters/c1/events", json={"events": [event]}))
        assert told["accepted"] == 1, told

    def job(self, job_id: str) -> dict[str, Any]:
        jobs = ok(self.client.get("/v1/clusters/c1/jobs", params={"limit": 1000}))["items"]
        return next(job for job in jobs if job["job_id"] == job_id)

    def until(self, job_id: str, **wanted: Any) -> dict[str, Any]:
        """Wait until a job is as wanted."""

        def look() -> Any:
            job = self.job(job_id)
            return job if all(job[name] == value for name, value in wanted.items()) else None

        return wait_until(look, f"{job_id} does not become {wanted}: {self.job(job_id)}\n{self.logs()}")

    def pids(self, job_id: str) -> list[int]:
        """Processes of this stage that carry a job's mark in their environment, as the kernel has them.

        Other tests run jobs of the same names at the same time: ours write to logs of our own nodes.
        """
        mark = f"ANTECAST_JOB_ID={job_id}".encode()
        found = []
        for pid in _processes_on(self.stage.folder):
            with suppress(OSError):  # it may end just now
                process = Path(f"/proc/{pid}")
                is_ours = mark in (process / "environ").read_bytes().split(b"\0")
                if is_ours and b"job.py" in (process / "cmdline").read_bytes():
                    found.append(pid)
        return sorted(found)

    def plans(self) -> list[dict[str, Any]]:
        plans: list[dict[str, Any]] = ok(self.client.get("/v1/clusters/c1/plans", params={"limit": 1000}))[
            "items"
        ]
        return plans

    def told_of(self, job_id: str) -> set[str]:
        """Kinds of events that executors have told of a job."""
        with reading(self.database.engine) as session:
            rows = session.exec(select(ExecutorEventRow).where(ExecutorEventRow.job_id == job_id))
            return {row.kind for row in rows}

    def start_executor(self, node: str, *, is_first: bool = False) -> None:
        token = None
        if is_first:
            token = ok(self.client.post("/v1/clusters/c1/join-tokens", json={"node": node}))["token"]
        self.executors[node] = self.stage.execute(node, 2, token)
        self.until_node(node, is_there=True)

    def until_node(self, node: str, *, is_there: bool) -> None:
        def look() -> bool:
            nodes = ok(self.client.get("/v1/clusters/c1/inventory"))["nodes"]
            one = next(one for one in nodes if one["name"] == node)
            return is_there == (bool(one["gpu_uuids"]) and not one["is_lost"])

        wait_until(look, f"node {node} does not become {is_there=}\n{self.logs()}")

    def kill_executor(self, node: str) -> None:
        process = self.executors[node]
        process.send_signal(signal.SIGKILL)
        process.wait()

    def logs(self) -> str:
        texts = [f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.stage.folder.glob("*.log")]
        return "\n".join(texts)


@contextmanager
def looping(
    database: Database,
    folder: Path,
    cluster: Mapping[str, Any],
    pools: Sequence[Mapping[str, Any]],
    **env: str,
) -> Iterator[Loop]:
    """Service, worker and two executors, around one cluster of two nodes."""
    env = {
        "ANTECAST_LEASE_S": str(LEASE_S),
        "ANTECAST_STATUS_EVERY_S": "0.5",
        "ANTECAST_POLL_WAIT_S": "5",
        "ANTECAST_WORKER_LEASE_S": "3",
        **env,
    }
    with Stage(folder) as stage:
        stage.serve(env, database_url=database.url, has_worker=False)
        worker = stage.work()
        with httpx.Client(base_url=stage.url, timeout=60.0) as client:
            wait_until(lambda: _is_up(client), "the service does not start")
            made = Loop(stage, client, database)
            made.executors["worker"] = worker
            ok(client.post("/v1/clusters", json={"name": "c1", "enforced_by": "executors", **cluster}))
            put_inventory(client, pools, NODES)
            try:
                yield made
            finally:
                _clear(made)


def _children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").is_success
    except httpx.TransportError:
        return False


def _clear(loop: Loop) -> None:
    """Jobs outlive their executor on purpose, so what is left is ended here, once nobody starts any more."""
    for process in loop.executors.values():
        process.kill()
        process.wait()
    while left := _processes_on(loop.stage.folder):  # a supervisor may be starting its job just now
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes_on(folder: Path) -> list[int]:
    """Supervisors, which are told their folder, and jobs, which write their logs to it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_alive(int(entry.name)):
            try:
                argv = (entry / "cmdline").read_bytes()
                out = (entry / "fd" / "1").readlink()
            except OSError:
                continue
            is_job = out.parent.name == "logs" and out.is_relative_to(folder)
            if is_job or f"{folder}/".encode() in argv:
                found.append(int(entry.name))
    return found


def test_lending_reclaiming_killing_and_losing(database: Database, tmp_path: Path) -> None:
    cluster = {"policy": "reclaim", "settings": {"requeueable": "1"}}
    with looping(database, tmp_path / "stage", cluster, POOLS) as loop:
        for node in NODES:
            loop.start_executor(str(node["name"]), is_first=True)
        _lends_and_gives_back(loop)
        _survives_the_death_of_an_executor(loop)
        _makes_one_plan_though_the_worker_is_killed(loop)
        _plans_anew_without_a_lost_node(loop)


def test_gpus_held_for_an_owner_are_planned_anew_when_their_node_is_lost(
    database: Database, tmp_path: Path
) -> None:
    """A job that nobody makes room for has GPUs kept for it; with the node goes the hold, and comes back."""
    origin = datetime.now(UTC)
    env = {"ANTECAST_CLOCK_SPEED": "10", "ANTECAST_CLOCK_ORIGIN": origin.isoformat()}
    settings = {"lives": "learned", "eps": "0.3"}  # what the forecast says of this minute shall not matter
    cluster = {"policy": "anticipatory", "settings": settings}
    pools = [{"name": "vision", "quota_gpus": 2}, {"name": "speech", "quota_gpus": 2}]
    with looping(database, tmp_path / "stage", cluster, pools, **env) as loop:
        loop.learn(origin)
        for node in NODES:
            loop.start_executor(str(node["name"]), is_first=True)
        for name in ("s1", "s2", "s3"):
            loop.submit(name, "speech", user="ada", name="train-asr")
        assert not loop.until("s2", state="running")["is_guest"]
        guest = loop.until("s3", state="running")
        assert guest["is_guest"]
        loop.submit("gang", "vision", num_gpus=2)
        loop.until_plan(lambda plan: plan["holds"] == [{"pool": "vision", "num_gpus": 2, "until": None}])
        loop.submit("s4", "speech", user="ada", name="train-asr")
        loop.until_plan(lambda plan: plan["seq_seen"] > loop.seq_of("s4"))
        assert loop.job("s4")["state"] == "waiting", "GPUs that are held are not lent"
        node = guest["gpus"][0][0]
        loop.kill_executor(node)
        loop.until_node(node, is_there=False)
        loop.until_plan(lambda plan: plan["holds"] == [] and plan["epoch"] > 1)
        assert loop.job("s3")["state"] == "waiting"
        assert loop.job("gang")["state"] == "waiting"
        loop.start_executor(node)
        loop.until("gang", state="running", is_guest=False)


def _lends_and_gives_back(loop: Loop) -> None:
    """A starved pool's jobs start early on lent GPUs; the lender's job finds its GPUs when it comes."""
    for name in ("b1", "b2", "b3", "b4"):
        loop.submit(name, "b")
    for name in ("b1", "b2"):
        assert not loop.until(name, state="running")["is_guest"]
    for name in ("b3", "b4"):
        assert loop.until(name, state="running")["is_guest"]
        wait_until(lambda name=name: loop.pids(name), f"no process of {name}\n{loop.logs()}")
    loop.submit("a1", "a", num_gpus=2)
    own = loop.until("a1", state="running")
    assert not own["is_guest"]
    assert len(own["gpus"]) == 2
    for name in ("b3", "b4"):
        loop.until(name, state="waiting", attempts=1)
        wait_until(lambda name=name: not loop.pids(name), f"{name} still runs\n{loop.logs()}")
    wait_until(lambda: loop.pids("a1"), f"no process of a1\n{loop.logs()}")
    assert loop.pids("b1")
    assert loop.pids("b2")


def _survives_the_death_of_an_executor(loop: Loop) -> None:
    """kill -9 of an executor leaves its jobs running; the next one adopts them and reports their ends."""
    loop.tell(kind="cancelled", job_id="a1")
    wait_until(lambda: not loop.pids("a1"), "a1 still runs")
    loop.submit("a2", "a", steps=250)
    node = loop.until("a2", state="running")["gpus"][0][0]
    before = wait_until(lambda: loop.pids("a2"), f"no process of a2\n{loop.logs()}")
    loop.kill_executor(node)
    assert loop.pids("a2") == before
    loop.start_executor(node)
    _pauses_and_goes_on(loop, "a2")
    ended = loop.until("a2", state="ended")
    assert ended["end_state"] == "completed"
    assert ended["attempts"] == 1


def _pauses_and_goes_on(loop: Loop, job_id: str) -> None:
    """A job that an operator pauses stands still on its node, and goes on when it may."""
    for is_paused, kind in ((True, "paused"), (False, "resumed")):
        body = {"job_id": job_id, "is_paused": is_paused}
        ok(loop.client.post("/v1/clusters/c1/pauses", json=body))
        wait_until(lambda kind=kind: kind in loop.told_of(job_id), f"{job_id} is not {kind}\n{loop.logs()}")


def _makes_one_plan_though_the_worker_is_killed(loop: Loop) -> None:
    """kill -9 of the worker while it plans; another one goes on, and there is exactly one plan."""
    planners = _children_of(loop.executors["worker"].pid)
    assert planners, "no planning process stays warm"
    for pid in planners:  # so that the worker is killed midway for certain
        os.kill(pid, signal.SIGSTOP)
    ok(loop.client.post("/v1/clusters/c1/replans"))

    def planning() -> list[str]:
        runs = ok(loop.client.get("/v1/clusters/c1/runs", params={"kind": "replan"}))["items"]
        return [run["run_id"] for run in runs if run["status"] == "running"]

    def status() -> str:
        return str(ok(loop.client.get(f"/v1/runs/{run_id}"))["status"])

    # what an end has just asked for may be under way: then ours waits its turn, and that one is looked at
    [run_id] = wait_until(planning, f"the run does not begin\n{loop.logs()}")
    loop.kill_executor("worker")
    assert status() == "running"
    for pid in planners:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not any(map(_is_alive, planners)), "the dead worker's planner lives on")
    loop.executors["worker"] = loop.stage.work()
    wait_until(lambda: status() == "succeeded", f"the run is not resumed\n{loop.logs()}")
    assert [plan["run_id"] for plan in loop.plans()].count(run_id) == 1


def _plans_anew_without_a_lost_node(loop: Loop) -> None:
    """Own jobs of a lost node wait again at the head of their pool; plans keep to what is left."""
    run_on = {name: loop.until(name, state="running")["gpus"][0][0] for name in ("b1", "b2")}
    node = run_on["b1"]
    before = loop.plans()[0]
    loop.kill_executor(node)
    loop.until_node(node, is_there=False)
    after = wait_until(
        lambda: next((plan for plan in loop.plans()[:1] if plan["epoch"] > before["epoch"]), None),
        f"no plan after the loss\n{loop.logs()}",
    )
    held = sum(hold["num_gpus"] for hold in after["holds"])
    jobs = ok(loop.client.get("/v1/clusters/c1/jobs", params={"state": "running"}))["items"]
    assert all(gpu[0] != node for job in jobs for gpu in job["gpus"])
    assert sum(job["num_gpus"] for job in jobs) + held <= 2
    loop.start_executor(node)
    loop.until("b1", state="running")
