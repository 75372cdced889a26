"""Observed days: asked for once after each day, replayed, kept, and sent."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from databases import Database
from service import Opener, Service, assert_problem

from app.children.observation import look_back, read_day
from app.runs.client import RunClient
from app.services import observations
from app.services.facts import Fact, FactKind
from app.services.observe import record
from app.settings import ServiceSettings
from app.store.engine import lock_cluster, transaction

HOUR_S = 3600.0
DAY = "2026-01-07"
URL = "/v1/clusters/c/observations"


@pytest.fixture
def service(open_service: Opener) -> Service:
    """A cluster that is only looked on, made on a Tuesday; the clock's Wednesday is observed."""
    service = open_service()
    service.clock.at = datetime(2026, 1, 6, 12, tzinfo=UTC)
    service.cluster(mode="observe", policy="reclaim", clock_origin="2026-01-06T00:00:00Z")
    service.inventory({"a": 1, "b": 1})
    return service


def runs_of(database: Database, service: Service) -> RunClient:
    return RunClient(ServiceSettings(database_url=database.url), engine=database.engine, clock=service.clock)


def tell(service: Service, *facts: tuple[FactKind, float, str, dict[str, Any]]) -> None:
    """Facts by the hour of the Wednesday."""
    service.clock.at = datetime(2026, 1, 9, tzinfo=UTC)
    with transaction(service.database.engine) as session:
        row = lock_cluster(session, "c")
        made = [Fact(kind, (24.0 + hour) * HOUR_S, job_id, data) for kind, hour, job_id, data in facts]
        assert record(session, row, made, source="test", clock=service.clock).accepted == len(facts)


def submitted(pool: str) -> dict[str, Any]:
    return {"pool": pool, "num_gpus": 1, "is_requeueable": True}


def a_day(service: Service) -> None:
    """Pool a has two jobs at once and nobody lends it b's GPU; b's own job comes at 3; one still runs."""
    tell(
        service,
        (FactKind.SUBMITTED, -1.0, "old", submitted("b")),
        (FactKind.STARTED, -1.0, "old", {"is_guest": False}),
        (FactKind.ENDED, 0.5, "old", {"state": "completed"}),
        (FactKind.SUBMITTED, 1.0, "first", submitted("a")),
        (FactKind.STARTED, 1.0, "first", {"is_guest": False}),
        (FactKind.SUBMITTED, 1.0, "second", submitted("a")),
        (FactKind.SUBMITTED, 3.0, "of-b", submitted("b")),
        (FactKind.STARTED, 3.0, "of-b", {"is_guest": False}),
        (FactKind.ENDED, 5.0, "first", {"state": "completed"}),
        (FactKind.STARTED, 5.0, "second", {"is_guest": False}),
        (FactKind.ENDED, 6.0, "second", {"state": "completed"}),
        (FactKind.SUBMITTED, 20.0, "never", submitted("a")),
        (FactKind.SUBMITTED, 25.0, "next-day", submitted("a")),
    )


def look(service: Service) -> dict[str, Any]:
    """Carry the run out as a worker and its child do."""
    engine, clock = service.database.engine, service.clock
    request = observations.load(engine, "c", {"day": DAY}, clock)
    answer = look_back(read_day(engine, request), request)
    return observations.publish(engine, "c", request, answer, "run-1", clock)


def test_a_day_is_set_beside_what_happened_and_beside_no_sharing(service: Service):
    a_day(service)
    assert look(service) == {"day": DAY, "jobs": 3, "slowed": 0}
    found = service.client.get(f"{URL}/{DAY}")
    assert found.status_code == 200, found.text
    report = found.json()["report"]
    # `second` would have had b's GPU from 1 to 2 instead of waiting for 4 hours
    assert report["earlier_than_walls"] == report["earlier_than_happened"] == {"jobs": 1, "hours": 4.0}
    assert report["would_have"]["lent_gpu_hours"] == pytest.approx(1.0)
    assert report["would_have"]["mean_queue_delay_s"] == 0.0
    assert report["walls"]["mean_queue_delay_s"] == pytest.approx(4.0 * HOUR_S / 3.0)
    assert report["happened"]["jobs"] == 3
    assert report["happened"]["mean_queue_delay_s"] == pytest.approx(4.0 * HOUR_S / 3.0)
    assert (report["still_running"], report["slowed"], report["slowed_jobs"]) == (1, 0, [])
    assert report["left_out"] == {"wider_than_quota": 0, "not_started": 1}
    assert {one["pool"]: one["earlier"]["jobs"] for one in report["pools"]} == {"a": 1, "b": 0}
    assert look(service)["jobs"] == 3, "again is the same day"
    listed = service.client.get(URL, params={"limit": 1}).json()
    assert ([one["day"] for one in listed["items"]], listed["next_before"]) == ([DAY], DAY)
    assert service.client.get(URL, params={"before": DAY}).json() == {"items": [], "next_before": None}


def test_a_day_that_sharing_would_have_slowed_says_whom_and_by_how_much(service: Service):
    """The guest may not be sent back, and b's job comes while it runs."""
    service.client.patch(
        "/v1/clusters/c",
        json={"policy": "maxmin"},
        headers={"If-Match": "*"},
    )
    stays = {"pool": "a", "num_gpus": 1}
    tell(
        service,
        (FactKind.SUBMITTED, 1.0, "first", stays),
        (FactKind.STARTED, 1.0, "first", {"is_guest": False}),
        (FactKind.SUBMITTED, 1.0, "second", stays),
        (FactKind.SUBMITTED, 3.0, "of-b", submitted("b")),
        (FactKind.STARTED, 3.0, "of-b", {"is_guest": False}),
        (FactKind.ENDED, 4.0, "of-b", {"state": "completed"}),
        (FactKind.ENDED, 5.0, "first", {"state": "completed"}),
        (FactKind.STARTED, 5.0, "second", {"is_guest": False}),
        (FactKind.ENDED, 9.0, "second", {"state": "completed"}),
    )
    look(service)
    report = service.client.get(f"{URL}/{DAY}").json()["report"]
    assert report["slowed"] == 1
    (late,) = report["slowed_jobs"]
    assert (late["job_id"], late["pool"]) == ("of-b", "b")
    assert late["later_s"] == late["later_than_happened_s"] == report["slowed_most_s"] == 2.0 * HOUR_S


def test_an_empty_day_has_a_report_too(service: Service):
    service.clock.at = datetime(2026, 1, 8, 1, tzinfo=UTC)
    assert look(service) == {"day": DAY, "jobs": 0, "slowed": 0}
    assert service.client.get(f"{URL}/{DAY}").json()["report"]["walls"]["mean_jct_s"] is None


def test_each_day_is_asked_for_once_where_a_cluster_is_observed(service: Service, database: Database):
    runs, clock, engine = runs_of(database, service), service.clock, database.engine

    def asked(at: datetime) -> int:
        clock.at = at
        return observations.ask_for_due(engine, runs, clock)

    made = datetime(2026, 1, 6, 12, tzinfo=UTC)
    assert asked(made) == 0, "it was not there the day before"
    assert asked(made + timedelta(hours=12)) == 1
    assert asked(made + timedelta(hours=13)) == 0, "asked for, whatever became of it"
    assert asked(made + timedelta(days=5)) == 1, "missed days are one"
    listed = service.client.get("/v1/clusters/c/runs", params={"kind": "observe"}).json()["items"]
    assert [run["arguments"]["day"] for run in listed] == ["2026-01-10", "2026-01-06"]
    service.client.patch("/v1/clusters/c", json={"mode": "enforce"}, headers={"If-Match": "*"})
    assert asked(made + timedelta(days=9)) == 0


def test_a_day_can_be_asked_for_once_it_is_over(service: Service):
    service.clock.at = datetime(2026, 1, 8, 1, tzinfo=UTC)
    asked = service.client.post(URL, json={"day": DAY})
    assert asked.status_code == 202
    assert asked.json()["arguments"] == {"day": DAY}
    assert asked.headers["Location"] == f"/v1/runs/{asked.json()['run_id']}"
    assert service.client.post(URL, json={}).json()["run_id"] == asked.json()["run_id"], "that is the newest"
    refused = assert_problem(service.client.post(URL, json={"day": "2026-01-08"}), 409, "conflict")
    assert "not over yet" in refused["detail"]
    assert_problem(service.client.get(f"{URL}/2026-01-01"), 404, "unknown-resource")
    assert observations.last_day(service.clock) == date(2026, 1, 7)
