"""Clusters and inventories over HTTP, on both databases."""

import pytest
from service import assert_problem

from app.store import live
from app.store.engine import reading
from app.store.tables import JobRow

PUT = "/v1/clusters/c/inventory"


def change(service, body, version=1):
    return service.client.patch("/v1/clusters/c", json=body, headers={"If-Match": f'"{version}"'})


def put(service, pools, nodes=(), if_match='"1"'):
    body = {"pools": pools, "nodes": list(nodes)}
    return service.client.put(PUT, json=body, headers={"If-Match": if_match})


def epochs(service):
    with reading(service.database.engine) as session:
        return live.epochs(session, "c")


def test_a_cluster_is_made_read_and_listed(service):
    made = service.client.post(
        "/v1/clusters",
        json={"name": "research-1", "enforced_by": "executors", "settings": {"eps": "0.01"}, "seed": 3},
    )
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/clusters/research-1"
    assert made.headers["etag"] == '"1"'
    body = made.json()
    assert body["policy"] == "anticipatory"
    assert body["clock_origin"] == "2026-01-05T00:00:00Z"  # the Monday before
    assert body["is_lending"] is True
    got = service.client.get(made.headers["location"])
    assert got.json() == body
    assert got.headers["etag"] == '"1"'
    assert service.client.get("/v1/clusters").json() == {"items": [body], "next": None}


def test_clusters_are_listed_a_page_at_a_time(service):
    for name in ("b", "a", "c"):
        service.cluster(name)
    first = service.client.get("/v1/clusters?limit=2").json()
    assert [one["name"] for one in first["items"]] == ["a", "b"]
    last = service.client.get("/v1/clusters", params={"limit": 2, "after": first["next"]}).json()
    assert [one["name"] for one in last["items"]] == ["c"]
    assert last["next"] is None


def test_a_name_is_given_once(service):
    service.cluster()
    again = service.client.post("/v1/clusters", json={"name": "c", "enforced_by": "scheduler"})
    assert_problem(again, 409, "conflict")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"policy": "none"}, "there is no policy 'none'"),
        ({"policy": "sia-perfect"}, "has to know the future"),
        ({"policy": "anticipatory", "settings": {"lives": "true"}}, "the truth is not known yet"),
        ({"policy": "fcfs", "settings": {"eps": "0.1"}}, "no setting 'eps'"),
        ({"policy": "anticipatory", "settings": {"eps": "much"}}, "much"),
        ({"policy": "anticipatory", "settings": {"retrain_days": "-1"}}, "retrain_days"),
        ({"policy": "anticipatory", "settings": {"reclaim_s": "30"}}, "reclaim_s is for replays"),
        ({"policy": "packing"}, "by a table of measured pairs, of which the service has none"),
    ],
)
def test_a_policy_that_cannot_run_live_is_refused(service, body, says):
    answer = service.client.post("/v1/clusters", json={"name": "c", "enforced_by": "scheduler"} | body)
    assert says in assert_problem(answer, 422, "setting-error")["detail"]
    assert service.client.get("/v1/clusters").json()["items"] == []


@pytest.mark.parametrize("name", ["", "A", "a_b", "ä", "x" * 64, "a/b", "a\n"])
def test_names_of_clusters_are_narrow(service, name):
    answer = service.client.post("/v1/clusters", json={"name": name, "enforced_by": "scheduler"})
    assert_problem(answer, 422, "not-valid")


def test_the_clock_cannot_begin_in_the_future(service):
    body = {"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "clock_origin": "2026-01-07T12:00:01Z"}
    assert_problem(service.client.post("/v1/clusters", json=body), 422, "invalid")


@pytest.mark.parametrize(
    "origin", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-01-01T00:00:00"]
)
def test_instants_need_a_zone_and_a_sane_year(service, origin):
    body = {"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "clock_origin": origin}
    assert_problem(service.client.post("/v1/clusters", json=body), 422, "not-valid")


def test_a_change_needs_the_version_it_is_based_on(service):
    service.cluster()
    assert_problem(service.client.patch("/v1/clusters/c", json={"is_lending": False}), 428, "version-missing")
    assert_problem(change(service, {"is_lending": False}, version=2), 412, "version-clash")
    changed = change(service, {"is_lending": False})
    assert changed.status_code == 200
    assert changed.headers["etag"] == '"2"'
    assert changed.json()["is_lending"] is False
    assert_problem(change(service, {"is_lending": True}), 412, "version-clash")
    weak = service.client.patch("/v1/clusters/c", json={}, headers={"If-Match": 'W/"2"'})
    assert_problem(weak, 412, "version-clash")
    bare = service.client.patch("/v1/clusters/c", json={}, headers={"If-Match": "2"})
    assert_problem(bare, 422, "invalid")


def test_a_change_to_what_is_there_already_changes_nothing(service):
    service.cluster(replan_every_s=60)
    changed = change(service, {"is_lending": True, "replan_every_s": 60.0, "policy": "fcfs"})
    assert changed.json()["version"] == 1


def test_a_policy_set_without_settings_gets_its_defaults(service):
    service.cluster(policy="anticipatory", settings={"eps": "0.01"})
    changed = change(service, {"policy": "reclaim", "replan_every_s": 30}).json()
    assert (changed["policy"], changed["settings"], changed["replan_every_s"]) == ("reclaim", {}, 30)
    assert_problem(change(service, {"settings": {"eps": "1"}}, version=2), 422, "setting-error")


def test_an_unknown_cluster_is_not_found(service):
    assert_problem(service.client.get("/v1/clusters/c"), 404, "unknown-cluster")
    assert_problem(change(service, {}), 404, "unknown-cluster")
    assert_problem(put(service, [{"name": "a", "quota_gpus": 1}]), 404, "unknown-cluster")
    assert_problem(service.client.get(PUT), 404, "unknown-cluster")


def test_an_inventory_is_put_and_read_in_its_order(service):
    service.cluster()
    pools = [{"name": "z", "quota_gpus": 8, "is_requeueable": True}, {"name": "a", "quota_gpus": 4}]
    nodes = [{"name": "n2", "num_gpus": 8, "gpu_type": "h200", "pool": "z"}, {"name": "n1", "num_gpus": 8}]
    answer = put(service, pools, nodes)
    assert answer.status_code == 200, answer.text
    assert answer.headers["etag"] == '"2"'
    body = answer.json()
    assert body["capacity_gpus"] == 16
    assert [pool["name"] for pool in body["pools"]] == ["z", "a"]
    assert [pool["is_requeueable"] for pool in body["pools"]] == [True, False]
    assert [node["name"] for node in body["nodes"]] == ["n2", "n1"]
    assert service.client.get(PUT).json() == body


def test_only_what_a_policy_stands_on_begins_an_epoch(service):
    service.cluster()
    assert epochs(service) == []
    service.inventory({"a": 4})
    service.inventory({"a": 4})
    assert [row.reason for row in epochs(service)] == ["inventory changed"]
    change(service, {"is_lending": False}, version=2)
    assert len(epochs(service)) == 1
    change(service, {"policy": "backfill"}, version=3)
    assert [row.policy for row in epochs(service)] == ["fcfs", "backfill"]
    assert epochs(service)[-1].quotas == [["a", 4]]


@pytest.mark.parametrize(
    ("pools", "nodes", "says"),
    [
        ([("a", 1), ("a", 2)], [], "pool 'a' is listed twice"),
        ([("a", 1)], [("n", 1, None), ("n", 2, None)], "node 'n' is listed twice"),
        ([("a", 9)], [("n", 8, None)], "quotas add up to 9 GPUs, the cluster has 8"),
        ([("a", 1)], [("n", 8, "b")], "its pool 'b' is not among the pools"),
    ],
)
def test_an_inventory_that_cannot_be_is_refused(service, pools, nodes, says):
    service.cluster()
    answer = put(
        service,
        [{"name": name, "quota_gpus": quota} for name, quota in pools],
        [{"name": name, "num_gpus": gpus, "pool": pool} for name, gpus, pool in nodes],
    )
    assert says in assert_problem(answer, 422, "invalid")["detail"]
    assert service.client.get(PUT).json()["pools"] == []


@pytest.mark.parametrize(
    "pool", [{"name": "a", "quota_gpus": -1}, {"name": "a", "quota_gpus": "4"}, {"name": "", "quota_gpus": 1}]
)
def test_pools_are_checked_field_by_field(service, pool):
    service.cluster()
    body = assert_problem(put(service, [pool]), 422, "not-valid")
    assert body["errors"][0]["where"].startswith("body.pools.0.")


def test_a_pool_with_jobs_cannot_be_taken_away_but_drained(service):
    service.cluster()
    service.inventory({"a": 4, "b": 4})
    with service.database.engine.begin() as connection:
        connection.execute(
            JobRow.__table__.insert().values(
                cluster="c", job_id="j", pool="a", submit_s=0, num_gpus=1, spec={}, rank=1, state="waiting",
                is_guest=False, was_guest=False, attempts=0, lost_s=0, gpus=[], share_pct=100,
            )
        )  # fmt: skip
    answer = put(service, [{"name": "b", "quota_gpus": 4}], if_match="*")
    assert "pool 'a' has 1 unfinished jobs" in assert_problem(answer, 409, "conflict")["detail"]
    assert service.inventory({"a": 0, "b": 8})["version"] == 3


def test_what_is_known_of_a_node_that_stays_is_kept(service):
    service.cluster()
    node = {"name": "n", "num_gpus": 1}
    service.inventory({"a": 1}, [node])
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE nodes SET gpu_uuids = '[\"GPU-1\"]'")
    kept = service.inventory({"a": 1}, [node, {"name": "m", "num_gpus": 2}])
    assert [node["gpu_uuids"] for node in kept["nodes"]] == [["GPU-1"], []]
    larger = service.inventory({"a": 1}, [{"name": "n", "num_gpus": 2}])
    assert [node["gpu_uuids"] for node in larger["nodes"]] == [[]]
