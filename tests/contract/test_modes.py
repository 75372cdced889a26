"""Modes and the kill switch: how far a decision goes, also one that was begun before somebody said stop."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from databases import Database
from planned import AT, Planned
from service import Service, assert_problem
from sqlalchemy import text

from app.services import clusters, decide, modes, planning
from app.services.facts import Fact, FactKind
from app.store import live
from app.store.engine import reading
from app.store.migrations.run import config_for, run_migrations
from app.store.tables import ClusterRow

Json = dict[str, Any]

_CLUSTER = (
    "INSERT INTO clusters (name, clock_origin, enforced_by, policy, settings, seed, is_lending, seq, epoch, "
    "version, created_at) VALUES (:name, '2026-01-05 00:00:00+00:00', :who, 'fcfs', '{}', 0, true, 0, 0, 1, "
    "'2026-01-05 00:00:00+00:00')"
)
_PLAN = (
    "INSERT INTO plans (plan_id, cluster, number, run_id, epoch, seq_seen, seq, at_s, status, content, "
    "content_sha256, created_at) VALUES (:id, :name, :n, :id, 1, 1, 1, 0.0, :status, '{}', '', "
    "'2026-01-05 00:00:00+00:00')"
)


@pytest.fixture
def planned(database: Database) -> Planned:
    return Planned(database)


class Says:
    """Stands where the warm processes do: something happens, then it answers."""

    def __init__(self, happens: Any = None, **answer: Any) -> None:
        self.happens = happens
        self.answer = {"starts": [], "send_backs": [], "conversions": [], "holds": []} | answer

    def ask(self, _cluster: str, _epoch: int, _seq: int, *, explain: bool | None = None) -> Json:
        assert explain is None
        if self.happens is not None:
            self.happens()
        return {**self.answer, "ask_again_s": None, "took_ms": 1.0}


def change(planned: Planned, **changes: Any) -> ClusterRow:
    return clusters.change(planned.engine, "c", changes, None, planned.clock)


def stop(planned: Planned) -> ClusterRow:
    return modes.stop_lending(planned.engine, "c", planned.clock)


def decided(planned: Planned, says: Says) -> decide.Decision:
    question = decide.Question([], None, None, "test")
    return decide.decide(planned.engine, says, planned.clock, "c", lambda _row: question)  # type: ignore[arg-type]


def starts(*own: str, guests: tuple[str, ...] = ()) -> list[Json]:
    return [{"job_id": name, "is_guest": False} for name in own] + [
        {"job_id": name, "is_guest": True} for name in guests
    ]


def test_a_replan_that_began_before_the_kill_switch_starts_no_guest(planned: Planned):
    planned.submit("running")
    planned.publish(guests=["running"])
    planned.submit("own", "guest")
    request = planned.load()
    assert stop(planned).is_lending is False
    done = planned.publish(request, "run", starts=["own"], guests=["guest"])
    assert done["num_starts"] == 1
    assert planned.job("own").state == "running"
    assert planned.job("guest").state == "waiting"
    assert "guest" not in planned.placements()
    assert planned.content("run")["dropped"] == [{"job_id": "guest", "why": "lending is stopped"}]
    assert planned.job("running").state == "running", "a guest that runs is left alone"
    assert "running" in planned.placements()


def test_a_decision_that_was_asked_before_the_kill_switch_starts_no_guest(planned: Planned):
    planned.submit("own", "guest")
    answer = decided(planned, Says(lambda: stop(planned), starts=starts("own", guests=("guest",)))).row.answer
    assert [start["job_id"] for start in answer["starts"]] == ["own"]
    assert planned.job("guest").state == "waiting"


def test_a_scheduler_is_told_of_no_guest_once_the_kill_switch_is_thrown(service: Service):
    service.cluster()
    service.inventory({"p": 2, "q": 2})
    clock, engine = service.clock, service.database.engine
    says = Says(lambda: modes.stop_lending(engine, "c", clock), starts=starts("own", guests=("guest",)))
    question = decide.Question([], None, None, "test")
    answer = decide.decide(engine, says, clock, "c", lambda _row: question).row.answer  # type: ignore[arg-type]
    assert [start["job_id"] for start in answer["starts"]] == ["own"]
    assert answer["dropped"] == [{"job_id": "guest", "why": "lending is stopped"}]


def test_no_guest_starts_after_the_call_whatever_races_with_it(planned: Planned):
    planned.submit("g1", "g2", "g3", "g4")

    def plan(name: str) -> None:
        planned.publish(planned.load(), f"run-{name}", guests=[name])

    with ThreadPoolExecutor(3) as threads:
        racing = [threads.submit(plan, name) for name in ("g1", "g2")]
        stopped = threads.submit(stop, planned).result()
        racing += [threads.submit(plan, name) for name in ("g3", "g4")]
        for one in racing:
            one.result()
    with reading(planned.engine) as session:
        entries = live.entries(session, "c", 0, 10**6)
    lent = [entry.seq for entry in entries if entry.kind == FactKind.STARTED and entry.data["is_guest"]]
    assert all(seq <= stopped.seq for seq in lent)
    assert {planned.job(name).state for name in ("g3", "g4")} == {"waiting"}


def test_the_kill_switch_is_one_call_that_may_be_repeated(service: Service):
    version = service.cluster(mode="advise")["version"]
    first = service.client.post("/v1/clusters/c/stop-lending")
    again = service.client.post("/v1/clusters/c/stop-lending")
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert (first.json()["is_lending"], first.json()["version"]) == (False, version + 1)
    assert first.headers["ETag"] == f'"{version + 1}"'
    assert_problem(service.client.post("/v1/clusters/none/stop-lending"), 404, "unknown-cluster")


def test_nothing_of_an_observed_cluster_reaches_its_nodes(planned: Planned):
    change(planned, mode="observe")
    planned.submit("own", "guest")
    request = planned.load()
    assert request["is_lending"], "its plans say what lending would do"
    assert request["decided_seq"] is None, "and are no entry in the log"
    planned.publish(request, "run", starts=["own"], guests=["guest"])
    assert planned.content("run")["starts"] == starts("own", guests=("guest",))
    assert planned.placements() == {}
    assert {planned.job(name).state for name in ("own", "guest")} == {"waiting"}


def test_a_decision_in_an_observed_cluster_lends_nothing(planned: Planned):
    change(planned, mode="observe")
    planned.submit("own")
    asked = decided(planned, Says(starts=starts("own")))
    with reading(planned.engine) as session:
        (entry,) = live.entries(session, "c", asked.row.seq - 1, asked.row.seq)
    assert entry.data["is_lending"] is False
    assert asked.row.answer["starts"] == starts("own")
    assert planned.placements() == {}, "told, not done"


@pytest.mark.parametrize(
    ("before", "after"), [("enforce", "observe"), ("enforce", "advise"), ("observe", "enforce")]
)
def test_what_was_begun_in_another_mode_comes_to_nothing(planned: Planned, before: str, after: str):
    change(planned, mode=before)
    planned.submit("guest")
    request = planned.load()
    change(planned, mode=after)
    assert planned.publish(request, guests=["guest"]) == {"is_stale": True}
    change(planned, mode=before)
    made = decided(planned, Says(lambda: change(planned, mode=after), starts=starts(guests=("guest",))))
    assert made.row.answer["starts"] == []
    assert made.ask_again_s is not None
    assert planned.job("guest").state == "waiting"


def propose(planned: Planned, run_id: str, *proposed: Json, **answer: Any) -> Json:
    """A plan as a desk makes it of a cluster whose mode is advise."""
    request = planned.load()
    made = {
        "starts": [],
        "send_backs": [],
        "conversions": [],
        "holds": [],
        "forecast": {},
        "took_ms": 1.0,
    } | answer
    made["proposed"] = list(proposed)
    return planning.publish(planned.engine, "c", request, made, run_id, planned.clock)


def action_of(kind: str, job_id: str, *, is_given_out: bool = False) -> Json:
    return {"kind": kind, "job_id": job_id, "pool": "b", "num_gpus": 1, "is_given_out": is_given_out}


def test_an_action_is_proposed_until_it_is_accepted_and_then_done(open_service: Any, planned: Planned):
    service = open_service()
    change(planned, mode="advise")
    planned.submit("g")
    propose(planned, "one", action_of("start", "g"))
    propose(planned, "two", action_of("start", "g"))
    url = "/v1/clusters/c/actions"
    (action,) = service.client.get(url, params={"status": "proposed"}).json()["items"]
    assert (action["number"], action["kind"], action["job_id"], action["times"]) == (1, "start", "g", 2)
    rejected = service.client.post(f"{url}/1/reject").json()
    assert (rejected["status"], rejected["reviewed_by"]) == ("rejected", "local")
    assert rejected["reviewed_at"] is not None
    assert_problem(service.client.post(f"{url}/1/accept"), 409, "conflict")

    propose(planned, "three", action_of("start", "g"))  # what was not accepted is proposed again
    assert service.client.post(f"{url}/2/accept").json()["status"] == "accepted"
    assert planned.load()["accepted"] == {"starts": ["g"], "send_backs": [], "holds": []}
    propose(planned, "four", action_of("start", "g", is_given_out=True), starts=starts(guests=("g",)))
    assert planned.job("g").is_guest
    propose(planned, "five", action_of("send_back", "g"))
    page = service.client.get(url, params={"limit": 2}).json()
    assert [(one["number"], one["status"]) for one in page["items"]] == [(1, "rejected"), (2, "done")]
    rest = service.client.get(url, params={"limit": 2, "after": page["next_after"]}).json()
    assert [(one["kind"], one["status"]) for one in rest["items"]] == [("send_back", "proposed")]
    assert rest["next_after"] is None
    assert_problem(service.client.get(f"{url}/99"), 404, "unknown-resource")


def test_what_is_wanted_no_more_is_withdrawn_and_so_is_all_when_lending_stops(
    planned: Planned, open_service: Any
):
    service = open_service()
    change(planned, mode="advise")
    planned.submit("g", "h")
    propose(planned, "one", action_of("start", "g"), action_of("start", "h"))
    propose(planned, "two", action_of("start", "h"))
    stop(planned)
    found = service.client.get("/v1/clusters/c/actions").json()["items"]
    assert [(one["job_id"], one["status"]) for one in found] == [("g", "withdrawn"), ("h", "withdrawn")]
    assert_problem(service.client.post("/v1/clusters/c/actions/2/accept"), 409, "conflict")


def test_who_runs_is_counted_by_whose_quota_it_is(planned: Planned, open_service: Any):
    service = open_service()
    planned.submit("own", "guest", "third")
    planned.tell(
        Fact(FactKind.SUBMITTED, AT, "due", {"pool": "a", "num_gpus": 2, "spec": {"argv": ["/bin/true"]}}),
        Fact(FactKind.SUBMITTED, AT, "late", {"pool": "a", "num_gpus": 1, "spec": {"argv": ["/bin/true"]}}),
    )
    planned.publish(starts=["own"], guests=["guest"], holds=[{"pool": "a", "num_gpus": 2, "until_s": None}])
    planned.clock.advance(100.0)
    found = service.client.get("/v1/clusters/c/fairness").json()
    first, second = found["pools"]
    assert found["idle_gpus"] == 2
    assert (first["pool"], first["own_gpus"], first["due_jobs"], first["due_gpus"]) == ("a", 0, 1, 2)
    assert (first["not_due_jobs"], first["not_due_gpus"]) == (1, 1)
    assert (first["is_starved"], first["held_idle_gpus"], first["returnable_gpus"]) == (True, 2, 2)
    # b has 1 GPU of its own and 1 on loan: laid on unused quota, 2 of a and 1 of b
    assert (second["own_gpus"], second["guest_gpus"], second["is_borrowing"]) == (1, 1, True)
    assert (first["lent_gpus"], second["lent_gpus"]) == (0.667, 0.333)
    assert first["longest_wait_of_due_s"] >= 100.0
    service_off = service.client.get("/v1/clusters/none/fairness")
    assert_problem(service_off, 404, "unknown-cluster")


def test_clusters_that_were_there_go_on_as_they_did(empty_database: Database):
    """Up: what was published is carried out, or advice in force. Down: who only looked on lends nothing."""
    engine, script = empty_database.engine, ScriptDirectory.from_config(config_for())
    before = script.get_revision("0013").down_revision
    run_migrations(engine, str(before))
    with engine.begin() as connection:
        for name, who in (("mine", "scheduler"), ("ours", "executors")):
            connection.execute(text(_CLUSTER), {"name": name, "who": who})
            connection.execute(
                text(_PLAN), {"id": f"old-{name}", "name": name, "n": 1, "status": "superseded"}
            )
            connection.execute(text(_PLAN), {"id": name, "name": name, "n": 2, "status": "published"})
    run_migrations(engine, "0013")
    with engine.begin() as connection:
        plans = connection.execute(text("SELECT plan_id, status, mode FROM plans ORDER BY plan_id")).all()
        found = connection.execute(text("SELECT mode, approval, is_lending FROM clusters")).all()
        connection.execute(text("UPDATE clusters SET mode = 'observe' WHERE name = 'ours'"))
    assert [tuple(plan) for plan in plans] == [
        ("mine", "approved", "enforce"),
        ("old-mine", "superseded", "enforce"),
        ("old-ours", "superseded", "enforce"),
        ("ours", "applied", "enforce"),
    ]
    assert [tuple(one) for one in found] == [("enforce", "automatic", True)] * 2
    config = config_for()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, str(before))
    with engine.begin() as connection:
        lend = connection.execute(text("SELECT name, is_lending FROM clusters ORDER BY name")).all()
        old = connection.execute(text("SELECT status FROM plans ORDER BY plan_id")).scalars().all()
    assert [(name, bool(is_lending)) for name, is_lending in lend] == [("mine", True), ("ours", False)]
    assert old == ["published", "superseded", "superseded", "published"]
