"""Runs as their users meet them: a real API, real workers, real receivers, and what kills them."""

import base64
import hashlib
import hmac
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from run_support.processes import environment, until, worker

STREAM = {"Accept": "text/event-stream"}
CSV = {"Content-Type": "text/csv"}
HEADER = "job_id,pool,submit_s,num_gpus,duration_s\n"


class Api:
    """A real API process; `kill` it and `begin` it again on the same port."""

    def __init__(self, folder):
        self.url = f"sqlite:///{folder}/antecast.db"
        self.settings = {"auth": "off", "webhook_private": "true", "models_dir": folder / "models"}
        self._log = folder / "log"
        self._port = "0"
        self.begin()

    def begin(self):
        log = self._log.open("wb")
        command = [sys.executable, "-m", "app", "serve", "--no-worker", "--port", self._port]
        self.process = subprocess.Popen(command, env=environment(self.url, **self.settings), stderr=log)
        log.close()
        found = until(lambda: re.search(r"running on (http://\S+:(\d+))", self._log.read_text()), "the API")
        self.address, self._port = found[1], found[2]
        self.client = httpx.Client(base_url=self.address, timeout=60)

    def kill(self, number=signal.SIGKILL):
        self.client.close()
        self.process.send_signal(number)
        return self.process.wait(60)

    def post(self, path, **body):
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def get(self, path):
        answer = self.client.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    def cluster(self, name, policy="fcfs", **settings):
        self.post("/v1/clusters", name=name, enforced_by="scheduler", policy=policy, settings=settings)
        pools = [{"name": "vision", "quota_gpus": 4}, {"name": "speech", "quota_gpus": 4}]
        put = self.client.put(
            f"/v1/clusters/{name}/inventory", json={"pools": pools}, headers={"If-Match": "*"}
        )
        assert put.is_success, put.text

    def upload(self, name, text):
        answer = self.client.post(f"/v1/clusters/{name}/history", content=text, headers=CSV)
        assert answer.is_success, answer.text
        return answer.json()["run_id"]

    def over(self, run_id):
        return until(
            lambda: (run := self.get(f"/v1/runs/{run_id}"))["finished_at"] and run, f"the end of {run_id}"
        )

    def events(self, run_id):
        return [one["kind"] for one in self.get(f"/v1/runs/{run_id}/events?limit=1000")["items"]]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    made = Api(tmp_path_factory.mktemp("api"))
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def mortal(tmp_path):
    """An API of the test's own, to be killed."""
    made = Api(tmp_path)
    try:
        yield made
    finally:
        made.kill()


def history(num_jobs=150, days=14):
    """Some weeks of jobs that end before the cluster's clock begins."""
    step_s = days * 86_400 / num_jobs
    return HEADER + "".join(
        f"j{k},{('vision', 'speech')[k % 2]},{submit_s},{1 + k % 3},{600 + k % 7 * 300}\n"
        for k, submit_s in enumerate(round(k * step_s) - days * 86_400 for k in range(num_jobs))
    )


def real_worker(api, **settings):
    return worker(api.url, "run_support.real_worker", **{**api.settings, **settings})


# --- streams


def read_stream(api, run_id, last=None, until_kind="finished"):
    """Ids and kinds up to one of a kind, where the connection is cut."""
    headers = STREAM if last is None else {**STREAM, "Last-Event-ID": str(last)}
    found = []
    with api.client.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                said = json.loads(line.removeprefix("data: "))
                found.append((said["number"], said["kind"]))
                if said["kind"] == until_kind:
                    break
    return found


def test_a_stream_that_is_cut_loses_nothing(mortal, tmp_path):
    """Also where events come while nobody listens, and the API is another process by then."""
    mortal.cluster("c")
    request = json.dumps({"do": "wait", "folder": str(tmp_path)})
    with worker(mortal.url, worker_lease_s=2, test_request=request) as first:
        run_id = mortal.post("/v1/clusters/c/replans")["run_id"]
        before = read_stream(mortal, run_id, until_kind="started")
        assert before == [(1, "queued"), (2, "started")]
        first.send_signal(signal.SIGTERM)
        first.wait(60)
        assert mortal.kill(signal.SIGTERM) in (0, -signal.SIGTERM)
        mortal.begin()
        (tmp_path / "go").touch()
        with worker(mortal.url, test_request=request):
            after = read_stream(mortal, run_id, last=before[-1][0])
    assert after == [(3, "handed_over"), (4, "started"), (5, "finished")]
    assert read_stream(mortal, run_id) == before + after


# --- a storm


def test_a_thousand_triggers_are_two_runs(api, tmp_path):
    api.cluster("storm")
    with worker(api.url, test_request=json.dumps({"do": "wait", "folder": str(tmp_path)})):
        got = Counter()
        for k in range(1_000):
            got[api.post("/v1/clusters/storm/replans")["run_id"]] += 1
            if k == 0:
                until(lambda: list(tmp_path.glob("*.pid")), "the first to run")
        assert len(got) == 2, "one that runs and one that waits"
        (tmp_path / "go").touch()
        for run_id in got:
            assert api.over(run_id)["status"] == "succeeded"
    assert len(api.get("/v1/clusters/storm/runs")["items"]) == 2


# --- webhooks


@contextmanager
def receiver(port, got):
    """Answers as told by its path, and keeps what came."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers.items()), body))
            self.send_response(int(self.path.rpartition("/")[2]))
            self.send_header("Location", "/elsewhere/200")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def check_signature(secret, headers, body):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    made = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(made).decode()


def test_a_receiver_that_was_down_is_told_when_it_is_back(api):
    """And neither one that never answers nor one that redirects keeps it from that."""
    api.cluster("hooks")
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        ports = {"silent": silent.getsockname()[1], "down": port, "redirects": port}
        paths = {"silent": "200", "down": "200", "redirects": "302"}
        hooks = {
            name: api.post(
                "/v1/clusters/hooks/webhooks", url=f"http://127.0.0.1:{ports[name]}/{name}/{paths[name]}"
            )
            for name in ports
        }

        def delivery(name):
            (found,) = api.get(f"/v1/clusters/hooks/webhooks/{hooks[name]['webhook_id']}/deliveries")["items"]
            return found

        with worker(api.url, **{**api.settings, "webhook_retry_s": 0.1}):
            run_id = api.post("/v1/clusters/hooks/replans")["run_id"]
            api.over(run_id)
            until(lambda: delivery("down")["attempts"] >= 2, "two attempts in vain")
            assert "Refused" in delivery("down")["error"]
            got = []
            with receiver(port, got):
                done = until(
                    lambda: (one := delivery("down"))["status"] == "delivered" and one, "the delivery"
                )
                assert (done["answered"], done["error"]) == (200, None)
                until(lambda: delivery("redirects")["answered"] == 302, "the one that redirects")
                assert "not followed" in delivery("redirects")["error"]
                again = f"/v1/clusters/hooks/webhooks/{hooks['down']['webhook_id']}/deliveries"
                api.post(f"{again}/{done['delivery_id']}/redeliver")
                until(lambda: sum(path.startswith("/down") for path, _, _ in got) == 2, "it again")
        assert (delivery("silent")["status"], delivery("silent")["attempts"]) == ("pending", 1)
    for path, headers, body in got:
        assert not path.startswith("/elsewhere")
        check_signature(hooks[path.split("/")[1]]["secret"], headers, body)
        assert json.loads(body)["data"]["run_id"] == run_id
    assert {headers["webhook-id"] for path, headers, _ in got if path.startswith("/down")} == {
        done["delivery_id"]
    }


# --- what kills them


def test_a_worker_that_is_killed_in_a_replan_and_a_training_costs_neither(api):
    """The real kinds: one plan, one epoch, models that are kept, and no run lost."""
    api.cluster("killed", "anticipatory", lives="learned")
    text = history()
    with real_worker(api, worker_lease_s=2) as first:
        assert api.over(api.upload("killed", text))["status"] == "succeeded"
        replan = api.post("/v1/clusters/killed/replans")["run_id"]
        train = api.post("/v1/clusters/killed/trainings", begins_epoch=True, holdout_days=9)["run_id"]
        until(lambda: all("started" in api.events(run_id) for run_id in (replan, train)), "both to begin")
        first.kill()
        first.wait()
    with real_worker(api):
        planned, trained = api.over(replan), api.over(train)
    for run_id in (replan, train):
        assert Counter(api.events(run_id))["finished"] == 1
        assert api.events(run_id).count("handed_over") == 1
    assert (planned["status"], planned["error"]) == ("succeeded", None)
    made = planned["result"].get("number")
    assert made == 1 or "made_again_by" in planned["result"], "the epoch of the training may have come first"
    assert (trained["status"], trained["error"]) == ("succeeded", None)
    assert trained["result"]["is_kept"] is True
    assert set(trained["result"]["scores"]) == {"lifetime", "demand"}
    reasons = [one["reason"] for one in api.get("/v1/clusters/killed/epochs")]
    assert reasons.count(f"training {train}") == 1


def half_an_upload(api, name, text):
    """Send the head of a request and half of its body; returns the open connection."""
    host, _, port = api.address.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)))
    head = (
        f"POST /v1/clusters/{name}/history HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Content-Type: text/csv\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    connection.sendall(head.encode() + text[: len(text) // 2].encode())
    return connection


def test_an_upload_that_is_cut_leaves_nothing_and_can_be_repeated(mortal):
    """By its sender, and by the death of the API: no job is there too early, and none twice."""
    mortal.cluster("c")
    text = HEADER + "".join(f"{k:0250},vision,{k - 90_000},1,60\n" for k in range(12_000))
    path = "/v1/clusters/c/history"

    def arrives():
        return [one["status"] for one in mortal.get(path)["items"]] == ["receiving"]

    with half_an_upload(mortal, "c", text):
        until(arrives, "some to arrive")
    until(lambda: mortal.get(path)["items"] == [], "what the sender left to be gone")
    with half_an_upload(mortal, "c", text):
        until(arrives, "some to arrive")
        mortal.kill()
    mortal.begin()
    left = mortal.get(path)
    assert (left["num_jobs"], [one["status"] for one in left["items"]]) == (0, ["receiving"])
    assert mortal.get("/v1/clusters/c/runs")["items"] == [], "half a file is never read"
    run_id = mortal.upload("c", text)
    with real_worker(mortal):
        assert mortal.over(run_id)["result"]["num_jobs"] == 12_000
        again = mortal.over(mortal.upload("c", text))
    assert (again["result"]["num_jobs"], mortal.get(path)["num_jobs"]) == (0, 12_000)


def test_planning_hands_out_a_plan_that_lends_nothing_first(api):
    """Cancelled as soon as it is there, a replan ends with a plan all the same."""
    api.cluster("first", "anticipatory")
    job = {"pool": "vision", "num_gpus": 2}
    api.post(
        "/v1/clusters/first/events",
        events=[{"kind": "submitted", "job_id": f"j{k}", "job": job} for k in range(3)],
    )
    run_id = api.post("/v1/clusters/first/replans")["run_id"]
    with real_worker(api):
        found = read_stream(api, run_id, until_kind="incumbent")
        assert found[-1][1] == "incumbent"
        api.post(f"/v1/runs/{run_id}/cancel")
        run = api.over(run_id)
    assert run["status"] in ("cancelled", "succeeded"), "it may have been faster"
    if run["status"] == "cancelled":
        assert run["result"]["kept"]["plan"] in ("reference", "policy")
    plan = api.get(f"/v1/clusters/first/plans/{run['result']['plan_id']}")
    assert [one["job_id"] for one in plan["starts"]][:2] == ["j0", "j1"]
