"""Runs and what-ifs over HTTP, on both databases."""

import pytest
from service import assert_problem

from app.runs.client import MAX_QUEUED_RUNS


@pytest.fixture
def runs(service):
    service.cluster()
    service.inventory({"vision": 6, "speech": 2})
    return service


def replan(service, **more):
    return service.client.post("/v1/clusters/c/replans", **more)


def ask(service, **body):
    return service.client.post("/v1/clusters/c/what-ifs", json=body)


def run_at(service, path):
    answer = service.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_replan_is_accepted_and_asked_again_it_is_the_same(runs):
    answer = replan(runs)
    assert answer.status_code == 202, answer.text
    run = run_at(runs, answer.headers["location"])
    assert run == answer.json()
    assert (run["kind"], run["status"], run["arguments"]) == ("replan", "queued", {})
    assert replan(runs).json()["run_id"] == run["run_id"]


def test_runs_are_listed_newest_first_a_page_at_a_time(runs):
    asked = []
    for gpus in range(5):
        runs.clock.wait(1)
        asked.append(ask(runs, quotas={"vision": gpus}).json()["run_id"])
    seen, query = [], {"limit": 2}
    while True:
        page = runs.client.get("/v1/clusters/c/runs", params=query).json()
        seen += [run["run_id"] for run in page["items"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]
    assert seen == asked[::-1]
    none = runs.client.get("/v1/clusters/c/runs", params={"kind": "replan"}).json()
    assert none == {"items": [], "next": None}


def test_a_run_can_be_cancelled_and_stays_so(runs):
    run_id = replan(runs).json()["run_id"]
    cancelled = runs.client.post(f"/v1/runs/{run_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert cancelled.json()["finished_at"] is not None
    assert runs.client.post(f"/v1/runs/{run_id}/cancel").json() == cancelled.json()
    assert replan(runs).json()["run_id"] != run_id


def test_what_is_unknown_is_a_problem(runs):
    client = runs.client
    for path in ("/v1/runs/run-none", "/v1/clusters/c/runs?before=run-none"):
        assert_problem(client.get(path), 404, "unknown-resource")
    assert_problem(client.get("/v1/clusters/nix/runs"), 404, "unknown-cluster")
    assert_problem(client.post("/v1/runs/run-none/cancel"), 404, "unknown-resource")
    assert_problem(client.post("/v1/clusters/nix/replans"), 404, "unknown-cluster")
    assert_problem(client.post("/v1/clusters/nix/what-ifs", json={}), 404, "unknown-cluster")
    assert_problem(client.get("/v1/clusters/c/runs?kind=nix"), 422, "not-valid")


def test_a_what_if_is_accepted_with_what_was_asked(runs):
    answer = ask(runs, quotas={"vision": 4, "speech": 4}, days=3)
    assert answer.status_code == 202, answer.text
    run = run_at(runs, answer.headers["location"])
    assert run["kind"] == "what_if"
    assert run["arguments"] == {
        "quotas": {"vision": 4, "speech": 4},
        "policy": None,
        "settings": None,
        "days": 3.0,
    }


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"quotas": {"vision": 7}}, "quotas add up to 9 GPUs, the cluster has 8"),
        ({"quotas": {"nix": 1}}, "no pool 'nix'"),
        ({"quotas": {"vision": 6}}, "nothing is different"),
        ({}, "nothing is different"),
        ({"policy": "nix"}, "policy"),
        ({"policy": "gssf"}, "future"),
        ({"policy": "fcfs", "settings": {"nix": "1"}}, "nix"),
        ({"quotas": {"vision": -1}}, ""),
        ({"quotas": {"vision": 1.5}}, ""),
        ({"quotas": {"vision": 4}, "days": 0}, ""),
        ({"quotas": {"vision": 4}, "more": 1}, ""),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_door(runs, body, word):
    answer = ask(runs, **body)
    assert answer.status_code == 422, answer.text
    assert word in answer.json()["detail"]
    assert runs.client.get("/v1/clusters/c/runs").json()["items"] == []


def test_a_cluster_without_pools_cannot_be_asked_about(service):
    service.cluster()
    assert_problem(ask(service, policy="reclaim"), 409, "conflict")


def test_another_policy_comes_with_its_own_settings(runs):
    assert ask(runs, policy="reclaim").status_code == 202
    assert ask(runs, settings={}).status_code == 422


def test_the_line_has_an_end(runs):
    for _ in range(MAX_QUEUED_RUNS):
        assert ask(runs, quotas={"vision": 1}).status_code == 202
    refused = ask(runs, quotas={"vision": 1})
    assert_problem(refused, 429, "too-many-requests")
    assert int(refused.headers["retry-after"]) > 0


@pytest.mark.parametrize(("enforced_by", "expected"), [("executors", ["replan"]), ("scheduler", [])])
def test_what_an_operator_changes_is_planned_for_where_executors_enforce(service, enforced_by, expected):
    service.cluster(enforced_by=enforced_by)
    nodes = [{"name": "n1", "num_gpus": 8}]
    service.inventory({"vision": 6, "speech": 2}, nodes)
    service.client.post("/v1/clusters/c/epochs", json={"reason": "a new day"})
    runs = service.client.get("/v1/clusters/c/runs").json()["items"]
    assert [run["kind"] for run in runs] == expected


def test_where_executors_enforce_nobody_else_says_what_runs(service):
    service.cluster(enforced_by="executors")
    service.inventory({"vision": 6}, [{"name": "n1", "num_gpus": 8}])
    event = {"kind": "started", "job_id": "x"}
    for path in ("events", "decisions"):
        answer = service.client.post(f"/v1/clusters/c/{path}", json={"events": [event]})
        assert_problem(answer, 409, "conflict")


def test_only_what_runs_through_executors_can_be_paused(service):
    service.cluster(enforced_by="executors")
    service.inventory({"vision": 6}, [{"name": "n1", "num_gpus": 8}])
    job = {"pool": "vision", "num_gpus": 1, "spec": {"argv": ["true"]}}
    body = {"events": [{"kind": "submitted", "job_id": "x", "job": job}]}
    assert service.client.post("/v1/clusters/c/events", json=body).status_code == 200
    for job_id, status in (("x", 409), ("y", 404)):
        asked = {"job_id": job_id, "is_paused": True}
        assert service.client.post("/v1/clusters/c/pauses", json=asked).status_code == status


def test_trainings_and_backtests_are_accepted_with_what_was_asked(runs):
    trained = runs.client.post("/v1/clusters/c/trainings", json={})
    assert trained.status_code == 202, trained.text
    assert int(trained.headers["retry-after"]) > 0
    run = run_at(runs, trained.headers["location"])
    assert (run["kind"], run["arguments"]) == ("train", {"holdout_days": 7.0, "begins_epoch": False})
    assert runs.client.post("/v1/clusters/c/trainings", json={}).json()["run_id"] == run["run_id"]
    policies = [{"policy": "fcfs", "settings": {}}, {"policy": "reclaim", "settings": {}}]
    asked = runs.client.post("/v1/clusters/c/backtests", json={"policies": policies, "days": 3})
    assert asked.status_code == 202, asked.text
    assert run_at(runs, asked.headers["location"])["arguments"] == {"policies": policies, "days": 3.0}


@pytest.mark.parametrize(
    ("policies", "word"),
    [
        ([], ""),
        ([{"policy": "nix"}], "policy"),
        ([{"policy": "gssf"}], "future"),
        ([{"policy": "fcfs"}, {"policy": "fcfs"}], "twice"),
        ([{"policy": "fcfs", "settings": {"nix": "1"}}], "nix"),
    ],
)
def test_a_backtest_that_makes_no_sense_is_refused_at_the_door(runs, policies, word):
    answer = runs.client.post("/v1/clusters/c/backtests", json={"policies": policies})
    assert answer.status_code == 422, answer.text
    assert word in answer.json()["detail"]
