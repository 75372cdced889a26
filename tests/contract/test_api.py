"""What holds for every route: keys and scopes, problems, limits, hostile requests."""

import json

import pytest
from fastapi.routing import APIRoute
from service import LOCAL, assert_problem

from app.api import ROUTERS
from app.services import keys

INVENTORY = {"pools": [{"name": "a", "quota_gpus": 1}]}

MATRIX = [
    ("GET", "/v1/clusters", "read"),
    ("POST", "/v1/clusters", "admin"),
    ("GET", "/v1/clusters/c", "read"),
    ("PATCH", "/v1/clusters/c", "admin"),
    ("GET", "/v1/clusters/c/inventory", "read"),
    ("PUT", "/v1/clusters/c/inventory", "admin"),
    ("POST", "/v1/clusters/c/history", "plan"),
    ("GET", "/v1/clusters/c/history", "read"),
    ("GET", "/v1/clusters/c/history/x", "read"),
    ("POST", "/v1/clusters/c/trainings", "plan"),
    ("POST", "/v1/clusters/c/backtests", "plan"),
    ("GET", "/v1/runs/x/events", "read"),
    ("POST", "/v1/clusters/c/webhooks", "admin"),
    ("GET", "/v1/clusters/c/webhooks", "admin"),
    ("GET", "/v1/clusters/c/webhooks/x", "admin"),
    ("DELETE", "/v1/clusters/c/webhooks/x", "admin"),
    ("POST", "/v1/clusters/c/webhooks/x/rotate", "admin"),
    ("GET", "/v1/clusters/c/webhooks/x/deliveries", "admin"),
    ("POST", "/v1/clusters/c/webhooks/x/deliveries/y/redeliver", "admin"),
    ("GET", "/v1/keys", "admin"),
    ("POST", "/v1/keys", "admin"),
    ("DELETE", "/v1/keys/x", "admin"),
]
BODIES = {
    ("POST", "/v1/clusters"): {"name": "d", "enforced_by": "scheduler"},
    ("PATCH", "/v1/clusters/c"): {},
    ("PUT", "/v1/clusters/c/inventory"): INVENTORY,
    ("POST", "/v1/clusters/c/trainings"): {},
    ("POST", "/v1/clusters/c/backtests"): {"policies": [{"policy": "fcfs"}]},
    ("POST", "/v1/clusters/c/webhooks"): {"url": "https://hooks.example.org/"},
    ("POST", "/v1/keys"): {"name": "k", "scopes": ["read"]},
}


def ask(service, method, path, headers=None):
    return service.client.request(method, path, json=BODIES.get((method, path)), headers=headers)


@pytest.mark.parametrize(("method", "path", "scope"), MATRIX)
def test_a_scope_opens_its_routes_and_no_others(open_service, method, path, scope):
    service = open_service(auth="keys")
    assert_problem(ask(service, method, path), 401, "not-authenticated")
    others = [one for one in ("read", "plan", "apply") if one != scope]
    refused = ask(service, method, path, service.key(*others))
    assert scope in assert_problem(refused, 403, "not-allowed")["detail"]
    for enough in (scope, "admin"):
        assert ask(service, method, path, service.key(enough)).status_code not in (401, 403)


def test_every_route_but_health_is_closed_without_a_key(open_service):
    service = open_service(auth="keys")
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) > 10
    for route in routes:
        path = route.path
        for name in ("cluster", "import_id", "key_id", "run_id", "executor_id", "node", "job_id"):
            path = path.replace(f"{{{name}}}", "x")
        for method in route.methods:
            status = service.client.request(method, path).status_code
            if path in ("/healthz", "/readyz"):
                assert status == 200
            else:
                # A body may be checked first; nothing but a refusal comes out in any case.
                assert status in (401, 422), (method, path, status)


def test_what_is_no_key_is_refused_and_a_peer_that_goes_on_has_to_wait(open_service):
    service = open_service(auth="keys", max_failed_logins=5)
    good = service.key("read")
    key_id = good["Authorization"].split("_")[1]
    wrong = [
        "Bearer x",
        "Bearer ak_",
        f"Bearer ak_{key_id}_{'0' * 64}",
        f"Bearer ak_{'0' * 16}_{'0' * 64}",
        good["Authorization"][:-1],
    ]
    for text in wrong:
        answer = service.client.get("/v1/clusters", headers={"Authorization": text})
        assert_problem(answer, 401, "not-authenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    blocked = service.client.get("/v1/clusters", headers={"Authorization": "Bearer x"})
    assert_problem(blocked, 429, "too-many-requests")
    assert blocked.headers["retry-after"] == "60"
    assert service.client.get("/v1/clusters", headers=good).status_code == 200
    service.clock.wait(60)
    again = service.client.get("/v1/clusters", headers={"Authorization": "Bearer x"})
    assert_problem(again, 401, "not-authenticated")


def test_a_key_is_shown_once_kept_as_a_hash_and_can_be_revoked(open_service):
    service = open_service(auth="keys")
    admin = service.key("admin")
    body = {"name": "slurm", "scopes": ["read", "read", "apply"]}
    made = service.client.post("/v1/keys", json=body, headers=admin)
    assert made.status_code == 201
    text = made.json()["key"]
    assert made.json()["scopes"] == ["apply", "read"]
    listed = service.client.get("/v1/keys", headers=admin)
    secret = text.split("_")[2]
    assert secret not in listed.text
    with service.database.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM api_keys").all()
    assert secret not in str(rows)
    (mine,) = [one for one in listed.json()["items"] if one["name"] == "slurm"]
    headers = {"Authorization": f"Bearer {text}"}
    assert service.client.get("/v1/clusters", headers=headers).status_code == 200
    for _ in range(2):
        assert service.client.delete(f"/v1/keys/{mine['key_id']}", headers=admin).status_code == 204
    assert_problem(service.client.get("/v1/clusters", headers=headers), 401, "not-authenticated")
    assert_problem(service.client.delete("/v1/keys/x", headers=admin), 404, "unknown-resource")


@pytest.mark.parametrize(
    ("name", "scopes"), [("", ["read"]), ("\n", ["read"]), ("x" * 64, ["read"]), ("k", []), ("k", ["root"])]
)
def test_keys_need_a_name_and_known_scopes(service, name, scopes):
    answer = service.client.post("/v1/keys", json={"name": name, "scopes": scopes})
    assert answer.status_code == 422
    assert keys.listed(service.database.engine) == []


def test_without_keys_only_this_machine_is_served(open_service):
    here = open_service()
    assert here.client.get("/v1/clusters").status_code == 200
    assert here.client.get("/v1/clusters", headers={"Host": "localhost:8000"}).status_code == 200
    assert here.client.get("/v1/clusters", headers={"Origin": "http://localhost:3000"}).status_code == 200
    # A page from elsewhere in this machine's browser, directly or by a name that leads here.
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert_problem(here.client.get("/v1/clusters", headers=headers), 403, "not-allowed")
    elsewhere = open_service(client=("192.0.2.7", LOCAL[1]))
    assert_problem(elsewhere.client.get("/v1/clusters"), 403, "not-allowed")


def test_health_needs_no_key_and_says_whether_the_tables_are_there(open_service):
    service = open_service(auth="keys")
    assert service.client.get("/healthz").json()["status"] == "ok"
    ready = service.client.get("/readyz")
    assert ready.json()["database"] == ("sqlite" if service.database.is_sqlite else "postgresql")
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    assert "antecast migrate" in assert_problem(service.client.get("/readyz"), 503, "not-ready")["detail"]


def test_errors_of_http_are_problems_too(service):
    assert_problem(service.client.get("/nowhere"), 404, "not-found")
    wrong = service.client.delete("/v1/clusters")
    assert_problem(wrong, 405, "method-not-allowed")
    assert wrong.headers["allow"]


def test_every_answer_carries_the_headers(service):
    for path in ("/healthz", "/nowhere", "/v1/clusters"):
        headers = service.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_what_we_did_not_expect_says_nothing_about_the_inside(service):
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE api_keys")
    body = service.client.get("/v1/keys")
    assert body.headers["content-type"] == "application/problem+json"
    assert body.status_code in (500, 503)
    assert "api_keys" not in body.text


def post(service, content, **headers):
    sent = {"Content-Type": "application/json"} | headers
    return service.client.post("/v1/clusters", content=content, headers=sent)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"nonsense",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b'{"name": ' + b"9" * 10_000 + b"}",
        b"[]",
        b"null",
        b"1",
        b'"text"',
        b"",
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "replan_every_s": NaN}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "replan_every_s": 1e999}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "seed": 1e3}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "seed": 4294967296}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "unknown": 1}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "f\\u0000"}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "settings": {"a\\u0000": "1"}}',
        b'{"name": "c", "enforced_by": "scheduler", "policy": "fcfs", "settings": {"a": "\\ud800"}}',
    ],
)
def test_hostile_bodies_are_refused_with_a_problem(service, content):
    answer = post(service, content)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 20_000
    assert service.client.get("/v1/clusters").json()["items"] == []


def test_nul_characters_are_refused_wherever_they_stand(service):
    service.cluster()
    body = {"pools": [{"name": "a\0b", "quota_gpus": 1}]}
    put = service.client.put("/v1/clusters/c/inventory", json=body, headers={"If-Match": "*"})
    assert "NUL" in assert_problem(put, 422, "not-valid")["detail"]
    for path in ("/v1/clusters/c%00", "/v1/clusters?after=%00", "/v1/keys/%00"):
        assert_problem(service.client.get(path), 422, "not-valid")


def test_bodies_that_are_too_large_are_refused_told_or_not(open_service):
    service = open_service(max_body_kib=1)
    text = json.dumps({"name": "c" * 2000})
    assert_problem(post(service, text), 413, "too-large")
    assert_problem(
        post(service, (text[at : at + 100].encode() for at in range(0, 2000, 100))), 413, "too-large"
    )
    assert_problem(post(service, b"{}", **{"Content-Length": "9" * 30}), 413, "too-large")


def test_a_body_with_a_thousand_mistakes_lists_a_hundred(service):
    service.cluster()
    body = {"pools": [{"name": "", "quota_gpus": -1}] * 1000}
    put = service.client.put("/v1/clusters/c/inventory", json=body, headers={"If-Match": "*"})
    assert len(assert_problem(put, 422, "not-valid")["errors"]) == 100


def test_a_body_of_another_kind_is_refused(service):
    body = json.dumps({"name": "c", "enforced_by": "scheduler", "policy": "fcfs"})
    answer = service.client.post("/v1/clusters", content=body, headers={"Content-Type": "text/plain"})
    assert_problem(answer, 422, "not-valid")


def test_openapi_describes_problems_and_keys(service):
    described = service.client.get("/openapi.json").json()
    operation = described["paths"]["/v1/clusters"]["post"]
    problem = operation["responses"]["422"]["content"]["application/problem+json"]["schema"]
    assert problem == {"$ref": "#/components/schemas/Problem"}
    assert "Problem" in described["components"]["schemas"]
    assert operation["security"] == [{"HTTPBearer": []}]
    assert "HTTPValidationError" not in described["components"]["schemas"]
