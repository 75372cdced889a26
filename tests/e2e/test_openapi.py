"""The OpenAPI, tried as a stranger would: schemathesis against a real server that checks keys.

Examples, the limits of every field, random bodies and sequences of requests. Whatever it finds is a defect:
an answer that the document does not promise, a body that the document forbids and the service takes, a server
error. And every operation has to be reached, not only asked.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from run_support.processes import until

from app.services import keys
from app.store.engine import make_engine, upgrade

NOT_REACHED = {
    "POST /v1/executors/enroll": "a token is good once, and the test needed an executor",
    "GET /v1/executors/{executor_id}/desired": "its session is over once the tool has opened another",
    "POST /v1/executors/{executor_id}/status": "likewise",
    "GET /v1/clusters/{cluster}/actions/{number}": "only in advise",
    "POST /v1/clusters/{cluster}/actions/{number}/accept": "only in advise",
    "POST /v1/clusters/{cluster}/actions/{number}/reject": "only in advise",
    "GET /v1/clusters/{cluster}/observations/{day}": "only if observed",
    "POST /v1/clusters/{cluster}/plans/{plan_id}/approve": "there is no draft",
    "POST /v1/clusters/{cluster}/plans/{plan_id}/reject": "there is no draft",
    "POST /v1/clusters/{cluster}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": "there is none",
    "POST /v1/clusters/{cluster}/pauses": "only executors pause, and the job they would have to run",
}
"""Operations at which no request of the tool can succeed, and why. They are tried all the same."""

SETTINGS = """
[generation]
max-examples = 5
deterministic = true
no-shrink = true
with-security-parameters = false

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 410, 412, 413, 422, 428, 429, 501]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429]

[checks.missing_required_header]
expected-statuses = [400, 401, 403, 406, 415, 422, 428]

[parameters]
{parameters}

[[operations]]
include-path-regex = "^/v1/executors/"
headers = {{ Authorization = "Bearer {secret}" }}

[[operations]]
include-path = "/v1/executors/{{executor_id}}/revoke"
headers = {{ Authorization = "Bearer {key}" }}
"""


@pytest.fixture
def server(tmp_path):
    """A server, and an admin's key."""
    url = f"sqlite:///{tmp_path / 'antecast.db'}"
    upgrade(url)
    engine = make_engine(url)
    key = keys.create(engine, "a stranger", ["admin"])
    engine.dispose()
    env = {
        **os.environ,
        "ANTECAST_DATABASE_URL": url,
        "ANTECAST_AUTH": "keys",
        "ANTECAST_MAX_FAILED_LOGINS": "10000",
        "ANTECAST_POLL_WAIT_S": "0",
    }
    command = [sys.executable, "-m", "app", "serve", "--no-worker", "--port", "0"]
    log = tmp_path / "log"
    with log.open("wb") as out, subprocess.Popen(command, env=env, stderr=out, stdout=out) as process:
        try:
            yield until(lambda: re.search(r"running on (http://[\w.:]+)", log.read_text()))[1], key
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def working(tmp_path: Path):
    """A worker, for as long as it is needed."""
    env = {**os.environ, "ANTECAST_DATABASE_URL": f"sqlite:///{tmp_path / 'antecast.db'}"}
    with (tmp_path / "worker.log").open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "app", "worker"], env=env, stderr=out, stdout=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def furnish(url: str, key: str) -> tuple[dict[str, str], str]:
    """Make one of everything that an operation may name; its names, and an executor's secret."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60.0) as client:

        def ask(method: str, path: str, **more):
            answer = client.request(method, path, **more)
            assert answer.is_success, f"{method} {path}: {answer.text}"
            return answer.json()

        body = {"name": "research", "enforced_by": "scheduler", "policy": "fcfs"}
        ask("POST", "/v1/clusters", json=body)
        inventory = {
            "pools": [{"name": "vision", "quota_gpus": 8}, {"name": "speech", "quota_gpus": 8}],
            "nodes": [{"name": "node-1", "num_gpus": 1}, {"name": "node-2", "num_gpus": 15}],
        }
        path = "/v1/clusters/research"
        ask("PUT", f"{path}/inventory", json=inventory, headers={"If-Match": "*"})
        rows = "job_id,pool,submit_s,num_gpus,duration_s\n1,vision,0,8,3600\n"
        sent = {"content": rows, "headers": {"Content-Type": "text/csv"}, "params": {"format": "csv"}}
        imported = ask("POST", f"{path}/history", **sent)
        ask("POST", f"{path}/decisions", json={})  # entry 1 of the log, the first that the tool tries
        job = {"pool": "vision", "num_gpus": 8}
        events = [{"kind": "submitted", "job_id": name, "job": job} for name in ("job-1", "job-2")]
        events += [{"kind": "started", "job_id": "job-1"}]
        ask("POST", f"{path}/events", json={"events": events})
        for _ in range(2):  # so that a plan has one before it
            run = ask("POST", f"{path}/replans")
            until(lambda run=run: ask("GET", f"/v1/runs/{run['run_id']}")["status"] == "succeeded")
        plan = ask("GET", f"{path}/plans/latest")
        change = {"kind": "quota", "pool": "vision", "by_gpus": 1, "from": "others"}
        what_if = ask("POST", f"{path}/what-ifs", json={"changes": [change], "days": 3})
        axis = {"name": "GPUs", "change": change | {"by_gpus": "$"}, "values": [1, 2]}
        sweep = ask("POST", f"{path}/what-if-sweeps", json={"parameters": [axis]})
        token = ask("POST", f"{path}/join-tokens", json={"node": "node-1", "ttl_s": 600})["token"]
        enrolled = ask(
            "POST", "/v1/executors/enroll", json={"token": token, "node": "node-1", "version": "1"}
        )
        session = {"boot_id": "boot-1", "version": "1", "capabilities": []}
        session["devices"] = [{"uuid": "GPU-5f1c", "index": 0}]
        whose = {"Authorization": f"Bearer {enrolled['secret']}"}
        ask("POST", f"/v1/executors/{enrolled['executor_id']}/sessions", json=session, headers=whose)
        other = ask("POST", "/v1/keys", json={"name": "another", "scopes": ["read"]})
    names = {
        "job_id": "job-1",
        "run_id": run["run_id"],
        "plan_id": plan["plan_id"],
        "what_if_id": what_if["run_id"],
        "sweep_id": sweep["sweep_id"],
        "import_id": imported["import_id"],
        "executor_id": enrolled["executor_id"],
        "key_id": other["key"].split("_")[1],
    }
    found = {f"path.{name}": str(value) for name, value in names.items()}
    return found | {"query.ids": what_if["run_id"]}, enrolled["secret"]


def tried(folder: Path, url: str, key: str, settings: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    """Let the tool loose; what it printed, and its report."""
    (folder / "schemathesis.toml").write_text(settings, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("st")), "run", f"{url}/openapi.json", "--no-color"]
    command += ["--checks", "all", "--continue-on-failure", "--report", "json", "--warnings", "off"]
    command += ["--request-timeout", "60"]
    command += ["--report-json-path", str(folder / "report.json"), "--header", f"Authorization: Bearer {key}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    return done, json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_a_stranger_finds_nothing_and_gets_everywhere(server, tmp_path):
    url, key = server
    with working(tmp_path):
        names, secret = furnish(url, key)
    parameters = "\n".join(f'"{name}" = {json.dumps(value)}' for name, value in names.items())
    settings = SETTINGS.format(parameters=parameters, secret=secret, key=key)
    done, report = tried(tmp_path, url, key, settings)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert report["failures"] == []
    assert report["operations"]["tested"] == report["operations"]["total"] > 30
    reached = {
        operation
        for operation, phases in report["valid_rates"].items()
        if any(phase["accepted"] for phase in phases.values())
    }
    missed = set(report["valid_rates"]) - reached - set(NOT_REACHED)
    assert not missed, "\n".join(sorted(missed))
