"""Durable work with real worker processes, on both databases."""

import json
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from run_support.processes import environment, is_alive, until, worker
from sqlalchemy import create_engine, inspect, text

from app.errors import TooManyRequests, UnknownCluster, UnknownResource
from app.runs import durable
from app.runs.client import MAX_QUEUED_RUNS, RunClient
from app.runs.schedule import ask_for_due_replans
from app.services import replan
from app.settings import ServiceSettings
from app.store import plans as store_plans
from app.store import runs as store
from app.store.engine import reading, transaction
from app.store.tables import ClusterRow, PlanRow, RunRow, RunStatus, WorkerRow

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)


class DrivenClock:
    def __init__(self):
        self.instant = ORIGIN

    def now(self):
        return self.instant


@pytest.fixture
def clock():
    return DrivenClock()


@pytest.fixture
def runs(database, clock):
    with transaction(database.engine) as session:
        for name in ("c", "d"):
            session.add(
                ClusterRow(
                    name=name,
                    clock_origin=ORIGIN,
                    enforced_by="scheduler",
                    policy="fcfs",
                    settings={},
                    epoch=1,
                    created_at=ORIGIN,
                )
            )
    return RunClient(ServiceSettings(database_url=database.url), engine=database.engine, clock=clock)


@pytest.fixture
def migrated(database):
    durable.migrate(database.url)
    return database


def ask(database, runs, kind="replan", cluster="c", dedup=None, **arguments):
    arguments = {key: str(value) for key, value in arguments.items()}
    runs._clock.instant += timedelta(milliseconds=1)
    with transaction(database.engine) as session:
        return runs.enqueue(session, kind, cluster, arguments, "a test", dedup).run_id


def look(database, run_id) -> RunRow:
    with reading(database.engine) as session:
        return store.get(session, run_id)


def await_status(database, run_id, *statuses):
    def there():
        run = look(database, run_id)
        return run if run.status in statuses else None

    return until(there, f"{run_id} to be {statuses}")


def pids(folder):
    return [int(path.stem) for path in folder.glob("*.pid")]


def first_pid(folder):
    return until(lambda: pids(folder), "a child")[0]


# --- asking


def test_asking_again_while_one_waits_is_the_same_run(database, runs):
    first = ask(database, runs, dedup="replan")
    assert ask(database, runs, dedup="replan") == first
    assert ask(database, runs, dedup="other") != first
    assert ask(database, runs, cluster="d", dedup="replan") != first
    assert ask(database, runs) != ask(database, runs)
    with transaction(database.engine) as session:
        store.lock(session, first).status = RunStatus.RUNNING.value
    assert ask(database, runs, dedup="replan") != first


def test_many_who_ask_at_once_get_one_run(database, runs):
    got = []
    everyone = threading.Barrier(8)

    def one():
        everyone.wait()
        got.append(ask(database, runs, dedup="replan"))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(got)) == 1


def test_a_run_exists_only_with_its_transaction(database, runs):
    def ask_and_fail(session):
        replan.request(session, runs, "c")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction(database.engine) as session:
        ask_and_fail(session)
    with reading(database.engine) as session:
        assert store.queued(session) == []


def test_unknown_clusters_and_runs_are_refused(database, runs):
    with pytest.raises(UnknownCluster):
        ask(database, runs, cluster="nowhere")
    with pytest.raises(UnknownResource):
        runs.cancel("run-none")


def test_only_so_many_runs_may_wait(database, runs):
    for _ in range(MAX_QUEUED_RUNS):
        ask(database, runs, kind="what_if")
    with pytest.raises(TooManyRequests):
        ask(database, runs, kind="what_if")
    ask(database, runs, kind="replan")


# --- the schedule


def replans_of(database, cluster):
    with reading(database.engine) as session:
        return store.page(session, cluster, "replan", None, 100)


def every(database, cluster, seconds):
    with transaction(database.engine) as session:
        session.get(ClusterRow, cluster).replan_every_s = seconds


def test_missed_ticks_are_one_and_the_schedule_does_not_drift(database, runs, clock):
    every(database, "c", 300.0)

    def at(seconds):
        clock.instant = ORIGIN + timedelta(seconds=seconds)
        ask_for_due_replans(database.engine, runs, clock)
        with transaction(database.engine) as session:
            for run in store.queued(session):
                run.status = RunStatus.SUCCEEDED.value
        return [int((run.requested_at - ORIGIN).total_seconds()) for run in replans_of(database, "c")][::-1]

    assert at(0) == [0]
    assert at(299) == [0]
    assert at(301.5) == [0, 300], "looked at late, and still of its tick"
    assert at(301.6) == [0, 300]
    assert at(2000) == [0, 300, 1800], "five missed ticks are one"
    assert at(2099) == [0, 300, 1800]
    assert at(2100) == [0, 300, 1800, 2100]
    assert replans_of(database, "d") == []


def test_a_replan_that_waits_takes_the_next_ticks_with_it(database, runs, clock):
    every(database, "c", 60.0)
    for seconds in range(0, 1000, 50):
        clock.instant = ORIGIN + timedelta(seconds=seconds)
        ask_for_due_replans(database.engine, runs, clock)
    assert len(replans_of(database, "c")) == 1


def test_a_replan_that_somebody_asked_for_counts(database, runs, clock):
    every(database, "c", 60.0)
    ask(database, runs)
    clock.instant = ORIGIN + timedelta(seconds=59)
    assert ask_for_due_replans(database.engine, runs, clock) == 0


def planned(database, number, ask_again_s, epoch=1):
    with transaction(database.engine) as session:
        store_plans.add(
            session,
            PlanRow(
                plan_id=f"plan-{number}",
                cluster="c",
                number=0,
                run_id=f"run-of-plan-{number}",
                epoch=epoch,
                seq_seen=1,
                seq=1,
                at_s=0.0,
                status="applied",
                content={"starts": [], "ask_again_s": ask_again_s},
                content_sha256="0" * 64,
                created_at=ORIGIN,
            ),
        )


def enforced_by(database, cluster, who):
    with transaction(database.engine) as session:
        session.get(ClusterRow, cluster).enforced_by = who


def test_a_plan_that_leaves_jobs_waiting_is_made_again_when_it_says(database, runs, clock):
    """Nothing happens, and yet the answer changes: nobody else would ask where executors carry plans out."""
    enforced_by(database, "c", "executors")
    planned(database, 1, 300.0)

    def at(seconds):
        clock.instant = ORIGIN + timedelta(seconds=seconds)
        return ask_for_due_replans(database.engine, runs, clock)

    assert [at(0), at(299), at(301)] == [0, 0, 1]
    assert [int((run.requested_at - ORIGIN).total_seconds()) for run in replans_of(database, "c")] == [300]
    assert at(400) == 0, "it is on its way"
    planned(database, 2, 600.0)
    assert [at(599), at(601)] == [0, 1]
    planned(database, 3, None)
    assert at(9_000) == 0, "nobody waits"


def test_a_plan_of_an_epoch_that_is_over_asks_for_nothing(database, runs, clock):
    enforced_by(database, "c", "executors")
    planned(database, 1, 300.0, epoch=0)
    clock.instant = ORIGIN + timedelta(seconds=400)
    assert ask_for_due_replans(database.engine, runs, clock) == 0


def test_a_scheduler_that_asks_for_itself_is_not_asked_for(database, runs, clock):
    planned(database, 1, 300.0)
    clock.instant = ORIGIN + timedelta(seconds=400)
    assert ask_for_due_replans(database.engine, runs, clock) == 0


# --- pages


def test_pages_are_newest_first_and_without_gaps(database, runs, clock):
    made = []
    for k in range(7):
        clock.instant = ORIGIN + timedelta(seconds=k // 2)
        made.append(ask(database, runs))
    seen, place = [], None
    with reading(database.engine) as session:
        while page := store.page(session, "c", None, place, 2):
            seen += page
            place = store.Place(page[-1].requested_at, page[-1].run_id)
    assert [run.run_id for run in seen] == sorted(
        made, key=lambda run_id: (look(database, run_id).requested_at, run_id), reverse=True
    )


# --- being carried out


def test_a_run_is_carried_out_and_nothing_is_pickled(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, folder=tmp_path)
    refused = ask(migrated, runs, kind="what_if", do="refuse")
    broken = ask(migrated, runs, kind="what_if", cluster="d", do="fail to load")
    slow = ask(migrated, runs, kind="import", do="wait", folder=tmp_path)
    with worker(migrated.url):
        done = await_status(migrated, run_id, "succeeded", "failed")
        assert (done.status, done.result, done.error) == ("succeeded", {"cluster": "c"}, None)
        assert done.started_at is not None
        assert done.finished_at is not None
        assert done.worker is not None
        assert (tmp_path / "published").read_text() == run_id + "\n"
        assert await_status(migrated, refused, "failed").error == "there is nothing to plan: put pools first"
        assert "ZeroDivisionError: no such luck" in await_status(migrated, broken, "failed").error
        assert "stopped after 2 s" in await_status(migrated, slow, "failed").error
        assert not is_alive(first_pid(tmp_path))
        until(lambda: statuses(migrated) == Counter(SUCCESS=1, ERROR=3), "the workflows' outcomes")
    assert_all_is_json(migrated)


def statuses(database):
    return Counter(row["status"] for row in rows_of(database)["workflow_status"])


def rows_of(database):
    url = durable.system_url(database.url)
    schema = None if database.is_sqlite else durable.SCHEMA
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            names = inspect(connection).get_table_names(schema=schema)
            prefix = f"{schema}." if schema else ""
            return {name: all_of(connection, f"{prefix}{name}") for name in names}
    finally:
        engine.dispose()


def all_of(connection, table):
    return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]  # noqa: S608


def assert_all_is_json(database):
    """Every serialized column holds portable JSON, and is said to."""
    seen = Counter()
    for table, rows in rows_of(database).items():
        for row in rows:
            kept = {key: row[key] for key in ("inputs", "output", "error") if row.get(key) is not None}
            for key, value in kept.items():
                json.loads(value)
                seen[table, key] += 1
            if "serialization" in row and (kept or table == "workflow_status"):
                assert row["serialization"] == "portable_json", (table, row)
    errors = [row["error"] for row in rows_of(database)["workflow_output"] if row["error"] is not None]
    assert {json.loads(error)["name"] for error in errors} == {
        "ChildRefusedError",
        "ZeroDivisionError",
        "ChildTimeoutError",
    }
    assert {column for _, column in seen} == {"inputs", "output", "error"}


def test_those_of_one_cluster_are_carried_out_one_at_a_time(migrated, runs, tmp_path):
    alone, other = tmp_path / "alone-c", tmp_path / "alone-d"
    alone.mkdir()
    other.mkdir()
    mine = [ask(migrated, runs, do="wait", folder=alone) for _ in range(4)]
    theirs = ask(migrated, runs, cluster="d", do="wait", folder=other)
    with worker(migrated.url), worker(migrated.url):
        first_pid(alone)
        first_pid(other)
        assert Counter(look(migrated, run_id).status for run_id in mine) == Counter(running=1, queued=3)
        (other / "go").touch()
        await_status(migrated, theirs, "succeeded")
        (alone / "go").touch()
        for run_id in mine:
            assert await_status(migrated, run_id, "succeeded", "failed").status == "succeeded"
    assert (alone / "published").read_text().split() == mine, "in the order in which they were asked for"


def test_a_queued_run_that_is_cancelled_never_begins(migrated, runs, tmp_path):
    running = ask(migrated, runs, do="wait", folder=tmp_path)
    waiting = ask(migrated, runs, folder=tmp_path)
    with worker(migrated.url):
        first_pid(tmp_path)
        until(lambda: statuses(migrated)["ENQUEUED"] == 1, "the second to wait in the queue")
        runs.cancel(waiting)
        until(lambda: statuses(migrated)["CANCELLED"] == 1, "the workflow to be cancelled")
        (tmp_path / "go").touch()
        await_status(migrated, running, "succeeded")
        last = ask(migrated, runs, folder=tmp_path)
        await_status(migrated, last, "succeeded")
    assert look(migrated, waiting).status == "cancelled"
    assert (tmp_path / "published").read_text().split() == [running, last]


def test_a_running_run_that_is_cancelled_loses_its_child(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, do="fork", folder=tmp_path)
    after = ask(migrated, runs, folder=tmp_path)
    with worker(migrated.url):
        until(lambda: len(pids(tmp_path)) == 2, "the child and its own child")
        runs.cancel(run_id)
        until(lambda: not any(map(is_alive, pids(tmp_path))), "the end of the group")
        await_status(migrated, after, "succeeded")
        until(lambda: statuses(migrated) == Counter(SUCCESS=1, CANCELLED=1), "the workflows' outcomes")
    cancelled = look(migrated, run_id)
    assert (cancelled.status, cancelled.result) == ("cancelled", None)
    runs.cancel(after)
    assert look(migrated, after).status == "succeeded", "what is over stays as it is"
    assert (tmp_path / "published").read_text().split() == [after]


def test_after_a_kill_another_worker_goes_on_and_it_happens_once(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, do="wait", folder=tmp_path)
    with worker(migrated.url, worker_lease_s=2) as first:
        pid = first_pid(tmp_path)
        left_by = look(migrated, run_id).worker
        first.kill()
        first.wait()
        with worker(migrated.url), worker(migrated.url):
            until(lambda: not is_alive(pid), "the end of the dead worker's child")
            until(lambda: len(pids(tmp_path)) == 2, "the child of another worker")
            (tmp_path / "go").touch()
            done = await_status(migrated, run_id, "succeeded", "failed")
            until(lambda: statuses(migrated) == Counter(SUCCESS=1), "the workflow's outcome")
    assert (done.status, done.error) == ("succeeded", None)
    assert done.worker != left_by
    assert (tmp_path / "published").read_text().split() == [run_id]
    assert len(pids(tmp_path)) == 2
    with reading(migrated.engine) as session:
        assert session.get(WorkerRow, left_by) is None


def test_a_worker_that_is_told_to_stop_leaves_its_runs_to_others_at_once(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, do="wait", folder=tmp_path)
    with worker(migrated.url) as first:
        pid = first_pid(tmp_path)
        first.terminate()
        assert first.wait(60) == 0
        assert not is_alive(pid)
    left = look(migrated, run_id)
    assert (left.status, left.worker) == ("queued", None)
    with worker(migrated.url):
        until(lambda: len(pids(tmp_path)) == 2, "the child of the next worker")
        (tmp_path / "go").touch()
        await_status(migrated, run_id, "succeeded")
    assert (tmp_path / "published").read_text().split() == [run_id]


def test_a_worker_whose_lease_is_gone_kills_its_children_and_ends(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, do="wait", folder=tmp_path)
    with worker(migrated.url) as first:
        pid = first_pid(tmp_path)
        with transaction(migrated.engine) as session:  # as if others had given it up
            store.release(session, look(migrated, run_id).worker, ORIGIN)
        assert first.wait(60) == 1
        assert not is_alive(pid)
    assert look(migrated, run_id).status == "queued"


def test_a_run_cancelled_while_its_worker_was_dead_is_over(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, do="wait", folder=tmp_path)
    with worker(migrated.url, worker_lease_s=2) as first:
        first_pid(tmp_path)
        first.kill()
    runs.cancel(run_id)
    after = ask(migrated, runs, folder=tmp_path)
    with worker(migrated.url):
        await_status(migrated, after, "succeeded")
        until(lambda: statuses(migrated) == Counter(SUCCESS=1, CANCELLED=1), "the workflows' outcomes")
    assert look(migrated, run_id).status == "cancelled"


def test_a_run_cancelled_at_the_last_moment_holds_nobody_up(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, then="cancel")
    after = ask(migrated, runs, folder=tmp_path)
    with worker(migrated.url):
        await_status(migrated, after, "succeeded")
        until(lambda: statuses(migrated) == Counter(SUCCESS=1, CANCELLED=1), "the workflows' outcomes")
    assert look(migrated, run_id).status == "cancelled"


def test_a_run_that_nobody_works_on_is_taken_up_again(migrated, runs, tmp_path):
    run_id = ask(migrated, runs, do="wait", folder=tmp_path)
    (tmp_path / "go").touch()
    with worker(migrated.url):
        await_status(migrated, run_id, "succeeded")
        until(lambda: statuses(migrated) == Counter(SUCCESS=1), "the workflow's outcome")
        with transaction(migrated.engine) as session:  # as if its end could not be written
            run = store.lock(session, run_id)
            run.status, run.finished_at = "running", None
        await_status(migrated, run_id, "succeeded")
    assert (tmp_path / "published").read_text().split() == [run_id]


def test_migrating_from_several_processes_at_once_is_safe(empty_database):
    command = [sys.executable, "-m", "app", "migrate"]
    started = [subprocess.Popen(command, env=environment(empty_database.url)) for _ in range(3)]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    durable.client(empty_database.url).destroy()
