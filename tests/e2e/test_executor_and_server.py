"""An executor as a real process on a simulated node, against the service over real HTTP."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from live import serving, wait_until
from nodes import job, log, make_cluster, placement, start, want_no_more, wanted_on
from support import REPOSITORY

from app.clock import SystemClock
from app.services import executors, observe
from app.services.facts import Fact, FactKind
from app.services.times import to_s
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import NodeRow

LEASE_S = 3.0

# Writes down what it was told, then ends with the status that is written into the file it watches.
WORKER = """
import json, os, pathlib, sys, time
told, watched = map(pathlib.Path, sys.argv[1:])
draft = told.with_suffix(".new")
draft.write_text(json.dumps({"pid": os.getpid(), "env": dict(os.environ)}))
draft.replace(told)
while not watched.exists():
    time.sleep(0.01)
sys.exit(int(watched.read_text()))
"""


class NodeProcess:
    """One node's executor, to be started, killed and started again."""

    def __init__(self, client, folder: Path):
        self.client = client
        self.folder = folder
        self.process = None
        token = client.post("/v1/clusters/c/join-tokens", json={"node": "n1"}).json()["token"]
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)

    def begin(self):
        options = {
            "--url": str(self.client.base_url).rstrip("/"),
            "--state": self.folder / "state",
            "--token-file": self.folder / "token",
            "--node": "n1",
            "--devices": "sim",
            "--sim-gpus": 2,
            "--tick-s": 0.1,
        }
        words = [str(word) for pair in options.items() for word in pair]
        command = [sys.executable, "-m", "antecast_executor", "run", *words]
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "executor" / "src")}
        with (self.folder / "log").open("a") as file:
            self.process = subprocess.Popen(command, env=environment, stderr=file)

    def end(self, number=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(30)

    def seen(self):
        """What the service says of it."""
        items = self.client.get("/v1/clusters/c/executors").json()["items"]
        return items[0] if items else None


class Scene:
    """A service, a node, and jobs on it."""

    def __init__(self, engine, node, folder):
        self.engine, self.node, self.folder, self.clock = engine, node, folder, SystemClock()
        self.ids = []

    def start(self, name, gpu=0, **more):
        argv = [sys.executable, "-c", WORKER, str(self.folder / f"{name}.told"), str(self.folder / name)]
        (placed,) = start(self.engine, self.clock, name, [("n1", gpu)], **({"argv": argv} | more))
        self.ids.append(placed)
        return placed

    def running(self, name):
        """What the job's process has written down, once it runs."""
        path = self.folder / f"{name}.told"
        wait_until(path.exists, f"{name} does not start: {self.node_log()}")
        return json.loads(path.read_text())

    def finish(self, name, status):
        draft = self.folder / f"{name}.draft"
        draft.write_text(str(status))
        draft.replace(self.folder / name)

    def ended(self, name):
        """The fact of its end, once it is in the log."""
        return wait_until(
            lambda: next((fact for fact in log(self.engine, "ended") if fact.job_id == name), None),
            f"no end of {name} in the log: {self.node_log()}",
        )

    def observed(self, placement_id):
        return placement(self.engine, placement_id).observed

    def node_log(self):
        return (self.node.folder / "log").read_text()[-4000:]

    def clear(self):
        """Stop what is left, for it would outlive its executor."""
        want_no_more(self.engine, self.clock, *self.ids)
        if self.node.process.poll() is not None:
            self.node.begin()
        wait_until(
            lambda: all(placement(self.engine, name).ended_at for name in self.ids), "something is left"
        )


@contextmanager
def scene_on(database, folder):
    engine = database.another_engine()
    make_cluster(engine, SystemClock(), {"n1": 2})
    with serving(database.url, lease_s=LEASE_S, status_every_s=0.5, poll_wait_s=5.0) as client:
        node = NodeProcess(client, folder)
        node.begin()
        scene = Scene(engine, node, folder)
        try:
            wait_until(lambda: (node.seen() or {}).get("session"), "no session is opened")
            yield scene
            scene.clear()
        finally:
            node.end()


@pytest.fixture
def scene(database, tmp_path):
    with scene_on(database, tmp_path) as made:
        yield made


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


def test_jobs_are_launched_and_their_ends_become_facts(scene):
    good, bad = scene.start("good", 0, env={"LR": "0.1"}), scene.start("bad", 1)
    told = scene.running("good")
    environment = told["env"]
    assert environment["LR"] == "0.1"
    assert environment["ANTECAST_JOB_ID"] == "good"
    assert (environment["ANTECAST_RANK"], environment["ANTECAST_NUM_RANKS"]) == ("0", "1")
    scene.running("bad")
    wait_until(lambda: scene.observed(good).get("state") == "running", "its status does not say it runs")
    scene.finish("good", 0)
    scene.finish("bad", 3)
    fact = scene.ended("good")
    assert fact.data["state"] == "completed"
    ended = job(scene.engine, "good")
    assert 0.0 < fact.data["duration_s"] <= ended.ended_s - ended.submit_s
    assert fact.source == "executors"
    fact = scene.ended("bad")
    assert (fact.data["state"], fact.data["reason"]) == ("failed", "exit code 3")
    assert wanted_on(scene.engine, "n1") == []
    assert {placement(scene.engine, name).ended_at is not None for name in (good, bad)} == {True}


def test_a_guest_that_is_sent_back_is_stopped_and_that_is_no_end(scene):
    name = scene.start("guest", is_guest=True)
    pid = scene.running("guest")["pid"]
    with transaction(scene.engine) as session:
        cluster = lock_cluster(session, "c")
        fact = Fact(FactKind.SENT_BACK, to_s(cluster, scene.clock.now()), "guest")
        observe.record(session, cluster, [fact], source="test", clock=scene.clock)
    want_no_more(scene.engine, scene.clock, name)
    wait_until(lambda: placement(scene.engine, name).ended_at, "it does not stop")
    assert not is_alive(pid)
    assert log(scene.engine, "ended") == []
    assert job(scene.engine, "guest").state == "waiting"


def test_what_cannot_be_launched_fails_with_the_reason(scene):
    scene.start("none", argv=[str(scene.folder / "no-such-program")])
    fact = scene.ended("none")
    assert fact.data["state"] == "failed"
    assert "n1 refused it: launch_failed" in fact.data["reason"]


def test_jobs_outlive_their_executor_and_are_adopted(scene):
    name = scene.start("long")
    pid = scene.running("long")["pid"]
    scene.node.end(signal.SIGKILL)
    before = scene.node.seen()["session"]
    scene.node.begin()
    wait_until(lambda: scene.node.seen()["session"] > before, "no new session is opened")
    assert is_alive(pid)
    wait_until(lambda: scene.observed(name).get("adopted"), f"it is not adopted: {scene.node_log()}")
    scene.finish("long", 0)
    assert scene.ended("long").data["state"] == "completed"


def test_a_node_that_falls_silent_is_given_up_and_comes_back(scene):
    name = scene.start("lost", is_guest=True)
    pid = scene.running("lost")["pid"]
    scene.node.end(signal.SIGKILL)
    given_up = wait_until(lambda: executors.sweep(scene.engine, scene.clock), "the lease does not run out")
    assert given_up == [("c", "n1")]
    assert job(scene.engine, "lost").state == "waiting"
    assert is_alive(pid)
    scene.node.begin()

    def is_back():
        with reading(scene.engine) as session:
            return not session.get(NodeRow, ("c", "n1")).is_lost

    wait_until(is_back, f"the node does not come back: {scene.node_log()}")
    wait_until(lambda: not is_alive(pid), "what is no longer wanted is not stopped")
    wait_until(lambda: placement(scene.engine, name).ended_at, "its end is not told")
    assert log(scene.engine, "ended") == []
