"""What operators rely on: request ids, keys that end and rotate, limits, metrics, readiness, the doctor."""

import re
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service import NOON, assert_problem
from sqlalchemy.exc import OperationalError

from app.metrics.catalogue import CATALOGUE, OPTIONAL
from app.runs.settings import WorkerSettings
from app.services import doctor, keys
from app.services.doctor import Level
from app.store import runs as store
from app.store.engine import transaction
from app.store.tables import DecisionRow, ExecutorRow

LONG = "/v1/clusters/c/replans"


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def test_an_answer_bears_the_requests_id_problems_too(service):
    kept = service.client.get("/nowhere", headers={"X-Request-Id": "from-the-proxy_1.2"})
    assert kept.headers["x-request-id"] == "from-the-proxy_1.2"
    assert assert_problem(kept, 404, "not-found")["request_id"] == "from-the-proxy_1.2"
    for wrong in ("", "a b", "x" * 65, "a\u00e9"):
        made = service.client.get("/healthz", headers={"X-Request-Id": wrong.encode("latin-1")})
        assert re.fullmatch(r"[0-9a-f]{32}", made.headers["x-request-id"])


def test_what_nobody_foresaw_is_a_problem_with_an_id_and_all_headers(service, monkeypatch):
    def broken(*_args, **_more):
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr(keys, "listed", broken)
    answer = service.client.get("/v1/keys", headers={"X-Request-Id": "r1"})
    assert assert_problem(answer, 500, "internal")["request_id"] == "r1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret" not in answer.text


def test_a_key_ends_by_itself_and_rotation_leaves_the_old_one_a_while(open_service):
    service = open_service(auth="keys")
    admin = service.key("admin")

    def status(key):
        return service.client.get("/v1/clusters", headers=bearer(key)).status_code

    body = {"name": "slurm", "scopes": ["read"], "lives_s": 100}
    old = service.client.post("/v1/keys", json=body, headers=admin).json()["key"]
    key_id = old.split("_")[1]
    rotated = service.client.post(
        f"/v1/keys/{key_id}/rotate", json={"overlap_s": 60, "lives_s": 300}, headers=admin
    )
    assert rotated.status_code == 201, rotated.text
    new = rotated.json()["key"]
    assert (status(old), status(new)) == (200, 200)
    again = service.client.post(f"/v1/keys/{key_id}/rotate", json={}, headers=admin)
    assert "rotated already" in assert_problem(again, 409, "conflict")["detail"]
    service.clock.wait(60)
    assert (status(old), status(new)) == (401, 200)
    service.clock.wait(240)
    assert (status(old), status(new)) == (401, 401)
    expired = service.client.post(f"/v1/keys/{rotated.json()['key_id']}/rotate", json={}, headers=admin)
    assert_problem(expired, 409, "conflict")
    assert_problem(service.client.post("/v1/keys/x/rotate", json={}, headers=admin), 404, "unknown-resource")
    found = service.client.get("/v1/keys", headers=admin).json()["items"]
    assert {(one["name"], one["state"], one["replaces"]) for one in found} == {
        ("a test", "valid", None),
        ("slurm", "expired", None),
        ("slurm", "expired", key_id),
    }


def test_an_overlap_never_makes_a_key_live_longer(service):
    engine = service.database.engine
    key_id = keys.create(engine, "k", ["read"], service.clock, lives_s=10).split("_")[1]
    assert keys.rotate(engine, key_id, 1000, service.clock).old_ends_at == NOON + timedelta(seconds=10)


def test_last_use_is_written_apart_from_requests_and_never_backwards(open_service):
    service = open_service(auth="keys")
    headers = service.key("read", "admin")
    use = service.client.app.state.key_use

    def last():
        return keys.listed(service.database.engine)[0].last_used_at

    service.client.get("/v1/clusters", headers=headers)
    assert last() is None, "no request writes"
    use.write()
    assert last() == NOON
    service.clock.wait(-5)  # as if another process had been faster
    service.client.get("/v1/clusters", headers=headers)
    use.write()
    assert last() == NOON


def test_keys_are_listed_a_page_at_a_time(service):
    for number in range(5):
        keys.create(service.database.engine, f"k{number}", ["read"], service.clock)
        service.clock.wait(number % 2)
    names, after = [], ""
    while after is not None:
        page = service.client.get("/v1/keys", params={"limit": 2, "after": after}).json()
        names += [one["name"] for one in page["items"]]
        after = page["next"]
    assert sorted(names) == ["k0", "k1", "k2", "k3", "k4"]
    assert_problem(service.client.get("/v1/keys", params={"after": "nix"}), 404, "unknown-resource")


def test_a_key_that_asks_too_much_has_to_wait_for_long_work_sooner(open_service):
    service = open_service(auth="keys", rate_burst=8, rate_per_s=0.01, heavy_burst=1, heavy_rate_per_s=0.01)
    headers, other = service.key("admin"), service.key("admin")
    for method in ("post", "put"):
        body = {"pools": [{"name": "a", "quota_gpus": 1}]}
        body = {"name": "c", "enforced_by": "scheduler"} if method == "post" else body
        path = "/v1/clusters" + ("" if method == "post" else "/c/inventory")
        service.client.request(method, path, json=body, headers={**headers, "If-Match": "*"})
    assert service.client.post(LONG, json={}, headers=headers).status_code == 202
    refused = service.client.post(LONG, json={}, headers=headers)
    assert "long work" in assert_problem(refused, 429, "too-many-requests")["detail"]
    assert refused.headers["retry-after"] == "100"
    statuses = [service.client.get("/v1/clusters", headers=headers).status_code for _ in range(5)]
    assert statuses == [200] * 4 + [429]
    assert service.client.get("/healthz", headers=headers).status_code == 200
    figures = samples(service.client.get("/metrics", headers=other).text)
    assert figures["antecast_refused_total", "reason", "rate"] == 1
    assert figures["antecast_refused_total", "reason", "heavy_rate"] == 1


def samples(text):
    """Value by name and labels."""
    return {
        (sample.name, *(pair for item in sorted(sample.labels.items()) for pair in item)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def lent(service):
    """A cluster whose pool b has lent to a: what runs, waits, and how long it took to decide."""
    service.cluster(policy="anticipatory", settings={"eps": "0.01"}, replan_every_s=300)
    service.inventory({"a": 2, "b": 3})
    events = [
        {"kind": "submitted", "job_id": name, "job": {"pool": "a", "num_gpus": gpus}}
        for name, gpus in (("own", 2), ("guest", 1), ("waits", 2))
    ]
    events += [
        {"kind": "started", "job_id": "own", "is_guest": False},
        {"kind": "started", "job_id": "guest", "is_guest": True},
    ]
    told = service.client.post("/v1/clusters/c/events", json={"events": events})
    assert told.json()["accepted"] == 5, told.text


def test_metrics_say_how_the_clusters_stand(service):
    lent(service)
    service.client.get("/v1/clusters/c")
    service.client.get("/v1/clusters/other")
    service.client.get("/wp-login.php")
    answer = service.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = samples(answer.text)
    state = {
        pool: found["antecast_gpus", "cluster", "c", "pool", "a", "use", pool] for pool in ("own", "guest")
    }
    assert state == {"own": 2, "guest": 1}
    assert found["antecast_jobs", "cluster", "c", "pool", "a", "state", "pending"] == 1
    assert found["antecast_idle_gpus", "cluster", "c"] == 2
    assert found["antecast_log_entries_total", "cluster", "c"] == 5
    assert found["antecast_eps_share", "cluster", "c"] == 0.01
    assert found["antecast_workers_alive",] == 0
    template = "/v1/clusters/{cluster}"
    seen = {
        status: found["antecast_http_requests_total", "method", "GET", "route", route, "status", status]
        for route, status in ((template, "200"), (template, "404"), ("unknown", "404"))
    }
    assert seen == {"200": 1, "404": 1}
    assert "wp-login" not in answer.text, "labels are templates of ours, whatever is asked for"


def test_metrics_are_those_of_the_catalogue_and_all_of_them(service):
    lent(service)
    engine = service.database.engine
    service.client.post(LONG, json={})
    with transaction(engine) as session:
        store.enrol_worker(session, "w", service.clock.now(), 1e9)
        run = store.queued(session)[0]
        session.add(
            ExecutorRow(
                executor_id="e", cluster="c", node="n", secret_sha256="", enrolled_at=service.clock.now()
            )
        )
        run.status, run.started_at, run.finished_at = "succeeded", service.clock.now(), service.clock.now()
        session.add(
            DecisionRow(
                cluster="c",
                seq=6,
                epoch=1,
                at_s=0.0,
                idle_gpus=2,
                took_ms=2.0,
                decided_at=service.clock.now(),
                answer={"holds": [{"pool": "a", "num_gpus": 1}]},
            )
        )
    service.client.post(LONG, json={})
    gatherer = service.client.app.state.gatherer
    gatherer.refresh(engine)
    gatherer.close()  # what is slow has been read then
    names = {family.name for family in text_string_to_metric_families(service.client.get("/metrics").text)}
    wanted = {name.removesuffix("_total") for name in CATALOGUE}
    plans = {"antecast_plan_age_seconds", "antecast_plans"}  # no plan has been made
    assert names <= wanted
    assert wanted - names <= plans | OPTIONAL


def test_metrics_are_for_readers(open_service):
    service = open_service(auth="keys")
    assert_problem(service.client.get("/metrics"), 401, "not-authenticated")
    assert_problem(service.client.get("/metrics", headers=service.key("apply")), 403, "not-allowed")
    assert service.client.get("/metrics", headers=service.key("read")).status_code == 200


def test_readiness_says_what_is_missing(service):
    degraded = service.client.get("/readyz").json()
    assert (degraded["status"], degraded["missing"], degraded["num_workers"]) == ("degraded", ["workers"], 0)
    with transaction(service.database.engine) as session:
        store.enrol_worker(session, "w", doctor.SystemClock().now(), 60)
    ready = service.client.get("/readyz").json()
    assert (ready["status"], ready["missing"], ready["num_workers"]) == ("ready", [], 1)
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    answer = service.client.get("/readyz")
    assert "missing: migrations" in assert_problem(answer, 503, "not-ready")["detail"]
    assert answer.headers["retry-after"] == "5"


def found_by(settings):
    """The worst finding of each check."""
    return {
        one.name: one
        for one in sorted(doctor.examine(settings), key=lambda one: list(Level).index(one.level))
    }


@pytest.fixture
def settings(database, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    return WorkerSettings(database_url=database.url, port=0, models_dir=tmp_path / "models")


def test_the_doctor_finds_a_sound_service_sound(settings, database):
    now = doctor.SystemClock().now()
    with transaction(database.engine) as session:
        store.enrol_worker(session, "w", now, 60)
    found = found_by(settings)
    assert {one.level for one in found.values()} == {Level.OK}, found
    wanted = {
        "database",
        "migrations",
        "solver",
        "forecasts",
        "workers",
        "queue",
        "executors",
        "port",
        "folders",
    }
    assert wanted <= set(found)
    assert ("clock of the database" in found) == (not database.is_sqlite)


def test_the_doctor_says_what_to_do(service, settings, tmp_path):
    service.cluster()
    service.inventory({"a": 1}, [{"name": "n", "num_gpus": 1}])
    service.client.post(LONG, json={})
    with transaction(service.database.engine) as session:
        session.add(ExecutorRow(executor_id="e", cluster="c", node="n", secret_sha256="", enrolled_at=NOON))
    key = tmp_path / ".config" / "antecast" / "key"
    key.parent.mkdir(parents=True)
    key.write_text("ak_")
    key.chmod(0o644)
    found = found_by(settings)
    levels = {name: found[name].level for name in ("workers", "queue", "executors", "file modes")}
    assert levels == {"workers": "fail", "queue": "warn", "executors": "warn", "file modes": "fail"}
    assert "antecast worker" in found["workers"].hint
    assert "c/n" in found["executors"].text
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    assert "antecast migrate" in found_by(settings)["migrations"].hint


def test_the_doctor_tells_of_a_database_that_is_away(antecast, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    result = antecast("doctor", "--json", "--database-url", "postgresql://nobody@127.0.0.1:1/nix")
    assert result.code == 1
    assert "the database does not answer" in result.out
    assert "Traceback" not in result.err


def test_a_database_that_is_away_is_503_with_a_time_to_wait(service, monkeypatch):
    def away(*_args, **_more):
        raise OperationalError("SELECT", {}, Exception("gone"))

    monkeypatch.setattr(keys, "listed", away)
    answer = service.client.get("/v1/keys")
    assert_problem(answer, 503, "database-away")
    assert answer.headers["retry-after"] == "5"
    figures = samples(service.client.get("/metrics").text)
    assert figures["antecast_database_errors_total", "kind", "away"] == 1
