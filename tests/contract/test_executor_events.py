"""From what executors tell to facts of the log, on both databases."""

import uuid
from datetime import timedelta

import pytest
from nodes import (
    ORIGIN,
    Enrolled,
    StandingClock,
    job,
    log,
    make_cluster,
    placement,
    start,
    want_no_more,
    wanted_on,
)
from sqlmodel import select

from app.clock import ScaledClock
from app.services import executor_events, executors, observe
from app.services.executor_events import Event
from app.services.executors import StaleSession
from app.services.facts import Fact, FactKind
from app.services.times import to_s
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ExecutorEventRow


@pytest.fixture
def clock():
    return StandingClock()


@pytest.fixture
def engine(database, clock):
    make_cluster(database.engine, clock, {"n1": 2, "n2": 2, "n3": 2})
    return database.engine


@pytest.fixture
def nodes(engine, clock):
    return {name: Enrolled.on(engine, clock, name, 2) for name in ("n1", "n2", "n3")}


class Runs:
    """Counts what is asked for."""

    def __init__(self):
        self.asked = []

    def enqueue(self, session, kind, cluster, arguments, requested_by, dedup):
        del session, arguments, requested_by
        self.asked.append((kind, cluster, dedup))

    def cancel(self, run_id):
        raise AssertionError(run_id)


def tell(executor, *events, runs=None):
    with transaction(executor.engine) as session:
        return executor_events.take(
            session, executor.who, executor.session, events, clock=executor.clock, runs=runs
        )


def happening(kind, placement_id, at, **data):
    return Event(str(uuid.uuid4()), kind, at, placement_id, None, data)


def end(placement_id, at, exit_code=0, **data):
    return happening("placement_ended", placement_id, at, exit_code=exit_code, **data)


def test_a_job_that_exits_with_0_has_completed(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    began = clock.now()
    clock.advance(50)
    runs = Runs()
    taken = tell(nodes["n1"], end(name, began + timedelta(seconds=40), duration_s=38.5), runs=runs)
    assert (taken.accepted, taken.duplicates) == (1, 0)
    (fact,) = log(engine, "ended")
    assert fact.at_s == to_s_of(began) + 40
    assert fact.data["state"] == "completed"
    assert fact.data["duration_s"] == 38.5
    assert fact.uid.startswith("executor:")
    assert job(engine, "j").state == "ended"
    assert wanted_on(engine, "n1") == []
    assert placement(engine, name).ended_at == began + timedelta(seconds=40)
    assert runs.asked == [("replan", "c", "replan")]


def to_s_of(instant):
    return (instant - ORIGIN).total_seconds()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"exit_code": 3}, "exit code 3"),
        ({"exit_code": None, "signal": 9}, "signal 9"),
        ({"exit_code": None, "reason": "vanished"}, "vanished"),
    ],
)
def test_any_other_end_is_a_failure_with_its_reason(engine, clock, nodes, data, reason):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    tell(nodes["n1"], end(name, clock.now(), **data))
    (fact,) = log(engine, "ended")
    assert (fact.data["state"], fact.data["reason"]) == ("failed", reason)


def test_a_placement_that_is_lost_fails_its_job(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    tell(nodes["n1"], happening("placement_lost", name, clock.now(), reason="reboot"))
    (fact,) = log(engine, "ended")
    assert (fact.data["state"], fact.data["reason"]) == ("failed", "reboot")


def test_the_same_event_counts_once(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    told = end(name, clock.now())
    first = tell(nodes["n1"], told, told)
    assert (first.accepted, first.duplicates) == (1, 1)
    again = tell(nodes["n1"], told)
    assert (again.accepted, again.duplicates) == (0, 1)
    assert len(log(engine, "ended")) == 1
    with reading(engine) as session:
        assert len(session.exec(select(ExecutorEventRow)).all()) == 1


def test_a_second_end_of_the_same_placement_changes_nothing(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    tell(nodes["n1"], end(name, clock.now(), 0))
    tell(nodes["n1"], end(name, clock.now(), 1))
    assert [fact.data["state"] for fact in log(engine, "ended")] == ["completed"]


def test_a_gang_has_ended_once_all_its_ranks_have(engine, clock, nodes):
    ids = start(engine, clock, "j", [("n1", 0), ("n2", 0), ("n3", 0)])
    began = clock.now()
    clock.advance(100)
    tell(nodes["n1"], end(ids[0], began + timedelta(seconds=10), duration_s=9))
    tell(nodes["n3"], end(ids[2], began + timedelta(seconds=30), duration_s=29))
    assert log(engine, "ended") == []
    assert job(engine, "j").state == "running"
    assert wanted_on(engine, "n2") == [ids[1]]
    tell(nodes["n2"], end(ids[1], began + timedelta(seconds=20), duration_s=19))
    (fact,) = log(engine, "ended")
    assert fact.data["state"] == "completed"
    assert fact.data["exit_codes"] == [0, 0, 0]
    assert fact.at_s == to_s_of(began) + 30
    assert fact.data["duration_s"] == 29


def test_one_rank_that_fails_stops_the_others_and_fails_the_job(engine, clock, nodes):
    ids = start(engine, clock, "j", [("n1", 0), ("n2", 0), ("n3", 0)])
    tell(nodes["n2"], end(ids[1], clock.now(), 7))
    assert log(engine, "ended") == []
    assert [wanted_on(engine, node) for node in ("n1", "n2", "n3")] == [[], [], []]
    clock.advance(5)
    tell(nodes["n1"], end(ids[0], clock.now(), None, signal=15, reason="stopped"))
    tell(nodes["n3"], end(ids[2], clock.now(), 0, reason="stopped"))
    (fact,) = log(engine, "ended")
    assert (fact.data["state"], fact.data["reason"]) == ("failed", "exit code 7")
    assert fact.at_s == to_s_of(clock.now())


def test_a_stop_that_was_wanted_is_no_fact(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)], is_guest=True)
    with transaction(engine) as session:
        cluster = lock_cluster(session, "c")
        fact = Fact(FactKind.SENT_BACK, to_s(cluster, clock.now()), "j")
        observe.record(session, cluster, [fact], source="test", clock=clock)
    want_no_more(engine, clock, name)
    clock.advance(3)
    tell(nodes["n1"], end(name, clock.now(), None, signal=15, reason="stopped"))
    assert log(engine, "ended") == []
    assert job(engine, "j").state == "waiting"
    assert placement(engine, name).ended_at == clock.now()


def test_the_late_end_of_an_old_attempt_does_not_end_the_new_one(engine, clock, nodes):
    old = start(engine, clock, "j", [("n1", 0), ("n2", 0)], is_guest=True)
    tell(nodes["n1"], end(old[0], clock.now(), 0))
    with transaction(engine) as session:
        cluster = lock_cluster(session, "c")
        fact = Fact(FactKind.SENT_BACK, to_s(cluster, clock.now()), "j")
        observe.record(session, cluster, [fact], source="test", clock=clock)
    want_no_more(engine, clock, *old)
    new = start(engine, clock, "j", [("n3", 0)])
    assert new == ["j.2.0"]
    tell(nodes["n2"], end(old[1], clock.now(), 0))
    assert log(engine, "ended") == []
    assert job(engine, "j").state == "running"
    assert wanted_on(engine, "n3") == new


def test_an_old_attempt_that_fails_does_not_stop_the_new_one(engine, clock, nodes):
    (old,) = start(engine, clock, "j", [("n1", 0)], is_guest=True)
    with transaction(engine) as session:
        cluster = lock_cluster(session, "c")
        fact = Fact(FactKind.SENT_BACK, to_s(cluster, clock.now()), "j")
        observe.record(session, cluster, [fact], source="test", clock=clock)
    (new,) = start(engine, clock, "j", [("n3", 0)])
    tell(nodes["n1"], end(old, clock.now(), 1))  # although nobody had said that it is no longer wanted
    assert wanted_on(engine, "n3") == [new]
    assert job(engine, "j").state == "running"


def test_only_a_rank_that_ends_of_its_own_accord_ends_a_job(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    want_no_more(engine, clock, name)
    tell(nodes["n1"], end(name, clock.now(), 0))
    assert log(engine, "ended") == []


@pytest.mark.parametrize("is_guest", [True, False])
def test_a_job_that_a_node_refuses_is_given_back(engine, clock, nodes, is_guest):
    ids = start(engine, clock, "j", [("n1", 0), ("n2", 0)], is_guest=is_guest)
    tell(
        nodes["n1"],
        happening("placement_refused", ids[0], clock.now(), reason="launch_failed", message="no such file"),
    )
    assert [wanted_on(engine, node) for node in ("n1", "n2")] == [[], []]
    assert placement(engine, ids[0]).ended_at is not None
    kind, state = ("sent_back", "waiting") if is_guest else ("ended", "ended")
    (fact,) = log(engine, "sent_back", "ended")
    assert fact.kind == kind
    assert "n1 refused it: launch_failed: no such file" in fact.data["reason"]
    assert job(engine, "j").state == state
    if not is_guest:
        assert fact.data["state"] == "failed"


def test_an_event_about_another_node_s_placement_is_kept_and_changes_nothing(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    assert tell(nodes["n2"], end(name, clock.now())).accepted == 1
    assert tell(nodes["n2"], end("unknown.1.0", clock.now())).accepted == 1
    assert tell(nodes["n2"], happening("device_lost", None, clock.now(), uuid="GPU-n2-0")).accepted == 1
    assert tell(nodes["n1"], happening("kind_of_tomorrow", name, clock.now())).accepted == 1
    assert log(engine, "ended") == []
    assert wanted_on(engine, "n1") == [name]


def test_a_node_s_clock_that_is_ahead_or_behind_bends_no_time(engine, clock, nodes):
    start(engine, clock, "j", [("n1", 0)])
    start(engine, clock, "k", [("n1", 1)])
    clock.advance(10)
    now_s = to_s_of(clock.now())
    tell(nodes["n1"], end("j.1.0", clock.now() + timedelta(days=300), duration_s=1e9))
    tell(nodes["n1"], end("k.1.0", clock.now() - timedelta(days=300), duration_s=0.5))
    first, second = log(engine, "ended")
    assert first.at_s == now_s
    assert first.data["duration_s"] == 10
    assert second.data["reported_s"] == now_s - 10
    assert second.data["duration_s"] == 0
    assert job(engine, "k").ended_s == now_s - 10


def test_a_start_is_noted(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    tell(nodes["n1"], happening("placement_started", name, clock.now(), pid=7))
    assert placement(engine, name).observed["state"] == "running"
    assert log(engine, "ended") == []


def test_all_or_none_of_a_call_is_taken(engine, clock, nodes):
    (name,) = start(engine, clock, "j", [("n1", 0)])
    nodes["n1"].session -= 1
    with pytest.raises(StaleSession):
        tell(nodes["n1"], end(name, clock.now()))
    with reading(engine) as session:
        assert session.exec(select(ExecutorEventRow)).all() == []


def test_on_a_faster_clock_spans_and_instants_are_the_cluster_s(database):
    clock = ScaledClock(ORIGIN, 600.0)
    make_cluster(database.engine, clock, {"n1": 1})
    node = Enrolled.on(database.engine, clock, "n1", 1)
    (name,) = start(database.engine, clock, "j", [("n1", 0)])
    began_s = job(database.engine, "j").started_s
    wall = ORIGIN + timedelta(seconds=began_s / 600.0)
    # The job ran for 0.5 ms of the wall clock that began 0.1 ms late: 0.3 s on the cluster's clock.
    tell(node, end(name, wall + timedelta(microseconds=600), duration_s=0.0005))
    (fact,) = log(database.engine, "ended")
    assert fact.at_s == pytest.approx(began_s + 0.36, abs=0.002)
    assert fact.data["duration_s"] == pytest.approx(0.3, abs=1e-6)


def test_a_revoked_executor_is_not_heard(engine, clock, nodes):
    with transaction(engine) as session:
        executors.revoke(session, nodes["n1"].who.executor_id)
    with pytest.raises(executors.NotAllowed, match="revoked"):
        tell(nodes["n1"], happening("device_lost", None, clock.now()))
