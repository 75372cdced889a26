"""The client against a small HTTP server that says what it is told to say."""

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from antecast_client import (
    Client,
    KeyFileError,
    ProblemError,
    RunEndedError,
    UnreachableError,
    events,
    read_key,
)


class Server(ThreadingHTTPServer):
    """Answers in the order of `script`: (status, headers, body), or None: hangs up."""

    daemon_threads = True

    def __init__(self):
        self.script, self.heard = [], []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        length = self.headers.get("Content-Length")
        if length is None and self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self.chunk, b""))
        else:
            body = self.rfile.read(int(length or 0))
        self.server.heard.append((self.command, self.path, dict(self.headers), body))
        said = self.server.script.pop(0)
        if said is None:
            self.close_connection = True
            return
        status, headers, text = said
        self.send_response(status)
        for name, value in headers.items():
            if name != "Content-Length":
                self.send_header(name, value)
        self.send_header("Content-Length", str(headers.get("Content-Length", len(text))))
        self.end_headers()
        self.wfile.write(text)
        self.close_connection = len(text) < int(headers.get("Content-Length", 0))

    def chunk(self):
        size = int(self.rfile.readline(), 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the library's names

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def client(server, pauses):
    with Client(server.url, "ak_secret", wait=pauses.append) as made:
        yield made


def ok(**body):
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def problem(status, kind, headers=None, **more):
    body = {"type": f"/problems/{kind}", "title": "No", "status": status, "detail": "because", **more}
    return status, {"Content-Type": "application/problem+json", **(headers or {})}, json.dumps(body).encode()


def test_a_decision_is_asked_for_with_the_key_and_the_events(server, client):
    server.script = [ok(starts=[{"job_id": "a", "is_guest": False}])]
    at = datetime(2026, 1, 5, 13, tzinfo=timezone(timedelta(hours=1)))
    told = [events.submitted("a", "vision", 4, at=at, uid="a submit", limit_s=60.0)]
    answer = client.decide("research", told, idle_gpus=8)
    assert answer["starts"] == [{"job_id": "a", "is_guest": False}]
    method, path, headers, body = server.heard[0]
    assert (method, path) == ("POST", "/v1/clusters/research/decisions")
    assert headers["Authorization"] == "Bearer ak_secret"
    job = {"pool": "vision", "num_gpus": 4, "limit_s": 60.0}
    event = {"kind": "submitted", "job_id": "a", "at": "2026-01-05T12:00:00Z", "uid": "a submit", "job": job}
    assert json.loads(body) == {"events": [event], "idle_gpus": 8}


def test_a_post_that_got_no_answer_is_repeated_under_the_same_key(server, client, pauses):
    server.script = [None, problem(503, "database-away", {"Retry-After": "2"}), ok(accepted=1)]
    assert client.tell("c", [events.cancelled("a")]) == {"accepted": 1}
    keys = {headers["Idempotency-Key"] for _, _, headers, _ in server.heard}
    assert len(server.heard) == 3
    assert len(keys) == 1
    assert pauses == [0.1, 2.0]


def test_two_posts_have_two_keys(server, client):
    server.script = [ok(), ok()]
    client.post("/v1/x")
    client.post("/v1/x")
    first, second = (headers["Idempotency-Key"] for _, _, headers, _ in server.heard)
    assert first != second


def test_a_change_is_never_repeated(server, client):
    server.script = [(200, {"ETag": '"3"'}, b"{}"), None]
    with pytest.raises(UnreachableError, match="antecast serve"):
        client.change("PATCH", "/v1/clusters/c", {"is_lending": False})
    assert [(heard[0], heard[2].get("If-Match")) for heard in server.heard] == [
        ("GET", None),
        ("PATCH", '"3"'),
    ]


def test_a_decision_within_a_limit_has_one_try(server, client, pauses):
    server.script = [problem(503, "decision-unavailable", {"Retry-After": "1"})]
    with pytest.raises(ProblemError) as caught:
        client.decide("c", within_s=5.0)
    assert (caught.value.status, caught.value.retry_after_s, pauses) == (503, 1.0, [])


def test_a_problem_says_what_is_wrong(server, client):
    broken = [{"where": "body.events.0.kind", "message": "Input should be 'submitted'"}]
    server.script = [problem(422, "not-valid", {"X-Request-Id": "r-1"}, errors=broken)]
    with pytest.raises(ProblemError, match=r"No: because\n  body\.events\.0\.kind: Input should") as caught:
        client.post("/v1/clusters/c/events", {})
    assert (caught.value.kind, caught.value.request_id) == ("/problems/not-valid", "r-1")


def test_an_answer_that_is_no_problem_is_told_by_its_status(server, client):
    server.script = [(502, {}, b"<html>proxy</html>")]
    with pytest.raises(ProblemError, match="the service answered 502 Bad Gateway"):
        client.get("/v1/clusters")


def test_what_is_not_the_service_is_found_out(server, client):
    server.script = [(200, {}, b"<html>hello</html>")]
    with pytest.raises(UnreachableError, match="right address"):
        client.get("/v1/clusters")


def test_all_pages_of_a_list(server, client):
    server.script = [
        ok(items=[{"n": 1}], next_after="a b"),
        ok(items=[{"n": 2}], next_after=None),
        ok(items=[{"n": 3}], next="r"),
        ok(items=[{"n": 4}], next=None),
    ]
    assert [one["n"] for one in client.pages("/v1/jobs", limit=1)] == [1, 2]
    assert [one["n"] for one in client.pages("/v1/runs", "before")] == [3, 4]
    paths = [heard[1] for heard in server.heard]
    assert paths == ["/v1/jobs?limit=1", "/v1/jobs?limit=1&after=a+b", "/v1/runs", "/v1/runs?before=r"]


def test_a_path_may_hold_its_query(server, client):
    server.script = [ok()]
    client.get("/v1/x?to=latest")
    assert server.heard[0][1] == "/v1/x?to=latest"


def test_a_run_that_fails_says_why(server, client):
    seen = []
    server.script = [ok(run_id="r", status="running"), ok(run_id="r", status="failed", error="no history")]
    with pytest.raises(RunEndedError, match="run r failed: no history"):
        client.wait_for("r", seen.append)
    assert [run["status"] for run in seen] == ["running", "failed"]


def test_a_stream_that_breaks_is_taken_up_where_it_was(server, client):
    first = b': hello\n\nid: 1\nevent: progress\ndata: {"done":\ndata: 1}\n\nid: 2\ndata: cut'
    kind = {"Content-Type": "text/event-stream"}
    server.script = [
        (200, {**kind, "Content-Length": "9999"}, first),
        None,
        (200, kind, b"id: 2\ndata: x\n\n"),
    ]
    found = list(client.follow("/v1/runs/r/events"))
    said = [(event.name, event.data, event.event_id) for event in found]
    assert said == [("progress", '{"done":\n1}', "1"), ("message", "x", "2")]
    assert [heard[2].get("Last-Event-ID") for heard in server.heard] == [None, "1", "1"]


def test_a_file_is_sent_in_pieces(server, client, tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_bytes(b"x" * 300_000)
    server.script = [ok(run_id="r")]
    client.upload("/v1/clusters/c/history", file, {"format": "csv"})
    _, path, headers, body = server.heard[0]
    assert (path, headers["Content-Type"], len(body)) == (
        "/v1/clusters/c/history?format=csv",
        "text/csv",
        300_000,
    )


def test_nobody_listens():
    with Client("http://127.0.0.1:9", wait=lambda _s: None) as client, pytest.raises(UnreachableError):
        client.get("/healthz")


def test_an_instant_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        events.started("a", at=datetime(2026, 1, 5))  # noqa: DTZ001
    assert events.started("a", at=datetime(2026, 1, 5, tzinfo=UTC))["at"] == "2026-01-05T00:00:00Z"


def test_the_key_comes_from_a_file_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.delenv("ANTECAST_API_KEY", raising=False)
    file = tmp_path / "key"
    file.write_text("ak_file\n", encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_key(file)
    file.chmod(0o600)
    assert read_key(file) == "ak_file"
    monkeypatch.setenv("ANTECAST_API_KEY", "ak_env")
    assert read_key(file) == "ak_env"
    monkeypatch.delenv("ANTECAST_API_KEY")
    with pytest.raises(KeyFileError, match="there is no key file"):
        read_key(tmp_path / "none")


def test_it_brings_httpx_and_nothing_of_the_service():
    look = "import sys, antecast_client; print({name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert "'httpx'" in done.stdout
    assert not any(f"'{name}'" in done.stdout for name in ("app", "domain", "pandas", "pydantic", "fastapi"))
