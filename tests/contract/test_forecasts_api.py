"""Forecasts of a small trained cluster over HTTP, asked of its warm process."""

from datetime import timedelta
from typing import Any

import pytest
from live import wait_until
from service import NOON, Service, assert_problem

from app.store import history
from app.store.engine import transaction
from app.store.history import JOB_COLUMNS
from app.store.tables import HistoryImportRow

Json = dict[str, Any]
DAY_S, HOUR_S = 86_400.0, 3_600.0
DAYS = 14
LEVELS = [0.1, 0.5, 0.9]
URL = "/v1/clusters/c"
QUICK, SLOW = ({"pool": "a", "num_gpus": 1, "user": user, "name": "n"} for user in ("quick", "slow"))


def past() -> list[Json]:
    """Each half hour a job of a user whose jobs take a minute, or of one whose jobs take 100."""
    rows = []
    for k in range(48 * DAYS - 8):
        user, life_s = (("quick", 60.0), ("slow", 6000.0))[k % 2]
        row = dict.fromkeys(JOB_COLUMNS) | {
            "job_id": f"p{k}",
            "pool": "a",
            "submit_s": 1800.0 * k,
            "num_gpus": 1,
        }
        rows.append(row | {"duration_s": life_s + k % 7, "user": user, "name": "n", "state": "completed"})
    return rows


@pytest.fixture
def trained(service: Service) -> Service:
    """Two weeks of history, and one job that has run for an hour."""
    origin = (NOON - timedelta(days=DAYS)).isoformat()
    service.cluster(policy="anticipatory", settings={"lives": "learned"}, clock_origin=origin)
    with transaction(service.database.engine) as session:
        history.add(session, HistoryImportRow(import_id="i", cluster="c", file_format="csv", created_at=NOON))
        history.add_jobs(session, "c", "i", past())
    service.inventory({"a": 4, "b": 4})
    begun = service.client.post(f"{URL}/epochs", json={"as_of": (NOON - timedelta(hours=1)).isoformat()})
    assert begun.status_code == 201, begun.text
    at = (NOON - timedelta(hours=1)).isoformat()
    events = [
        {"kind": "submitted", "job_id": "runs", "at": at, "job": SLOW},
        {"kind": "started", "job_id": "runs", "at": at, "is_guest": False},
    ]
    told = service.client.post(f"{URL}/events", json={"events": events})
    assert told.json()["accepted"] == 2, told.text
    return service


def lifetimes(service: Service, **body: Any) -> Json:
    answer = service.client.post(f"{URL}/forecasts/lifetime", json=body)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_lives_and_demand_are_forecast_and_held_against_a_baseline(trained: Service):
    asked = [
        {"job": QUICK},
        {"job": SLOW},
        {"job": SLOW, "elapsed_s": HOUR_S},
        {"job_id": "runs"},
        {"job_id": "x"},
    ]
    ends_by = (NOON + timedelta(hours=1)).isoformat()
    said = lifetimes(trained, jobs=asked, levels=LEVELS, within_s=[1.0], ends_by=[ends_by])
    quick, slow, old, runs, unknown = said["items"]
    assert said["at"] == NOON.isoformat().replace("+00:00", "Z")
    assert quick["total_s"][2] < 100.0
    assert slow["total_s"][0] > 4000.0
    assert quick["chances"][1] > 0.99
    assert slow["chances"][1] < 0.2
    for one in (quick, slow, old, runs):
        assert one["total_s"] == sorted(one["total_s"])
        assert one["chances"] == sorted(one["chances"])
        assert [
            total - rest for total, rest in zip(one["total_s"], one["remaining_s"], strict=True)
        ] == pytest.approx([one["elapsed_s"]] * 3, abs=0.01)
    assert (old["elapsed_s"], runs["elapsed_s"], quick["elapsed_s"]) == (HOUR_S, HOUR_S, 0.0)
    assert runs == old | {"job_id": "runs"}
    assert (unknown["total_s"], unknown["why_not"]) == (None, "no live job of that id waits or runs")
    assert said["rests_on"] == {
        "model": "learned",
        "epoch": 2,
        "trained_as_of": "2026-01-07T11:00:00Z",
        "jobs_learned_from": len(past()),
        "seed": 0,
    }

    def known() -> Any:
        found = lifetimes(trained, jobs=[{"job": QUICK}])["held_out"]
        return found if found["state"] != "pending" else None

    held_out = wait_until(known, "the forecasts are not scored")
    assert held_out["state"] == "known"
    assert held_out["score"]["beats_baseline"]  # users are told apart, pools and widths are not enough
    assert held_out["note"].startswith("beats quantiles of the last lives of the same pool")
    assert held_out["score"]["pinball"] < 0.1 < held_out["score"]["baseline_pinball"]

    query = {"horizon_s": 6 * HOUR_S, "step_s": HOUR_S, "levels": LEVELS}
    demand = trained.client.get(f"{URL}/forecasts/demand", params=query).json()
    assert [one["pool"] for one in demand["pools"]] == ["a", "b"]
    steps = demand["pools"][0]["steps"]
    assert [step["begins"] for step in steps[:2]] == ["2026-01-07T12:00:00Z", "2026-01-07T13:00:00Z"]
    assert all(step["arrivals"] == [2.0, 2.0, 2.0] for step in steps[1:])
    assert steps[-1]["peak_gpus"][1] >= 2
    assert all(step["peak_gpus"] == [0.0, 0.0, 0.0] for step in demand["pools"][1]["steps"])
    assert demand["held_out_arrivals"]["score"]["baseline"] == "the same hours of the last seven days"
    assert "no better than" in demand["held_out_arrivals"]["note"]  # it comes like clockwork
    for wrong in ({"step_s": 1000, "horizon_s": 5500}, {"pool": "z"}):
        answer = trained.client.get(f"{URL}/forecasts/demand", params=wrong)
        assert_problem(answer, 422, "invalid")


def test_what_makes_no_sense_is_refused_at_once(service: Service):
    def refused(**body: Any) -> str:
        answer = service.client.post(f"{URL}/forecasts/lifetime", json=body)
        return str(assert_problem(answer, 422, "not-valid")["detail"])

    assert "either `job_id`" in refused(jobs=[{"job": QUICK, "job_id": "runs"}])
    assert "increase" in refused(jobs=[{"job": QUICK}], levels=[0.5, 0.5])
    assert "levels" in refused(jobs=[{"job": QUICK}], levels=[1.0])
    refused(jobs=[])
    refused(jobs=[{"job": QUICK}] * 1_001)
    service.cluster()
    for path in ("forecasts/demand", "explanations"):
        assert_problem(service.client.get(f"/v1/clusters/d/{path}"), 404, "unknown-cluster")
        assert_problem(service.client.get(f"{URL}/{path}"), 409, "conflict")
