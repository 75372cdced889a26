"""Faults as they come: the database goes and returns, clients are slow, the service is told to stop."""

import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from databases import _programs
from run_support.processes import is_alive, until

GARBAGE = random.Random(0).randbytes(2**20) * 10  # noqa: S311
CLUSTER = b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs"}'
HEAD = "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{size}\r\n\r\n"
JSON = {"Content-Type": "application/json"}
POOLS = {"pools": [{"name": "a", "quota_gpus": 4}]}


@contextmanager
def serving(url, folder, *arguments, **settings):
    """`antecast serve` as a process; gives it and where it listens."""
    given = {f"ANTECAST_{name.upper()}": str(value) for name, value in settings.items()}
    env = {**os.environ, "ANTECAST_AUTH": "off", **given, "ANTECAST_DATABASE_URL": url}
    command = [sys.executable, "-m", "app", "serve", "--port", "0", *arguments]
    log = folder / "log"
    with log.open("wb") as out, subprocess.Popen(command, env=env, stderr=out) as process:
        try:
            found = until(lambda: re.search(r"running on http://127.0.0.1:(\d+)", log.read_text()), "the API")
            yield process, int(found[1])
        finally:
            process.terminate()
            process.wait(60)


class Postgres:
    """A PostgreSQL of a test's own, to be stopped and started."""

    def __init__(self, folder):
        self.folder = folder
        self.owner = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if self.owner:
            shutil.chown(folder, **self.owner)
        initdb, self._pg_ctl = _programs()
        self._run(
            initdb, "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync", "--no-locale", "-E", "UTF8"
        )
        self.start()

    @property
    def data(self):
        return str(self.folder / "data")

    @property
    def url(self):
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def start(self):
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        log = str(self.folder / "log")
        self._run(self._pg_ctl, "-D", self.data, "-l", log, "-o", options, "-w", "start")

    def stop(self):
        self._run(self._pg_ctl, "-D", self.data, "-m", "immediate", "-w", "stop")

    def _run(self, *command):
        subprocess.run(
            command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=60, **self.owner
        )


@pytest.fixture
def postgres():
    if _programs() is None:
        pytest.skip("PostgreSQL's programs initdb and pg_ctl are not installed")
    folder = Path(tempfile.mkdtemp(prefix="antecast-pg-"))  # short: a socket's path has at most 107 bytes
    try:
        made = Postgres(folder)
        yield made
        made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_database_goes_and_comes_back_and_so_does_the_service(postgres, tmp_path):
    with ExitStack() as stack:
        _, port = stack.enter_context(serving(postgres.url, tmp_path))
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
        until(lambda: client.get("/readyz").json().get("status") == "ready", "the worker")
        assert client.post("/v1/clusters", content=CLUSTER, headers=JSON).status_code == 201
        postgres.stop()
        for path in ("/v1/clusters", "/v1/clusters/c"):
            away = client.get(path)
            assert (away.status_code, away.headers["retry-after"]) == (503, "5"), away.text
            assert away.json()["type"] == "/problems/database-away"
        other = CLUSTER.replace(b'"c"', b'"d"')
        assert client.post("/v1/clusters", content=other, headers=JSON).status_code == 503
        assert "missing: database" in client.get("/readyz").json()["detail"]
        assert client.get("/healthz").status_code == 200
        assert "antecast_database_up 0.0" in client.get("/metrics").text
        postgres.start()
        assert [one["name"] for one in client.get("/v1/clusters").json()["items"]] == ["c"]
        put = client.put("/v1/clusters/c/inventory", json=POOLS, headers={"If-Match": "*"})
        assert put.status_code == 200, put.text
        run = client.post("/v1/clusters/c/replans", json={}).json()["run_id"]
        until(lambda: client.get(f"/v1/runs/{run}").json()["status"] == "succeeded", "a plan")


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """An API on SQLite that waits for nobody."""
    folder = tmp_path_factory.mktemp("impatient")
    limits = {"body_limit_s": 2, "upload_limit_s": 2, "head_limit_s": 2, "database_wait_s": 0.2}
    with serving(f"sqlite:///{folder}/antecast.db", folder, "--no-worker", **limits) as (process, port):
        base = f"http://127.0.0.1:{port}"
        assert httpx.post(f"{base}/v1/clusters", content=CLUSTER, headers=JSON, timeout=60).status_code == 201
        yield process, port, folder


def test_a_locked_database_is_503_for_writers_and_nothing_to_readers(impatient):
    _, port, folder = impatient
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        patch = {"is_lending": False}
        with closing(sqlite3.connect(folder / "antecast.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            away = client.patch("/v1/clusters/c", json=patch, headers={"If-Match": "*"})
            assert (away.status_code, away.headers["retry-after"]) == (503, "5"), away.text
            assert client.get("/v1/clusters/c").json()["is_lending"] is True
        assert client.patch("/v1/clusters/c", json=patch, headers={"If-Match": "*"}).status_code == 200


def said_to(port, sent):
    """All that is answered to these bytes until the other end closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
        return answer


def test_who_does_not_get_to_the_point_is_answered_408_and_sent_away(impatient):
    bodies = [
        HEAD.format(path="/v1/clusters", kind="application/json", size="Content-Length: 100").encode()
        + CLUSTER,
        HEAD.format(
            path="/v1/clusters/c/history", kind="text/csv", size="Transfer-Encoding: chunked"
        ).encode()
        + b"5\r\nhalf,\r\n",
    ]
    heads = [b"GET /healthz HTTP/1.1\r\nHost: local", b""]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda sent: said_to(impatient[1], sent), [*bodies, *heads]))
    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"connection: close" in answer.lower()
    assert all(b'"/problems/request-timeout"' in answer for answer in answers[: len(bodies)])


def resident_mib(pid):
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024


@pytest.mark.parametrize("is_told", [True, False], ids=["length told", "in pieces"])
def test_ten_megabytes_of_garbage_are_refused_and_leave_nothing_behind(impatient, is_told):
    process, port, folder = impatient
    bodies = [
        ("/v1/clusters", "application/json"),
        ("/v1/clusters/c/events", "application/json"),
        ("/v1/clusters/c/history", "text/csv"),
        ("/v1/clusters/c/history?format=sacct", "application/octet-stream"),
        ("/v1/clusters/c/history?format=parquet", "application/octet-stream"),
        ("/v1/clusters/c/history?format=auto", "application/octet-stream"),
    ]

    def send(path, kind):
        pieces = (GARBAGE[at : at + 65_536] for at in range(0, len(GARBAGE), 65_536))
        try:
            answer = client.post(path, content=GARBAGE if is_told else pieces, headers={"Content-Type": kind})
        except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            return 413  # it was cut off while it was still being sent
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        return answer.status_code

    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        first = [send(*body) for body in bodies]
        before_mib = resident_mib(process.pid)
        second = [send(*body) for body in bodies]
    assert first == second == [413, 413, 422, 422, 422, 422]
    assert resident_mib(process.pid) - before_mib < 8
    with closing(sqlite3.connect(folder / "antecast.db")) as database:
        assert database.execute("SELECT count(*) FROM history_imports").fetchone() == (0,)


def test_told_to_stop_it_lets_requests_under_way_end(tmp_path):
    with serving(f"sqlite:///{tmp_path}/antecast.db", tmp_path, "--no-worker", stop_wait_s=25) as (
        process,
        port,
    ):
        size = f"Content-Length: {len(CLUSTER)}"
        head = HEAD.format(path="/v1/clusters", kind="application/json", size=size).encode()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(head + CLUSTER[:10])
            # Served meanwhile: so the half request is under way.
            assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
            process.send_signal(signal.SIGTERM)
            until(lambda: "Shutting down" in (tmp_path / "log").read_text(), "the beginning of the end")
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", port), timeout=60)
            connection.sendall(CLUSTER[10:])
            assert connection.recv(65_536).startswith(b"HTTP/1.1 201 Created")
        assert process.wait(60) == 0
    assert not is_alive(process.pid)
