"""The demonstration: everything started, jobs streamed in, everything watched, a report at the end."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from app.demo import scenario
from app.demo.processes import Stage, require_executor
from domain.errors import AntecastError

CLUSTER: Final = "demo"
_URL: Final = f"/v1/clusters/{CLUSTER}"
_LOOK_S: Final = 0.25
_READY_S: Final = 60.0
_LIMIT_S: Final = 180.0
_REPLAN_EVERY_S: Final = 3.0


class DemoFailed(AntecastError):  # noqa: N818
    """The demonstration did not get where it should; the logs in its folder say why."""


@dataclass(frozen=True)
class Shown:
    """What a demonstration came to.

    Attributes:
        report: the service's report.
        jobs: the live jobs at the end.
        plans: all plans, oldest first.
        plan_s: median time from asking for a plan to its publication, real seconds.
        real_s: how long the stream took, real seconds.
    """

    report: dict[str, Any]
    jobs: list[dict[str, Any]]
    plans: list[dict[str, Any]]
    plan_s: float
    real_s: float


Tell = Callable[[str], None]


def run(folder: Path, tell: Tell, progress: Callable[[int, int], None], *, seed: int = 0) -> Shown:
    """Run it all.

    Args:
        folder: for database, state and logs; emptied first.
        tell: told a line whenever something happens.
        progress: told (jobs ended, jobs in all).
        seed: of the history that forecasts learn from.

    Raises:
        SettingError: if the executor is not installed.
        DemoFailed: if a part does not start or the jobs do not end.
    """
    require_executor()
    if folder.exists():
        shutil.rmtree(folder)
    origin = datetime.now(UTC)
    env = {
        "ANTECAST_CLOCK_SPEED": str(scenario.SPEED),
        "ANTECAST_CLOCK_ORIGIN": origin.isoformat(),
        "ANTECAST_STATUS_EVERY_S": "1",
        "ANTECAST_LEASE_S": "15",
    }
    with Stage(folder) as stage:
        stage.serve(env)
        with httpx.Client(base_url=stage.url, timeout=30.0) as client:
            _until(lambda: _is_up(client), "the service does not start", folder)
            tell(f"service with its worker on {stage.url}, embedded SQLite")
            _set_up(client, stage, folder, tell, seed)
            return _Watch(client, folder, tell, progress).run()


def _set_up(client: httpx.Client, stage: Stage, folder: Path, tell: Tell, seed: int) -> None:
    made = _ok(
        client.post(
            "/v1/clusters",
            json={
                "name": CLUSTER,
                "enforced_by": "executors",
                "policy": "anticipatory",
                "settings": {"lives": "learned"},
                "replan_every_s": _REPLAN_EVERY_S * scenario.SPEED,
            },
        )
    )
    inventory = {
        "pools": [
            {"name": pool, "quota_gpus": quota, "is_requeueable": pool in scenario.REQUEUEABLE}
            for pool, quota in scenario.QUOTAS.items()
        ],
        "nodes": [{"name": node, "num_gpus": gpus} for node, gpus in scenario.NODES.items()],
    }
    _ok(client.put(f"{_URL}/inventory", json=inventory, headers={"If-Match": f'"{made["version"]}"'}))
    origin = datetime.fromisoformat(made["clock_origin"])
    until_s = (datetime.now(UTC) - origin).total_seconds()
    csv_text = scenario.history_csv(until_s, seed)
    queued = _ok(client.post(f"{_URL}/history", content=csv_text, headers={"Content-Type": "text/csv"}))
    _until(lambda: _has_run(client, queued["run_id"]), "the history is not imported", folder)
    tell(f"{csv_text.count(chr(10)) - 1} jobs of the past imported for the forecasts")
    for node, gpus in scenario.NODES.items():
        token = _ok(client.post(f"{_URL}/join-tokens", json={"node": node}))["token"]
        stage.execute(node, gpus, token)
    _until(lambda: _are_nodes_there(client), "the executors do not come up", folder)
    tell(f"{len(scenario.NODES)} executors enrolled, each with 4 simulated GPUs")


class _Watch:
    """Submits the stream, watches what becomes of it, and collects the result."""

    def __init__(
        self, client: httpx.Client, folder: Path, tell: Tell, progress: Callable[[int, int], None]
    ) -> None:
        self._client = client
        self._folder = folder
        self._tell = tell
        self._progress = progress
        self._known: dict[str, tuple[Any, ...]] = {}
        self._begun_s = 0.0

    def run(self) -> Shown:
        """Until the last job has ended."""
        coming = scenario.stream()
        num_jobs = len(coming)
        self._begun_s = time.monotonic()
        while True:
            now_s = time.monotonic() - self._begun_s
            due = [job for job in coming if job.at_s <= now_s]
            coming = coming[len(due) :]
            if due:
                _ok(self._client.post(f"{_URL}/events", json={"events": [job.event() for job in due]}))
                self._say("submitted: " + ", ".join(job.job_id for job in due))
            jobs = self._look()
            ended = sum(job["state"] == "ended" for job in jobs)
            self._progress(ended, num_jobs)
            if ended == num_jobs:
                break
            if now_s > _LIMIT_S:
                raise DemoFailed(
                    f"{num_jobs - ended} jobs have not ended after {_LIMIT_S:.0f} s; {self._logs()}"
                )
            time.sleep(_LOOK_S)
        return Shown(
            report=_ok(self._client.get(f"{_URL}/report")),
            jobs=jobs,
            plans=self._plans(),
            plan_s=self._plan_s(),
            real_s=time.monotonic() - self._begun_s,
        )

    def _look(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = _ok(self._client.get(f"{_URL}/jobs", params={"limit": 1000}))["items"]
        for job in jobs:
            now = (job["state"], job["attempts"], job["is_guest"], job["share_pct"])
            before = self._known.get(job["job_id"])
            self._known[job["job_id"]] = now
            if before is not None and before != now:
                self._say_of(job, before)
        return jobs

    def _say_of(self, job: dict[str, Any], before: tuple[Any, ...]) -> None:
        name, where = job["job_id"], " ".join(f"{node}:{index}" for node, index in job["gpus"])
        if job["attempts"] > before[1] and job["state"] == "running":
            kind = "on lent GPUs" if job["is_guest"] else "on its pool's own GPUs"
            beside = f", beside {job['host_job_id']}" if job["host_job_id"] else ""
            self._say(f"{name} starts {kind} {where}{beside}")
        elif job["state"] == "waiting":
            self._say(f"{name} is sent back: its GPUs are wanted by their owner")
        elif job["state"] == "ended":
            self._say(f"{name} ends ({job['end_state']})")
        if job["state"] == before[0] == "running" and job["share_pct"] != before[3]:
            what = "squeezed" if job["share_pct"] < before[3] else "swollen"
            self._say(f"{name} is {what} to {job['share_pct']:.0f} % of its GPU")

    def _plans(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        before: dict[str, int] = {}
        while True:
            page = _ok(self._client.get(f"{_URL}/plans", params={"limit": 1000, **before}))
            found += page["items"]
            if page["next_before"] is None:
                return found[::-1]
            before = {"before": page["next_before"]}

    def _plan_s(self) -> float:
        runs = _ok(self._client.get(f"{_URL}/runs", params={"limit": 100}))["items"]
        spans = [
            datetime.fromisoformat(run["finished_at"]) - datetime.fromisoformat(run["requested_at"])
            for run in runs
            if run["kind"] == "replan" and run["status"] == "succeeded"
        ]
        return median(span.total_seconds() for span in spans) / scenario.SPEED

    def _say(self, text: str) -> None:
        self._tell(f"{time.monotonic() - self._begun_s:5.1f} s  {text}")

    def _logs(self) -> str:
        return f"the logs are in {self._folder}"


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").is_success
    except httpx.TransportError:
        return False


def _has_run(client: httpx.Client, run_id: str) -> bool:
    run = _ok(client.get(f"/v1/runs/{run_id}"))
    if run["status"] in ("failed", "cancelled"):
        raise DemoFailed(f"run {run_id} has {run['status']}: {run['error']}")
    return bool(run["status"] == "succeeded")


def _are_nodes_there(client: httpx.Client) -> bool:
    nodes = _ok(client.get(f"{_URL}/inventory"))["nodes"]
    return all(node["gpu_uuids"] and not node["is_lost"] for node in nodes)


def _until(holds: Callable[[], bool], otherwise: str, folder: Path) -> None:
    until_s = time.monotonic() + _READY_S
    while not holds():
        if time.monotonic() > until_s:
            raise DemoFailed(f"{otherwise}; the logs are in {folder}")
        time.sleep(_LOOK_S)


def _ok(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json()
    raise DemoFailed(f"{response.request.method} {response.request.url.path}: {response.text[:500]}")
