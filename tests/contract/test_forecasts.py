"""Forecasts and explanations over HTTP, from warm processes that follow the log."""

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from databases import Database
from service import NOON, assert_problem

from app.children import questions
from app.children.state import LiveDesk
from app.services import epochs
from app.store import history
from app.store.engine import lock_cluster, transaction
from app.store.tables import HistoryImportRow

BASE = "/v1/clusters/c"
QUOTAS = {"b": 4, "a": 4}


@pytest.fixture
def lent(service):
    """A cluster with a week of history: short jobs of `u`, long ones of `v`, in pool a."""
    service.cluster(policy="anticipatory", settings={"lives": "learned"}, clock_origin="2025-12-29T00:00:00Z")
    service.inventory(QUOTAS)
    learn(service.database)
    with transaction(service.database.engine) as session:
        epochs.begin(session, lock_cluster(session, "c"), "a test", service.clock)
    return service


def learn(database: Database):
    rows = [
        {
            "job_id": f"h{k}",
            "pool": "a",
            "submit_s": 3_600.0 * k,
            "num_gpus": 1 + k % 2,
            "duration_s": (600.0 if k % 2 else 60_000.0) + 10.0 * k,
            "user": "u" if k % 2 else "v",
            "name": "n",
        }
        for k in range(160)
    ]
    with transaction(database.engine) as session:
        told = {"cluster": "c", "file_format": "csv", "status": "imported", "created_at": NOON}
        history.add(session, HistoryImportRow(import_id="i", **told))
        session.flush()
        history.add_jobs(session, "c", "i", rows)


def tell(service, *events):
    answer = service.client.post(f"{BASE}/decisions", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def submitted(job_id, pool, num_gpus, **more):
    job = {"pool": pool, "num_gpus": num_gpus, **more}
    return {"kind": "submitted", "job_id": job_id, "job": job}


def ask(service, **body):
    return service.client.post(f"{BASE}/forecasts/lifetime", json=body)


def test_lives_are_those_of_the_history_and_grow_with_age(lent):
    tell(lent, submitted("live", "a", 1, user="v", name="n"), {"kind": "started", "job_id": "live"})
    lent.clock.at += timedelta(hours=2)
    job = {"pool": "a", "num_gpus": 1, "name": "n"}
    jobs = [
        {"job_id": "short", "job": {**job, "user": "u"}},
        {"job_id": "long", "job": {**job, "user": "v"}},
        {"job_id": "old", "job": {**job, "user": "v"}, "elapsed_s": 30_000.0},
        {"job_id": "live"},
    ]
    answer = ask(lent, jobs=jobs, levels=[0.1, 0.5, 0.9], within_s=[3_600.0, 1e9])
    assert answer.status_code == 200, answer.text
    said = {one["job_id"]: one for one in answer.json()["jobs"]}
    assert said["short"]["total_s"][2] < 10_000.0 < said["long"]["total_s"][0]
    assert (said["old"]["elapsed_s"], said["live"]["elapsed_s"]) == (30_000.0, 7_200.0)
    for one in said.values():
        assert one["total_s"] == sorted(one["total_s"])
        left = [total - one["elapsed_s"] for total in one["total_s"]]
        assert one["remaining_s"] == pytest.approx(left, abs=0.01)
        assert 0.0 <= one["ends_within"][0] <= one["ends_within"][1] == 1.0
    by_age = [said[name]["total_s"] for name in ("long", "live", "old")]
    assert all(ages == sorted(ages) for ages in map(list, zip(*by_age, strict=True)))
    assert answer.json()["jobs_learned_from"] == 160
    assert answer.json()["models"]["lives"] == "learned"


def test_demand_has_a_row_for_each_pool_by_its_name(lent):
    answer = lent.client.get(f"{BASE}/forecasts/demand", params={"horizon_s": 7_200, "level": [0.9, 0.5]})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["levels"] == [0.5, 0.9]
    pools = {one["pool"]: one for one in body["pools"]}
    assert pools.keys() == {"a", "b"}
    jobs = {name: sum(step["jobs_mean"] for step in one["steps"]) for name, one in pools.items()}
    assert jobs["b"] == 0.0 < jobs["a"]
    steps = pools["a"]["steps"]
    assert steps[0]["from_s"] == 0.0
    assert all(one["to_s"] == other["from_s"] for one, other in pairwise(steps))
    assert all(step["peak_gpus"] == sorted(step["peak_gpus"]) for step in steps)
    only = lent.client.get(f"{BASE}/forecasts/demand", params={"pool": "b"}).json()["pools"]
    assert [one["pool"] for one in only] == ["b"]


def test_why_a_job_waits_and_what_the_others_do(lent):
    events = [submitted("own", "a", 3, user="v", name="n"), submitted("wide", "a", 4, user="v", name="n")]
    decided = tell(lent, *events)
    assert decided["starts"][0] == {"job_id": "own", "is_guest": False, "gpus": None}
    guests = {start["job_id"] for start in decided["starts"] if start["is_guest"]}
    tell(lent, *({"kind": "started", "job_id": start["job_id"]} for start in decided["starts"]))
    waits = lent.client.get(f"{BASE}/explanations").json()
    names = {one["job_id"] for one in waits["items"]}
    assert names == {"wide"} - guests
    assert waits["num_waiting"] == len(names)
    explained = lent.client.get(f"{BASE}/jobs/own/explanation").json()
    assert (explained["state"], explained["wait"]) == ("running", None)
    assert explained["text"] == "it runs as its pool's own"
    if names:
        found = lent.client.get(f"{BASE}/jobs/wide/explanation").json()
        assert found["wait"] == waits["items"][0]
        assert found["text"] == found["wait"]["text"]


def test_the_kill_switch_is_the_reason_while_it_is_thrown(lent):
    off = lent.client.patch(BASE, json={"is_lending": False}, headers={"If-Match": "*"})
    assert off.status_code == 200
    decided = tell(lent, submitted("own", "a", 3), submitted("more", "a", 2))
    assert [start["job_id"] for start in decided["starts"]] == ["own"]
    tell(lent, {"kind": "started", "job_id": "own"})
    answer = lent.client.get(f"{BASE}/jobs/more/explanation")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["wait"]["why"] == "lending-off"
    assert found["wait"]["evidence"]["idle_gpus"] == 5


def test_a_question_changes_no_decision(lent):
    """The desk that answers questions is told the same log, and its policy is not the one that is asked."""
    tell(lent, submitted("own", "a", 3, user="v", name="n"), submitted("wide", "a", 4, user="v", name="n"))
    row = lent.client.get(BASE).json()
    engine = lent.database.engine
    request = {"now_s": 0.0, "idle_gpus": 8, "is_lending": True, "job_id": None}
    desks = [LiveDesk(engine, "c", row["epoch"]) for _ in range(2)]
    for desk in desks:
        desk.catch_up(row["seq"])
    first = questions.waits(desks[0], request)
    assert questions.waits(desks[0], request) == first
    now_s = desks[0].now_s + 60.0
    asked, not_asked = (desk.decide(now_s, 8, is_lending=True) for desk in desks)
    assert asked == not_asked


def test_what_cannot_be_asked_is_said_so(lent):
    job = {"pool": "a", "num_gpus": 1}
    assert_problem(ask(lent, jobs=[{"job_id": "nobody"}]), 404, "unknown-resource")
    assert_problem(ask(lent, jobs=[{"job_id": "x", "job": {**job, "pool": "z"}}]), 404, "unknown-resource")
    assert_problem(ask(lent, jobs=[{"job_id": "x", "job": job}], levels=[0.9, 0.1]), 422, "not-valid")
    assert_problem(lent.client.get(f"{BASE}/forecasts/demand?pool=z"), 404, "unknown-resource")
    assert_problem(lent.client.get(f"{BASE}/jobs/nobody/explanation"), 404, "unknown-resource")
    lent.cluster("empty")
    assert_problem(lent.client.get("/v1/clusters/empty/explanations"), 409, "conflict")


def test_a_policy_without_forecasts_says_that_there_are_none(service):
    service.cluster()
    service.inventory({"a": 4})
    answer = service.client.get(f"{BASE}/forecasts/demand")
    assert "asks for no forecast of demand" in assert_problem(answer, 503, "decision-unavailable")["detail"]


@pytest.mark.parametrize("elapsed_s", [0.0, 5.0, 8.0, 100.0, 1e5, 1e9])
def test_a_life_by_hand(elapsed_s):
    """P(life > t) falls in a straight line from 1 at 0 to 0 at the 40th edge."""
    last_s = questions._EDGES_S[40]
    curve = np.clip(1.0 - questions._EDGES_S / last_s, 0.0, None)
    said = questions._life(curve, elapsed_s, np.array([0.25, 0.5]), np.array([50.0]))
    if elapsed_s >= last_s:
        assert said == {"total_s": [None, None], "remaining_s": [None, None], "ends_within": [None]}
        return
    left_s = last_s - elapsed_s
    assert said["remaining_s"] == pytest.approx([0.25 * left_s, 0.5 * left_s], rel=1e-6, abs=1e-3)
    assert said["ends_within"] == pytest.approx([min(50.0 / left_s, 1.0)], abs=1e-6)
