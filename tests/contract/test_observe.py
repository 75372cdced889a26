"""Facts in: what is taken, what is told twice, what contradicts; the log and its projection agree."""

from collections.abc import Sequence
from typing import Any

import pytest
from databases import Database
from nodes import StandingClock, make_cluster

from app.services import observe
from app.services.facts import Fact, FactKind
from app.services.observe import FUTURE_S, Recorded
from app.store import live
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import DecisionRow, JobRow, LogRow, PoolRow

AT = 3_000.0
"""An instant before the clock's, which stands at 3,600 s."""


@pytest.fixture
def cluster(database: Database) -> Database:
    make_cluster(database.engine, StandingClock(), {"n1": 4}, quotas={"a": 3, "b": 1})
    return database


def tell(database: Database, *facts: Fact) -> Recorded:
    with transaction(database.engine) as session:
        row = lock_cluster(session, "c")
        return observe.record(session, row, facts, source="test", clock=StandingClock())


def submitted(job_id: str, at_s: float = AT, pool: str = "a", num_gpus: int = 1, **more: Any) -> Fact:
    data = {"pool": pool, "num_gpus": num_gpus, "spec": {"argv": ["/bin/true"]}, **more}
    return Fact(FactKind.SUBMITTED, at_s, job_id, data)


def started(job_id: str, at_s: float = AT + 1, **data: Any) -> Fact:
    return Fact(FactKind.STARTED, at_s, job_id, data)


def ended(job_id: str, at_s: float = AT + 2, **data: Any) -> Fact:
    return Fact(FactKind.ENDED, at_s, job_id, {"state": "completed", **data})


def sent_back(job_id: str, at_s: float = AT + 2) -> Fact:
    return Fact(FactKind.SENT_BACK, at_s, job_id)


def cancelled(job_id: str, at_s: float = AT + 2) -> Fact:
    return Fact(FactKind.CANCELLED, at_s, job_id)


def job(database: Database, job_id: str) -> JobRow:
    with reading(database.engine) as session:
        row = live.job(session, "c", job_id)
    assert row is not None
    return row


def log(database: Database) -> Sequence[LogRow]:
    with reading(database.engine) as session:
        return live.entries(session, "c", 0, 10**9)


def test_a_life_from_submit_to_end(cluster: Database):
    done = tell(cluster, submitted("x"), started("x"), ended("x", AT + 101))
    assert (done.accepted, done.duplicates, done.rejected) == (3, 0, [])
    row = job(cluster, "x")
    assert (row.state, row.end_state, row.attempts) == ("ended", "completed", 1)
    assert (row.submit_s, row.started_s, row.ended_s) == (AT, AT + 1, AT + 101)
    assert [(entry.seq, entry.kind) for entry in log(cluster)] == [
        (1, "submitted"),
        (2, "started"),
        (3, "ended"),
    ]
    assert log(cluster)[-1].data["duration_s"] == 100.0


def test_a_measured_duration_is_believed_before_the_difference(cluster: Database):
    tell(cluster, submitted("x"), started("x"), ended("x", AT + 101, duration_s=99.5))
    assert log(cluster)[-1].data["duration_s"] == 99.5


@pytest.mark.parametrize(
    ("before", "fact", "why"),
    [
        ([], started("x"), "never submitted"),
        ([submitted("x")], ended("x"), "it is waiting"),
        ([submitted("x")], submitted("y", pool="z"), "not in the inventory"),
        ([], submitted("x", num_gpus=4), "the quota of pool a is 3"),
        ([submitted("x"), started("x")], sent_back("x"), "own jobs are never sent back"),
        ([submitted("x"), cancelled("x")], started("x"), "it is cancelled"),
        ([submitted("x"), started("x")], ended("x", duration_s=-1.0), "at least 0"),
        ([], submitted("x", at_s=3_600.0 + FUTURE_S + 1), "ahead of the service's clock"),
        ([], submitted("x", spec={}), "argv"),
    ],
)
def test_contradictions_are_rejected_with_a_reason_and_the_rest_is_kept(
    cluster: Database, before: list[Fact], fact: Fact, why: str
):
    done = tell(cluster, *before, fact, submitted("later", AT + 3))
    assert done.accepted == len(before) + 1
    (rejection,) = done.rejected
    assert rejection.index == len(before)
    assert why in rejection.reason
    assert job(cluster, "later").state == "waiting"


@pytest.mark.parametrize(
    "facts",
    [
        [submitted("x"), submitted("x")],
        [submitted("x"), started("x"), started("x")],
        [submitted("x"), started("x"), ended("x"), ended("x")],
        [submitted("x"), cancelled("x"), cancelled("x")],
        [submitted("x"), started("x", is_guest=True), sent_back("x"), sent_back("x")],
    ],
)
def test_what_is_known_already_is_a_duplicate(cluster: Database, facts: list[Fact]):
    done = tell(cluster, *facts)
    assert (done.accepted, done.duplicates) == (len(facts) - 1, 1)
    assert len(log(cluster)) == len(facts) - 1


def test_a_uid_counts_once_in_a_call_and_over_calls(cluster: Database):
    named = Fact(FactKind.SUBMITTED, AT, "x", submitted("x").data, uid="u1")
    other = Fact(FactKind.SUBMITTED, AT, "y", submitted("y").data, uid="u1")
    assert tell(cluster, named, other).duplicates == 1
    assert tell(cluster, named, other).duplicates == 2
    assert [entry.job_id for entry in log(cluster)] == ["x"]


def test_a_late_fact_is_told_as_of_now_and_kept_as_of_then(cluster: Database):
    tell(cluster, submitted("x"), submitted("y", AT + 50), started("x", AT + 10))
    assert [entry.at_s for entry in log(cluster)] == [AT, AT + 50, AT + 50]
    assert log(cluster)[-1].data["reported_s"] == AT + 10
    assert job(cluster, "x").started_s == AT + 10


def test_a_guest_sent_back_keeps_its_place_and_its_loss_is_counted(cluster: Database):
    tell(cluster, submitted("x"), submitted("y"), started("x", is_guest=True), sent_back("x", AT + 31))
    row = job(cluster, "x")
    assert (row.state, row.attempts, row.lost_s, row.was_guest, row.is_guest) == (
        "waiting",
        1,
        30.0,
        True,
        False,
    )
    assert row.rank < job(cluster, "y").rank


def test_a_restarted_job_goes_to_the_head_of_its_pool(cluster: Database):
    tell(cluster, submitted("x"), submitted("y"), started("y"))
    tell(cluster, Fact(FactKind.RESTARTED, AT + 5, "y", {"reason": "node lost"}))
    assert job(cluster, "y").rank < job(cluster, "x").rank
    assert job(cluster, "y").state == "waiting"


def test_the_pool_says_what_the_record_does_not_and_consent_to_share_rules_out_requeueing(cluster: Database):
    with transaction(cluster.engine) as session:
        pool = session.get(PoolRow, ("c", "a"))
        assert pool is not None
        pool.is_requeueable = True
    shares = {"spec": {"argv": ["/bin/true"], "is_shareable": True, "memory_mib": 100}}
    tell(
        cluster,
        submitted("silent"),
        submitted("no", is_requeueable=False),
        submitted("draw", requeue_u=0.7),
        submitted("b", pool="b"),
        submitted("b-yes", pool="b", is_requeueable=True),
        submitted("shares", **shares),
    )
    found = {name: job(cluster, name).requeue_u for name in ("silent", "no", "draw", "b", "b-yes", "shares")}
    assert found == {"silent": 0.0, "no": None, "draw": 0.7, "b": None, "b-yes": 0.0, "shares": None}


def test_a_rider_has_the_gpu_alone_once_its_host_has_left(cluster: Database):
    shares = {"spec": {"argv": ["/bin/true"], "is_shareable": True, "memory_mib": 100}}
    tell(cluster, submitted("host", **shares), submitted("rider", **shares))
    tell(cluster, started("host", gpus=[["n1", 0]]))
    tell(cluster, started("rider", gpus=[["n1", 0]], host_job_id="host", is_guest=True))
    with reading(cluster.engine) as session:
        assert live.used_gpus(session, "c") == 1
    tell(cluster, ended("host"))
    assert job(cluster, "rider").host_job_id is None
    with reading(cluster.engine) as session:
        assert live.used_gpus(session, "c") == 1


@pytest.mark.parametrize(("says", "is_guest"), [({}, True), ({"is_guest": False}, False)])
def test_a_start_that_does_not_say_is_taken_as_the_last_decision_had_it(
    cluster: Database, says: dict[str, bool], is_guest: bool
):
    tell(cluster, submitted("x"), submitted("y"))
    with transaction(cluster.engine) as session:
        session.add(
            DecisionRow(
                cluster="c",
                seq=2,
                epoch=1,
                at_s=AT,
                idle_gpus=4,
                answer={"starts": [{"job_id": "x", "is_guest": True}]},
                took_ms=1.0,
                decided_at=StandingClock().now(),
            )
        )
    tell(cluster, started("x", **says), started("y"))
    assert job(cluster, "x").is_guest is is_guest
    assert not job(cluster, "y").is_guest
