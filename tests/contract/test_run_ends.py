"""How runs end that do not end by themselves: cancelled, handed over, too slow; and clocks that jump."""

from datetime import UTC, datetime, timedelta

import pytest
from run_support.processes import is_alive, until, worker

from app.runs import durable
from app.runs.client import RunClient
from app.runs.leases import GRACE_S, LeaseWatch
from app.runs.schedule import ask_for_due_replans
from app.settings import ServiceSettings
from app.store import run_events
from app.store import runs as store
from app.store.engine import reading, transaction
from app.store.tables import ClusterRow, RunStatus, WorkerRow

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
ON_SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""What does not depend on the database, and takes seconds."""


class DrivenClock:
    def __init__(self):
        self.instant = ORIGIN

    def now(self):
        self.instant += timedelta(milliseconds=1)
        return self.instant


@pytest.fixture
def clock():
    return DrivenClock()


@pytest.fixture
def runs(database, clock):
    durable.migrate(database.url)
    with transaction(database.engine) as session:
        session.add(
            ClusterRow(
                name="c",
                clock_origin=ORIGIN,
                enforced_by="scheduler",
                policy="fcfs",
                settings={},
                epoch=1,
                created_at=ORIGIN,
            )
        )
    return RunClient(ServiceSettings(database_url=database.url), engine=database.engine, clock=clock)


def ask(database, runs, kind="replan", **arguments):
    arguments = {key: str(value) for key, value in arguments.items()}
    with transaction(database.engine) as session:
        return runs.enqueue(session, kind, "c", arguments, "a test").run_id


def look(database, run_id):
    with reading(database.engine) as session:
        return store.get(session, run_id)


def over(database, run_id):
    return until(lambda: (run := look(database, run_id)).finished_at and run, f"the end of {run_id}")


def events(database, run_id):
    with reading(database.engine) as session:
        found = run_events.after(session, run_id, 0, 1000)
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    return [one.kind for one in found]


def pids(folder):
    return [int(path.stem) for path in folder.glob("*.pid")]


# --- cancelled


def test_a_cancelled_run_keeps_the_best_it_had(database, runs, tmp_path):
    """The last that was handed out, though it is long and others print in between."""
    kept = ask(database, runs, "backtest", do="hand out", incumbents=3, folder=tmp_path)
    none = ask(database, runs, "what_if", do="hand out", incumbents=3, folder=tmp_path)
    with worker(database.url):
        until(lambda: len(pids(tmp_path)) == 2, "both children")
        for run_id in (kept, none):
            runs.cancel(run_id)
        cancelled, nothing = over(database, kept), over(database, none)
        assert not any(map(is_alive, pids(tmp_path)))
    assert (cancelled.status, nothing.status) == ("cancelled", "cancelled")
    assert cancelled.result == {"kept": {"number": 2}, "cluster": "as of 2"}
    assert nothing.result is None, "a kind that keeps nothing"
    assert events(database, kept) == ["queued", "started", *3 * ["incumbent"], "cancelling", "finished"]
    with reading(database.engine) as session:
        assert run_events.after(session, kept, 6, 1)[0].data["kept"] == {"number": 2}
    assert (tmp_path / "published").read_text().split() == [kept]


# --- too slow


@ON_SQLITE
def test_a_run_past_its_limit_fails_clearly_and_makes_room(database, runs, tmp_path):
    slow = ask(database, runs, "import", do="wait", folder=tmp_path)
    after = ask(database, runs, "import")
    with worker(database.url):
        failed = over(database, slow)
        assert not any(map(is_alive, pids(tmp_path)))
        over(database, after)
    assert (failed.status, failed.result) == ("failed", None)
    assert "was stopped after 2 s; give it less to do or raise its limit" in failed.error
    assert events(database, slow) == ["queued", "started", "finished"]


# --- clocks that jump


def test_who_renews_is_there_whatever_the_clock_says():
    steady = [100.0]
    watch = LeaseWatch(30.0, lambda: steady[0])
    now = ORIGIN

    def silent(after_s, leases, at=None):
        steady[0] += after_s
        return sorted(
            watch.silent({name: now + timedelta(seconds=s) for name, s in leases.items()}, at or now)
        )

    jumped = now + timedelta(hours=10)
    assert silent(0.0, {"a": 30, "b": 30}) == []
    assert silent(1.0, {"a": 30, "b": 31}, jumped) == [], "the clock has jumped ahead: nobody is gone at once"
    assert silent(1.0, {"a": 36_030, "b": 32}, jumped) == [], "renewed by the new clock, and by the old one"
    assert silent(GRACE_S, {"a": 36_031, "b": 32}, jumped) == ["b"], "has not renewed meanwhile"
    assert silent(1.0, {"a": 36_031}) == [], "and back again"
    assert silent(28.0, {"a": 36_031}) == []
    assert silent(1.0, {"a": 36_031}) == ["a"], "silent for so long, though its lease has hours to go"
    assert silent(0.0, {"a": 31}) == [], "it was alive after all"


def test_a_clock_that_jumps_puts_a_schedule_neither_off_nor_ahead(database, runs, clock):
    with transaction(database.engine) as session:
        session.get(ClusterRow, "c").replan_every_s = 300.0

    def asked(seconds):
        clock.instant = ORIGIN + timedelta(seconds=seconds)
        found = ask_for_due_replans(database.engine, runs, clock)
        with transaction(database.engine) as session:
            for run in store.queued(session):
                run.status = RunStatus.SUCCEEDED.value
        return found

    assert [asked(0), asked(100), asked(301)] == [1, 0, 1]
    assert [asked(36_000), asked(36_001)] == [1, 0], "ten hours ahead: one tick, not 120"
    assert [asked(400), asked(599), asked(601), asked(602)] == [0, 0, 1, 0], "and back: as if it had not been"


@ON_SQLITE
def test_workers_and_runs_stay_where_they_are_when_clocks_jump(database, runs, tmp_path):
    """Leases as they look when clocks jump ahead, again and again; then a far one, of a worker that dies."""
    run_id = ask(database, runs, do="wait", folder=tmp_path)
    with worker(database.url, worker_lease_s=2) as first, worker(database.url, worker_lease_s=2) as second:
        until(lambda: pids(tmp_path), "a child")
        for _ in range(5):
            shift(database, timedelta(hours=-1))
            until(lambda: all_renewed(database), "all to renew")
        assert (first.poll(), second.poll(), len(pids(tmp_path))) == (None, None, 1)
        owner = look(database, run_id).worker
        dying = first if f"-{first.pid}-" in owner else second
        dying.kill()
        dying.wait()
        shift(database, timedelta(hours=10), owner)
        until(lambda: len(pids(tmp_path)) == 2, "another worker to go on")
        (tmp_path / "go").touch()
        assert over(database, run_id).worker != owner
    assert events(database, run_id) == ["queued", "started", "handed_over", "started", "finished"]


def shift(database, by, worker_id=None):
    with transaction(database.engine) as session:
        for name, lease_until in store.leases(session).items():
            if worker_id in (None, name):
                session.get(WorkerRow, name).lease_until = lease_until + by


def all_renewed(database):
    with reading(database.engine) as session:
        found = store.leases(session)
    return len(found) == 2 and min(found.values()) > datetime.now(UTC)
