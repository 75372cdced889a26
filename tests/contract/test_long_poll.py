"""Executors that wait, over real HTTP and on both databases."""

import asyncio
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest
import uvicorn
from live import PATIENCE_S, wait_until
from nodes import (
    ORIGIN,
    Enrolled,
    RemoteExecutor,
    StandingClock,
    document,
    make_cluster,
    start,
    want_no_more,
)
from service import assert_problem
from sqlalchemy import event, text
from support import REPOSITORY

from app.main import create_app
from app.services import executors, push
from app.services.waiters import Poll, Waiters
from app.settings import ServiceSettings
from app.store.engine import transaction
from app.store.tables import ExecutorRow

LONG_S = 50.0


@contextmanager
def listening(database, clock):
    settings = ServiceSettings(database_url=database.url, auth="off")
    app = create_app(settings, clock=clock)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    app.state.is_stopping = lambda: server.should_exit
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the API does not start")
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield server, app, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


class Scene:
    """A service that listens, one executor in session, and others to do things beside it."""

    def __init__(self, server, app, url, database, clock, pool):
        self.server = server
        self.app, self.url, self.clock = app, url, clock
        self.engine = database.another_engine()
        self._pool = pool
        self.client = httpx.Client(base_url=url, timeout=PATIENCE_S)
        self.n1 = RemoteExecutor(self.client, "n1", 2).begin()

    def beside(self, call, *arguments, **options):
        return self._pool.submit(call, *arguments, **options)

    def poll(self, **more):
        """A poll that waits for what comes after the present document."""
        after = document(self.engine, "n1")["generation"]
        return self.beside(self.n1.desired, **({"after": after, "wait_s": LONG_S} | more))

    def waiting(self):
        return len(self.app.state.waiters) if hasattr(self.app.state, "waiters") else 0

    def wait_for_waiters(self, number):
        wait_until(lambda: self.waiting() == number, f"there are {self.waiting()} waiters, not {number}")


@pytest.fixture
def scene(database):
    clock = StandingClock()
    make_cluster(database.engine, clock, {"n1": 2, "n2": 2})
    with listening(database, clock) as (server, app, url), ThreadPoolExecutor(8) as pool:
        made = Scene(server, app, url, database, clock, pool)
        yield made
        made.client.close()


def test_what_is_there_is_answered_at_once_and_whole(scene):
    start(scene.engine, scene.clock, "j", [("n1", 0)])
    answer = scene.n1.desired(wait_s=LONG_S)
    assert answer.status_code == 200
    assert answer.json() == document(scene.engine, "n1")
    assert push.document_hash(answer.json()) == answer.json()["hash"]
    assert answer.headers["etag"] == f'"{answer.json()["hash"]}"'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("wait_s", [0, 0.05])
def test_without_news_the_answer_is_empty(scene, wait_s):
    answer = scene.poll(wait_s=wait_s).result(PATIENCE_S)
    assert (answer.status_code, answer.content) == (204, b"")
    assert scene.waiting() == 0


def test_news_from_another_engine_wake_who_waits(scene):
    answer = scene.poll()
    scene.wait_for_waiters(1)
    (name,) = start(scene.engine, scene.clock, "j", [("n1", 1)])
    found = answer.result(PATIENCE_S)
    assert found.status_code == 200
    assert [entry["placement_id"] for entry in found.json()["placements"]] == [name]


def test_news_from_another_process_wake_who_waits(scene, database):
    (name,) = start(scene.engine, scene.clock, "j", [("n1", 1)])
    answer = scene.poll()
    scene.wait_for_waiters(1)
    code = (
        "import sys\n"
        "from nodes import StandingClock, want_no_more\n"
        "from app.store.engine import make_engine\n"
        "want_no_more(make_engine(sys.argv[1]), StandingClock(), sys.argv[2])\n"
    )
    path = {"PYTHONPATH": f"{REPOSITORY / 'tests'}:{REPOSITORY}"}
    subprocess.run([sys.executable, "-c", code, database.url, name], check=True, env=path, timeout=PATIENCE_S)
    assert answer.result(PATIENCE_S).json()["placements"] == []


def test_news_of_another_node_wake_nobody_else(scene):
    other = RemoteExecutor(scene.client, "n2", 2).begin()
    mine = scene.poll()
    scene.wait_for_waiters(1)
    start(scene.engine, scene.clock, "j", [("n2", 0)])
    assert other.desired(wait_s=LONG_S).status_code == 200
    theirs = scene.beside(other.desired, after=document(scene.engine, "n2")["generation"], wait_s=LONG_S)
    scene.wait_for_waiters(2)
    start(scene.engine, scene.clock, "k", [("n2", 1)])
    assert theirs.result(PATIENCE_S).status_code == 200
    assert not mine.done()
    start(scene.engine, scene.clock, "l", [("n1", 1)])
    assert mine.result(PATIENCE_S).status_code == 200


def test_a_newer_poll_ends_the_older_one(scene):
    older = scene.poll()
    scene.wait_for_waiters(1)
    newer = scene.poll()
    assert older.result(PATIENCE_S).status_code == 204
    scene.wait_for_waiters(1)
    start(scene.engine, scene.clock, "j", [("n1", 0)])
    assert newer.result(PATIENCE_S).status_code == 200


def test_who_hangs_up_waits_no_more(scene):
    port = int(scene.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        after = document(scene.engine, "n1")["generation"]
        path = f"/v1/executors/{scene.n1.executor_id}/desired?session=1&after={after}&wait_s={LONG_S}"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {scene.n1.secret}\r\n\r\n"
        connection.sendall(head.encode())
        scene.wait_for_waiters(1)
    scene.wait_for_waiters(0)


def test_a_poll_of_a_session_that_is_over_is_told_so(scene):
    old = scene.poll()
    scene.wait_for_waiters(1)
    assert scene.n1.open().status_code == 201
    start(scene.engine, scene.clock, "j", [("n1", 0)])
    assert_problem(old.result(PATIENCE_S), 409, "stale-session")
    assert_problem(scene.n1.desired(session=1), 409, "stale-session")
    assert scene.n1.desired().status_code == 200


def test_a_poll_of_an_executor_that_is_revoked_meanwhile_gets_nothing(scene):
    answer = scene.poll()
    scene.wait_for_waiters(1)
    with transaction(scene.engine) as session:
        executors.revoke(session, scene.n1.executor_id)
    start(scene.engine, scene.clock, "j", [("n1", 0)])
    assert_problem(answer.result(PATIENCE_S), 403, "not-allowed")


def test_a_server_that_stops_sends_all_away_first(scene):
    answer = scene.poll()
    scene.wait_for_waiters(1)
    scene.server.should_exit = True
    assert answer.result(PATIENCE_S).status_code == 204


@pytest.mark.parametrize("query", [{"wait_s": 61}, {"wait_s": "nan"}, {"after": -1}, {"session": 2**31}])
def test_a_poll_is_bounded(scene, query):
    assert_problem(scene.n1.desired(**query), 422, "not-valid")


def test_a_database_that_is_away_for_a_moment_costs_nobody_the_news(scene):
    engine = scene.app.state.engine
    looked, failed = threading.Event(), threading.Event()

    def note(*told):
        statement = told[2]
        if "executors" in statement and "desired" in statement:
            looked.set()

    event.listen(engine, "after_cursor_execute", note)
    answer = scene.poll()
    scene.wait_for_waiters(1)
    assert looked.wait(PATIENCE_S), "a wait begins with a look of its own, which would tell of the fault"
    event.listen(engine, "handle_error", lambda _: failed.set())
    with scene.engine.begin() as connection:
        connection.execute(text("ALTER TABLE desired RENAME TO elsewhere"))
    assert failed.wait(PATIENCE_S)
    with scene.engine.begin() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO desired"))
    start(scene.engine, scene.clock, "j", [("n1", 0)])
    assert answer.result(PATIENCE_S).status_code == 200


class CountedWaiters(Waiters):
    """Counts the statements of each look, and says when one has begun after all wait."""

    def __init__(self, engine):
        super().__init__(engine, tick_s=0.005)
        self.statements = []
        self.of_looks = []
        event.listen(engine, "before_cursor_execute", self._note)

    def _note(self, connection, cursor, statement, *rest):
        del connection, cursor, rest
        if statement.lstrip().startswith("SELECT"):
            self.statements.append(statement)

    async def _look_once(self):
        before = len(self.statements)
        await super()._look_once()
        self.of_looks.append(len(self.statements) - before)


def test_a_thousand_waiters_cost_one_query_a_look_and_one_is_woken(database):
    clock, number = StandingClock(), 1000
    engine, other = database.engine, database.another_engine()
    make_cluster(engine, clock, {f"n{index}": 1 for index in range(number)})
    with transaction(engine) as session:
        for index in range(number):
            session.add(
                ExecutorRow(
                    executor_id=f"ex-{index}",
                    cluster="c",
                    node=f"n{index}",
                    secret_sha256="",
                    session=1,
                    devices=[],
                    capabilities=[],
                    refusals=[],
                    enrolled_at=ORIGIN + timedelta(hours=1),
                )
            )
        session.execute(text("""UPDATE nodes SET gpu_uuids = '["GPU"]'"""))
        push.publish(session, "c", clock)

    async def scenario():
        waiters = CountedWaiters(engine)
        loop = asyncio.get_running_loop()
        gone = loop.create_future()
        polls = [Poll(f"ex-{index}", "c", f"n{index}", 1, 1) for index in range(number)]
        tasks = [asyncio.create_task(waiters.wait(poll, LONG_S, gone=gone)) for poll in polls]
        threads = threading.active_count()
        async with asyncio.timeout(PATIENCE_S):
            # Each has looked for itself once, when it came; from then on nobody but the one task does.
            while sum("executors" in statement for statement in waiters.statements) < number:
                await asyncio.sleep(0.01)
            waiters.of_looks.clear()
            while len(waiters.of_looks) < 12:
                await asyncio.sleep(0.01)
            assert waiters.of_looks[2:] == [1] * len(waiters.of_looks[2:])
            assert len(waiters) == number
            assert threading.active_count() <= threads + 40
            await asyncio.to_thread(start, other, clock, "j", [("n500", 0)])
            found = await tasks[500]
        assert found["placements"][0]["job_id"] == "j"
        assert sum(task.done() for task in tasks) == 1
        gone.set_result(None)
        assert [found for found in await asyncio.gather(*tasks) if found] == [found]
        assert len(waiters) == 0

    asyncio.run(scenario())


def test_no_news_are_missed_whenever_they_come(database):
    """The next is published only after the last has arrived: one miss, and nothing goes on."""
    clock = StandingClock()
    engine, other = database.engine, database.another_engine()
    make_cluster(engine, clock, {"n1": 4})
    who = Enrolled.on(engine, clock, "n1", 4).who
    seen = [0]

    async def read(waiters, gone):
        while not gone.done():
            found = await waiters.wait(
                Poll(who.executor_id, "c", "n1", 1, seen[-1]), 10 * PATIENCE_S, gone=gone
            )
            if found is not None:
                seen.append(found["generation"])

    async def scenario():
        gone = asyncio.get_running_loop().create_future()
        reader = asyncio.create_task(read(Waiters(engine, tick_s=0.002), gone))
        async with asyncio.timeout(PATIENCE_S):
            for turn in range(30):
                job_id = f"j{turn // 2}"
                if turn % 2 == 0:
                    await asyncio.to_thread(start, other, clock, job_id, [("n1", turn % 4)])
                else:
                    await asyncio.to_thread(want_no_more, other, clock, f"{job_id}.1.0")
                newest = document(other, "n1")["generation"]
                while seen[-1] < newest:
                    await asyncio.sleep(0.0005)
        gone.set_result(None)
        await reader

    asyncio.run(scenario())
    assert seen == sorted(set(seen))
    assert len(seen) > 15
