"""Executors over HTTP, on both databases: trust, sessions, leases, what they say of their nodes."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from nodes import (
    CAPABILITIES,
    RemoteExecutor,
    devices,
    document,
    ended,
    job,
    log,
    make_cluster,
    placement,
    start,
    told,
    want_no_more,
    wanted_on,
)
from service import assert_problem
from sqlmodel import select

from app.services import executors, push
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import EpochRow, ExecutorRow, JoinTokenRow, NodeRow, PlacementRow, RunRow


@pytest.fixture
def engine(service):
    make_cluster(service.database.engine, service.clock, {"n1": 2, "n2": 1})
    return service.database.engine


@pytest.fixture
def n1(service, engine):
    del engine
    return RemoteExecutor(service.client, "n1", 2)


@pytest.fixture
def n2(service, engine):
    del engine
    return RemoteExecutor(service.client, "n2", 1)


def node(engine, name):
    with reading(engine) as session:
        return session.get(NodeRow, ("c", name))


def executor(engine, executor_id):
    with reading(engine) as session:
        return session.get(ExecutorRow, executor_id)


def rows(engine, table):
    with reading(engine) as session:
        return session.exec(select(table)).all()


# Trust.


def test_a_token_enrols_once(n1, engine):
    token = n1.token()
    assert n1.enrol(token).status_code == 201
    assert_problem(n1.enrol(token), 401, "not-authenticated")
    assert len(rows(engine, ExecutorRow)) == 1


def test_of_many_who_show_the_same_token_at_once_one_is_enrolled(n1, engine):
    token, number = n1.token(), 6
    at_once = threading.Barrier(number)

    def enrol():
        at_once.wait()
        return n1.enrol(token).status_code

    with ThreadPoolExecutor(number) as pool:
        found = sorted(future.result() for future in [pool.submit(enrol) for _ in range(number)])
    assert found == [201] + [401] * (number - 1)
    assert len(rows(engine, ExecutorRow)) == 1


def test_secrets_are_kept_as_hashes_only(n1, engine, service):
    token = n1.token()
    n1.enrol(token)
    (ticket,) = rows(engine, JoinTokenRow)
    (row,) = rows(engine, ExecutorRow)
    assert ticket.token_sha256 == hashlib.sha256(token.encode()).hexdigest()
    assert row.secret_sha256 == hashlib.sha256(n1.secret.encode()).hexdigest()
    listed = service.client.get("/v1/clusters/c/executors").text
    for secret in (token, n1.secret, row.secret_sha256):
        assert secret not in listed
        assert len(secret) >= 43


def test_a_token_expires(n1, service):
    token = n1.token()
    service.clock.wait(3600)
    assert_problem(n1.enrol(token), 401, "not-authenticated")


def test_a_token_is_for_its_node_and_stays_good_after_a_mistake(n1, n2):
    token = n1.token()
    assert_problem(n2.enrol(token), 403, "not-allowed")
    assert n1.enrol(token).status_code == 201


def test_a_token_needs_a_node_of_the_inventory(service, engine):
    del engine
    answer = service.client.post("/v1/clusters/c/join-tokens", json={"node": "n9"})
    assert_problem(answer, 409, "conflict")
    answer = service.client.post("/v1/clusters/none/join-tokens", json={"node": "n1"})
    assert_problem(answer, 404, "unknown-cluster")


def test_a_made_up_token_is_refused(n1):
    assert_problem(n1.enrol("x" * 43), 401, "not-authenticated")


def test_a_new_enrolment_revokes_the_older_one_of_its_node(service, n1, n2, engine):
    n1.begin(), n2.begin()
    successor = RemoteExecutor(service.client, "n1", 2).begin()
    assert_problem(n1.status(), 403, "not-allowed")
    assert n2.status().status_code == 204
    assert successor.status().status_code == 204
    assert [row.executor_id for row in rows(engine, ExecutorRow) if row.is_revoked] == [n1.executor_id]


def test_a_successor_that_never_shows_up_is_missed(service, n1, engine):
    n1.begin()
    RemoteExecutor(service.client, "n1", 2).enrol()
    service.clock.wait(31)
    assert executors.sweep(engine, service.clock) == [("c", "n1")]


def test_the_lease_of_a_predecessor_binds_nobody(service, n1, engine):
    n1.begin()
    successor = RemoteExecutor(service.client, "n1", 2).begin()
    for _ in range(2):
        service.clock.wait(20)
        assert successor.status().status_code == 204
    assert executors.sweep(engine, service.clock) == []


def test_a_revoked_executor_is_heard_no_more_and_its_node_is_lost_in_time(service, n1, engine):
    n1.begin()
    assert service.client.post(f"/v1/executors/{n1.executor_id}/revoke").status_code == 204
    for answer in (n1.status(), n1.open(), n1.desired(), n1.events()):
        assert_problem(answer, 403, "not-allowed")
    service.clock.wait(31)
    assert executors.sweep(engine, service.clock) == [("c", "n1")]
    assert_problem(service.client.post("/v1/executors/none/revoke"), 404, "unknown-resource")


def test_an_executor_may_speak_for_itself_only(n1, n2):
    n1.begin(), n2.begin()
    n1.executor_id, n2.executor_id = n2.executor_id, n1.executor_id
    for answer in (n1.status(), n1.open(), n1.desired(), n1.events()):
        assert_problem(answer, 403, "not-allowed")


def test_without_a_valid_secret_nobody_is_heard(n1):
    n1.begin()
    for secret in ("x" * 43, "two words", "x" * 5000):
        n1.secret = secret
        assert_problem(n1.status(), 401, "not-authenticated")
    n1.executor_id = "ex-none"
    assert_problem(n1.status(), 401, "not-authenticated")


def test_operators_need_their_scopes(open_service):
    service = open_service(auth="keys")
    make_cluster(service.database.engine, service.clock, {"n1": 1})
    reader, admin = service.key("read"), service.key("admin")
    tokens, body = "/v1/clusters/c/join-tokens", {"node": "n1"}
    assert_problem(service.client.post(tokens, json=body), 401, "not-authenticated")
    assert_problem(service.client.post(tokens, json=body, headers=reader), 403, "not-allowed")
    assert service.client.post(tokens, json=body, headers=admin).status_code == 201
    assert service.client.get("/v1/clusters/c/executors", headers=reader).status_code == 200
    assert_problem(service.client.get("/v1/clusters/c/executors"), 401, "not-authenticated")
    answer = service.client.post("/v1/executors/x/revoke", headers=reader)
    assert_problem(answer, 403, "not-allowed")


def test_an_api_key_is_no_executor_s_secret(open_service):
    service = open_service(auth="keys")
    make_cluster(service.database.engine, service.clock, {"n1": 1})
    answer = service.client.get("/v1/executors/x/desired?session=1", headers=service.key("admin"))
    assert_problem(answer, 401, "not-authenticated")


# Sessions.


def test_a_session_reports_the_gpus_in_the_order_of_their_index(n1, engine):
    n1.enrol()
    found = devices("n1", 2)[::-1]
    answer = n1.open(devices=found)
    assert answer.status_code == 201
    assert answer.json() == {"session": 1, "lease_s": 30.0, "poll_wait_s": 25.0, "status_every_s": 5.0}
    assert node(engine, "n1").gpu_uuids == ["GPU-n1-0", "GPU-n1-1"]


def test_a_node_s_first_session_brings_it_into_the_cluster_once(n1, engine):
    before = len(rows(engine, EpochRow))
    n1.begin()
    assert len(rows(engine, EpochRow)) == before + 1
    n1.open()
    assert len(rows(engine, EpochRow)) == before + 1


@pytest.mark.parametrize("found", [devices("n1", 1), devices("n1", 3), []])
def test_gpus_that_are_not_those_of_the_inventory_are_a_conflict(n1, engine, found):
    n1.enrol()
    body = assert_problem(n1.open(devices=found), 409, "conflict")
    assert f"2 GPUs in the inventory, its executor found {len(found)}" in body["detail"]
    assert node(engine, "n1").gpu_uuids == []


def test_a_gpu_named_twice_is_a_conflict(n1):
    n1.enrol()
    assert_problem(n1.open(devices=devices("n1", 1) * 2), 409, "conflict")


def test_a_new_session_ends_the_older_one(n1):
    n1.begin()
    n1.open()
    n1.session = 1
    for answer in (n1.status(), n1.desired(), n1.events()):
        assert_problem(answer, 409, "stale-session")
    n1.session = 2
    assert n1.status().status_code == 204


def test_an_inventory_that_changes_under_a_session_ends_it(service, n1):
    n1.begin()
    service.inventory({"a": 2}, [{"name": "n1", "num_gpus": 3}, {"name": "n2", "num_gpus": 1}])
    assert_problem(n1.status(), 409, "stale-session")
    assert_problem(n1.open(), 409, "conflict")
    n1.num_gpus = 3
    assert n1.open().status_code == 201


def test_a_node_that_has_left_the_inventory_is_told_so(service, n1):
    n1.begin()
    service.inventory({"a": 1}, [{"name": "n2", "num_gpus": 1}])
    assert_problem(n1.status(), 409, "stale-session")
    assert "no longer in the inventory" in assert_problem(n1.open(), 409, "conflict")["detail"]


def test_what_was_to_stop_and_was_not_found_running_is_gone(service, n1, engine):
    n1.begin()
    (kept,) = start(engine, service.clock, "kept", [("n1", 0)])
    (left,) = start(engine, service.clock, "left", [("n1", 1)])
    want_no_more(engine, service.clock, left)
    n1.open(adopted=[kept])
    assert placement(engine, left).ended_at == service.clock.now()
    assert placement(engine, kept).ended_at is None
    assert placement(engine, kept).observed["adopted"] is True
    assert wanted_on(engine, "n1") == [kept]


# Leases.


def test_a_node_that_falls_silent_is_lost_and_its_jobs_wait_again(service, n1, n2, engine):
    n1.begin(), n2.begin()
    guest = start(engine, service.clock, "guest", [("n1", 0)], is_guest=True)
    start(engine, service.clock, "gang", [("n1", 1), ("n2", 0)])
    service.clock.wait(20)
    assert n2.status().status_code == 204
    with reading(engine) as session:
        assert executors.lost(session, "c", service.clock.now()) == []
    assert executors.sweep(engine, service.clock) == []
    service.clock.wait(11)
    with reading(engine) as session:
        assert executors.lost(session, "c", service.clock.now()) == ["n1"]
    assert executors.sweep(engine, service.clock) == [("c", "n1")]
    assert executors.sweep(engine, service.clock) == []
    assert node(engine, "n1").is_lost
    assert not node(engine, "n2").is_lost
    assert [job(engine, name).state for name in ("guest", "gang")] == ["waiting", "waiting"]
    facts = {fact.job_id: fact.kind for fact in log(engine, "sent_back", "restarted")}
    assert facts == {"guest": "sent_back", "gang": "restarted"}
    assert wanted_on(engine, "n1") == wanted_on(engine, "n2") == []
    assert placement(engine, guest[0]).ended_at is not None


def test_a_lost_node_has_to_open_a_session_and_is_back(service, n1, engine):
    n1.begin()
    (name,) = start(engine, service.clock, "j", [("n1", 0)], is_guest=True)
    service.clock.wait(31)
    executors.sweep(engine, service.clock)
    assert_problem(n1.status(), 409, "stale-session")
    assert_problem(n1.events(ended(name, service.clock.now())), 409, "stale-session")
    epochs = len(rows(engine, EpochRow))
    assert n1.open(adopted=[name]).status_code == 201
    assert not node(engine, "n1").is_lost
    assert len(rows(engine, EpochRow)) == epochs + 1
    assert placement(engine, name).ended_at is None  # it runs still, and is being stopped
    assert wanted_on(engine, "n1") == []
    service.clock.wait(2)
    assert n1.events(ended(name, service.clock.now(), None, signal=15)).status_code == 200
    assert placement(engine, name).ended_at == service.clock.now()
    assert job(engine, "j").state == "waiting"
    assert log(engine, "ended") == []


def test_a_status_keeps_the_lease(service, n1, engine):
    n1.begin()
    for _ in range(4):
        service.clock.wait(25)
        assert n1.status().status_code == 204
        assert executors.sweep(engine, service.clock) == []
    row = executor(engine, n1.executor_id)
    assert row.lease_until == service.clock.now() + timedelta(seconds=30)
    assert row.status_at == service.clock.now()


def test_a_node_that_comes_asks_for_a_plan(n1, engine):
    n1.begin()
    assert [row.kind for row in rows(engine, RunRow)] == ["replan"]


# What they say of their nodes.


def generation(engine, name="n1"):
    return document(engine, name)["generation"]


def test_a_status_is_kept(service, n1, engine):
    n1.begin()
    (name,) = start(engine, service.clock, "j", [("n1", 0)])
    refusal = {"placement_id": None, "reason": "bad_hash", "message": "a\nb"}
    condition = {"primitive": "launch", "state": "verified", "reason": "\x1b[31m"}
    answer = n1.status(
        epoch=2,
        generation=1,
        accepted=False,
        refusals=[refusal],
        placements=[told(name, conditions=[condition])],
    )
    assert answer.status_code == 204
    row = executor(engine, n1.executor_id)
    assert (row.observed_epoch, row.observed_generation) == (2, 1)
    assert row.refusals == [refusal | {"message": "a\N{REPLACEMENT CHARACTER}b"}]
    seen = placement(engine, name).observed
    assert (seen["state"], seen["pid"]) == ("running", 4711)
    assert seen["conditions"][0]["reason"] == "\N{REPLACEMENT CHARACTER}[31m"
    (listed,) = service.client.get("/v1/clusters/c/executors").json()["items"]
    assert listed["refusals"] == row.refusals
    assert listed["capabilities"] == CAPABILITIES
    assert listed["node"] == "n1"


def test_a_status_about_another_node_s_placement_changes_nothing(service, n1, n2, engine):
    n1.begin(), n2.begin()
    (name,) = start(engine, service.clock, "j", [("n1", 0)])
    assert n2.status(placements=[told(name), told("unknown.1.0")]).status_code == 204
    assert placement(engine, name).observed == {}


def test_what_never_ran_and_is_not_wanted_is_gone_once_the_node_has_our_last_word(service, n1, n2, engine):
    """One rank fails before the other node has even heard of the job: the job must end nevertheless."""
    n1.begin(), n2.begin()
    ids = start(engine, service.clock, "j", [("n1", 0), ("n2", 0)])
    n1.events(ended(ids[0], service.clock.now(), 1))
    assert job(engine, "j").state == "running"
    n2.status(generation=generation(engine, "n2") - 1)
    assert job(engine, "j").state == "running"
    n2.status(generation=generation(engine, "n2"), accepted=False)
    assert job(engine, "j").state == "running"
    n2.status(generation=generation(engine, "n2"), placements=[told(ids[1], "stopping")])
    assert job(engine, "j").state == "running"
    n2.status(generation=generation(engine, "n2"))
    (fact,) = log(engine, "ended")
    assert (fact.data["state"], fact.data["reason"]) == ("failed", "exit code 1")


def test_what_is_wanted_is_not_given_up_because_a_status_lacks_it(service, n1, engine):
    n1.begin()
    (name,) = start(engine, service.clock, "j", [("n1", 0)])
    n1.status(generation=generation(engine))
    assert wanted_on(engine, "n1") == [name]
    assert placement(engine, name).ended_at is None


def test_what_keeps_a_document_from_being_accepted_is_given_back_and_nothing_else(service, n1, engine):
    n1.begin()
    (runs,) = start(engine, service.clock, "runs", [("n1", 0)])
    (new,) = start(engine, service.clock, "new", [("n1", 1)], is_guest=True)
    refusals = [
        {"placement_id": name, "reason": "overcommit", "message": "shares add up to 150 %"}
        for name in (runs, new)
    ]
    said = {"accepted": False, "refusals": refusals, "placements": [told(runs)]}
    n1.status(generation=generation(engine) - 1, **said)
    assert job(engine, "new").state == "running"
    n1.status(generation=generation(engine), **said)
    assert job(engine, "runs").state == "running"
    assert job(engine, "new").state == "waiting"
    assert wanted_on(engine, "n1") == [runs]
    (fact,) = log(engine, "sent_back")
    assert "overcommit: shares add up to 150 %" in fact.data["reason"]


def test_a_late_status_does_not_revive_what_has_ended(service, n1, engine):
    n1.begin()
    (name,) = start(engine, service.clock, "j", [("n1", 0)])
    n1.events(ended(name, service.clock.now()))
    n1.status(placements=[told(name)])
    assert placement(engine, name).ended_at is not None
    assert placement(engine, name).observed["state"] == "ended"


def test_events_are_counted_over_http(service, n1, engine):
    n1.begin()
    (name,) = start(engine, service.clock, "j", [("n1", 0)])
    event = ended(name, service.clock.now())
    assert n1.events(event).json() == {"accepted": 1, "duplicates": 0}
    assert n1.events(event).json() == {"accepted": 0, "duplicates": 1}
    assert n1.events().json() == {"accepted": 0, "duplicates": 0}
    assert job(engine, "j").state == "ended"


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("status", b"[]"),
        ("status", b"null"),
        ("events", b'{"session": 1, "events": [{"event_id": 1}]}'),
        ("events", b'{"session": 1, "events": [' + b"[" * 200 + b"]" * 200 + b"]}"),
        ("sessions", b'{"boot_id": NaN}'),
    ],
)
def test_bodies_that_make_no_sense_are_refused(n1, what, body):
    n1.begin()
    assert_problem(n1.post(what, body), 422, "not-valid")


def test_bodies_are_bounded(n1):
    n1.begin()
    assert_problem(n1.post("events", b" " * (1024 * 1024 + 1)), 413, "too-large")


def test_executors_are_listed_a_page_at_a_time(service, n1, n2):
    n1.begin(), n2.begin()
    url = "/v1/clusters/c/executors"
    first = service.client.get(url, params={"limit": 1}).json()
    second = service.client.get(url, params={"limit": 1, "after": first["next"]}).json()
    found = [item["executor_id"] for page in (first, second) for item in page["items"]]
    assert found == sorted([n1.executor_id, n2.executor_id])
    assert second["next"] is None
    assert_problem(service.client.get("/v1/clusters/none/executors"), 404, "unknown-cluster")


def test_plans_statuses_and_events_at_once_do_not_get_in_each_other_s_way(service, n1, n2, engine):
    n1.begin(), n2.begin()
    rounds = 12
    gangs = [start(engine, service.clock, f"j{number}", [("n1", 0), ("n2", 0)]) for number in range(4)]
    ids = [name for gang in gangs for name in gang]

    def tell(executor, rank):
        for turn in range(rounds):
            mine = [told(gang[rank], "running", pid=turn + 1) for gang in gangs]
            assert executor.status(placements=mine[:: 1 if turn % 2 else -1]).status_code == 204
            event = ended(gangs[0][rank], service.clock.now(), None)
            assert executor.events(event | {"kind": "placement_started"}).status_code == 200

    def plan():
        for turn in range(rounds):
            with transaction(engine) as session:
                lock_cluster(session, "c")
                for name in ids[:: 1 if turn % 2 else -1]:
                    session.get(PlacementRow, name).share_pct = 50.0 + turn
                    session.flush()
                push.publish(session, "c", service.clock)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(tell, n1, 0), pool.submit(tell, n2, 1), pool.submit(plan)]:
            future.result()
    for name in ids:
        assert placement(engine, name).observed["pid"] == rounds
        assert placement(engine, name).share_pct == 50.0 + rounds - 1
