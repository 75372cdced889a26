"""The life of a plan: drafts, reviews, expiry, one beside another, holds against reality."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event
from typing import Any

import pytest
from databases import Database
from planned import AT, Planned
from service import Opener, Service, assert_problem

from app.errors import VersionClash
from app.services import clusters, epochs, plan_review, planning
from app.services.facts import Fact, FactKind
from app.store import live, plans
from app.store.engine import lock_cluster, reading, transaction

URL = "/v1/clusters/c/plans"
HOLD = {"pool": "a", "num_gpus": 2, "until_s": None}


@pytest.fixture
def planned(database: Database) -> Planned:
    return Planned(database)


@pytest.fixture
def service(open_service: Opener, planned: Planned) -> Service:
    opened = open_service()
    opened.clock.at = planned.clock.at
    return opened


def required(planned: Planned, **changes: Any) -> None:
    clusters.change(planned.engine, "c", {"approval": "required", **changes}, None, planned.clock)


def approve(service: Service, run_id: str, if_match: str | None = '"1"') -> Any:
    headers = {} if if_match is None else {"If-Match": if_match}
    return service.client.post(f"{URL}/plan-{run_id}/approve", headers=headers)


def test_a_draft_waits_for_approval_and_goes_out_with_it(planned: Planned, service: Service):
    required(planned)
    planned.submit("x", "g")
    planned.publish(run_id="r", starts=["x"], guests=["g"])
    assert planned.placements() == {}
    draft = service.client.get(f"{URL}/latest")
    assert (draft.json()["status"], draft.headers["ETag"]) == ("draft", '"1"')
    assert_problem(approve(service, "r", None), 428, "version-missing")
    assert_problem(approve(service, "r", '"7"'), 412, "version-clash")
    made = approve(service, "r").json()
    assert (made["status"], made["version"], made["reviewed_by"]) == ("applied", 2, "local")
    assert made["applied_at"] is not None
    assert set(planned.placements()) == {"x", "g"}
    assert_problem(approve(service, "r"), 412, "version-clash")
    assert_problem(approve(service, "r", "*"), 409, "conflict")
    with reading(planned.engine) as session:
        decision = plans.latest_decision(session, "c")
    assert decision is not None
    assert [one["job_id"] for one in decision.answer["starts"]] == ["x", "g"]
    planned.publish(run_id="next")
    assert service.client.get(f"{URL}/plan-r").json()["status"] == "applied", "until another goes out"
    approve(service, "next")
    assert service.client.get(f"{URL}/plan-r").json()["status"] == "superseded"


def test_of_two_who_approve_the_same_draft_one_succeeds(planned: Planned):
    required(planned)
    planned.submit("x")
    planned.publish(run_id="r", starts=["x"])
    together = Barrier(2)

    def review(name: str) -> str:
        together.wait()
        try:
            plan_review.approve(planned.engine, "c", "plan-r", {1}, reviewer=name, clock=planned.clock)
        except VersionClash:
            return "clash"
        return name

    with ThreadPoolExecutor(2) as threads:
        said = sorted(threads.map(review, ("ann", "bob")))
    assert said.count("clash") == 1
    with reading(planned.engine) as session:
        plan = plans.by_id(session, "c", "plan-r")
        started = [entry for entry in live.entries(session, "c", 0, 99) if entry.kind == FactKind.STARTED]
    assert plan is not None
    assert plan.reviewed_by in said
    assert len(started) == 1


def test_a_draft_that_is_rejected_or_superseded_never_goes_out(planned: Planned, service: Service):
    required(planned)
    planned.submit("x")
    for run_id in ("one", "two"):
        planned.publish(run_id=run_id, starts=["x"])
    assert service.client.get(f"{URL}/plan-one").json()["status"] == "superseded"
    assert_problem(approve(service, "one", "*"), 409, "conflict")
    rejected = service.client.post(f"{URL}/plan-two/reject", headers={"If-Match": '"1"'}).json()
    assert (rejected["status"], rejected["reviewed_by"]) == ("rejected", "local")
    assert_problem(approve(service, "two", '"2"'), 409, "conflict")
    assert_problem(approve(service, "none"), 404, "unknown-resource")
    assert_problem(
        service.client.post(f"{URL}/latest/approve", headers={"If-Match": "*"}), 404, "unknown-resource"
    )
    assert planned.placements() == {}


def test_an_expired_plan_is_never_pushed(planned: Planned, service: Service):
    required(planned, plan_valid_s=60.0)
    planned.submit("x")
    planned.publish(run_id="r", starts=["x"])
    for clock in (planned.clock, service.clock):
        clock.at += timedelta(minutes=2)
    assert service.client.get(f"{URL}/plan-r").json()["status"] == "expired"
    assert_problem(approve(service, "r"), 409, "conflict")
    assert planned.placements() == {}
    clusters.change(planned.engine, "c", {"approval": "automatic"}, None, planned.clock)
    request = planned.load()
    planned.clock.advance(61.0)
    done = planned.publish(request, "late", starts=["x"])
    assert done["is_stale"], "it is made again"
    assert planned.placements() == {}
    with reading(planned.engine) as session:
        assert [plan.status for plan in plans.page(session, "c", before=None, limit=9)] == ["expired"] * 2


def test_a_plan_of_an_older_epoch_or_of_an_observed_cluster_is_never_pushed(
    planned: Planned, service: Service
):
    required(planned)
    planned.submit("x")
    planned.publish(run_id="r", starts=["x"])
    with transaction(planned.engine) as session:
        epochs.begin(session, lock_cluster(session, "c"), "settings", planned.clock)
    refused = assert_problem(approve(service, "r"), 409, "conflict")
    assert "epoch" in refused["detail"]
    assert service.client.get(f"{URL}/plan-r").json()["status"] == "superseded"
    required(planned, mode="observe")
    planned.publish(run_id="seen", starts=["x"])
    refused = assert_problem(approve(service, "seen"), 409, "conflict")
    assert "observed" in refused["detail"]
    assert planned.placements() == {}


def test_an_approval_after_the_kill_switch_lends_nothing(planned: Planned, service: Service):
    required(planned)
    planned.submit("own", "g")
    planned.publish(run_id="before", guests=["g"])
    service.client.post("/v1/clusters/c/stop-lending")
    assert_problem(approve(service, "before", "*"), 409, "conflict")
    planned.publish(run_id="after", starts=["own"], guests=["g"])
    made = approve(service, "after").json()
    assert [one["job_id"] for one in made["starts"]] == ["own"]
    assert made["dropped"] == [{"job_id": "g", "why": "lending is stopped"}]


def test_no_half_plan_is_ever_visible(planned: Planned, database: Database):
    """A reader sees all of a plan or nothing: its status, its jobs, its placements, the nodes' documents."""
    required(planned)
    planned.submit("x", "y")
    planned.submit("gang", pool="a", num_gpus=2)
    planned.publish(run_id="r", starts=["gang", "x", "y"])
    engine, is_over, seen = database.another_engine(), Event(), set()

    def look() -> None:
        while True:
            last = is_over.is_set()
            with reading(engine) as session:
                plan = plans.by_id(session, "c", "plan-r")
                seen.add(
                    (
                        plan is not None and plan.status,
                        len(live.running(session, "c")),
                        len(live.wanted_placements(session, "c")),
                    )
                )
            if last:
                return

    with ThreadPoolExecutor(1) as threads:
        reader = threads.submit(look)
        plan_review.approve(planned.engine, "c", "plan-r", {1}, reviewer="ann", clock=planned.clock)
        is_over.set()
        reader.result()
    assert seen <= {("draft", 0, 0), ("applied", 3, 3)}
    assert ("applied", 3, 3) in seen


def test_two_plans_are_set_beside_each_other(planned: Planned, service: Service):
    required(planned)
    planned.submit("x", "y", "z", "w")
    planned.publish(run_id="one", starts=["x", "y"], guests=["z"], holds=[HOLD])
    planned.tell(Fact(FactKind.CANCELLED, AT, "y"))
    planned.publish(run_id="two", starts=["x", "z", "w"], holds=[{**HOLD, "num_gpus": 1}])
    diff = service.client.get(f"{URL}/latest/diff").json()
    assert (diff["plan_id"], diff["to"]) == ("plan-two", "plan-one")
    assert [one["job_id"] for one in diff["starts"]["added"]] == ["w"]
    assert [one["job_id"] for one in diff["starts"]["done"]] == ["y"], (
        "it was cancelled: nobody changed his mind"
    )
    assert [(one["before"]["is_guest"], one["after"]["is_guest"]) for one in diff["starts"]["moved"]] == [
        (True, False)
    ]
    assert [(one["before"]["num_gpus"], one["after"]["num_gpus"]) for one in diff["holds"]["moved"]] == [
        (2, 1)
    ]
    assert diff["counts"] == {"added": 1, "gone": 0, "moved": 2, "done": 1, "same": 1}
    assert diff["churn"] == 0.75
    assert not diff["forecast_changed"]
    assert service.client.get(f"{URL}/plan-two").json()["churn"] == 0.75
    same = service.client.get(f"{URL}/plan-two/diff", params={"to": "plan-two"}).json()
    assert (same["churn"], same["counts"]["same"]) == (0.0, 4)
    assert_problem(service.client.get(f"{URL}/plan-one/diff"), 404, "unknown-resource")


def test_holds_are_checked_against_what_is_observed(planned: Planned, service: Service):
    planned.publish(run_id="r", holds=[HOLD])
    kept = service.client.get(f"{URL}/plan-r").json()["hold_checks"]
    assert [(one["state"], one["expected_gpus"], one["drift_gpus"]) for one in kept] == [("kept", 2, 0)]
    planned.submit("p", "q", "s")
    taken = [
        Fact(FactKind.STARTED, AT, name, {"is_guest": True, "gpus": [gpu]})
        for name, gpu in (("p", ["n1", 0]), ("q", ["n1", 1]), ("s", ["n2", 0]))
    ]
    planned.tell(*taken)  # somebody started guests that nobody planned
    (one,) = service.client.get(f"{URL}/plan-r").json()["hold_checks"]
    assert (one["state"], one["idle_gpus"], one["drift_gpus"]) == ("violated", 1, 1)
    planned.publish(run_id="next")
    (noted,) = service.client.get(f"{URL}/plan-r").json()["hold_checks"]
    assert noted["state"] == "violated", "kept with the plan that is over"


def test_a_hold_whose_pool_was_served_is_not_violated(planned: Planned, service: Service):
    planned.publish(run_id="r", holds=[HOLD])
    planned.submit("own", pool="a", num_gpus=2)
    planned.tell(Fact(FactKind.STARTED, AT, "own", {"is_guest": False, "gpus": [["n1", 0], ["n1", 1]]}))
    (one,) = service.client.get(f"{URL}/plan-r").json()["hold_checks"]
    assert (one["state"], one["drift_gpus"]) == ("served", 0)


def test_an_answer_to_a_scheduler_is_not_a_way_around_approval(planned: Planned, service: Service):
    required(planned)
    assert_problem(service.client.post("/v1/clusters/c/decisions", json={}), 409, "conflict")


def test_the_plan_of_a_scheduler_is_in_force_until_the_next(open_service: Opener):
    service = open_service()
    service.cluster(approval="required")
    service.inventory({"p": 2})
    engine, clock = service.database.engine, service.clock
    answer = {"starts": [], "send_backs": [], "conversions": [], "holds": [], "forecast": {}}
    for run_id in ("one", "two"):
        planning.publish(engine, "c", planning.load(engine, "c", clock), answer, run_id, clock)
        assert approve(service, run_id).json()["status"] == "approved"
    listed = service.client.get(URL, params={"limit": 1}).json()
    assert [(one["number"], one["status"], one["is_enforced"]) for one in listed["items"]] == [
        (2, "approved", False)
    ]
    rest = service.client.get(URL, params={"before": listed["next_before"]}).json()
    assert [(one["number"], one["status"]) for one in rest["items"]] == [(1, "superseded")]


def test_events_make_no_draft_stale_under_its_reviewer(planned: Planned, service: Service):
    """Where plans go out by themselves each event asks for one; where somebody looks at them, none does."""

    def asked_for(name: str) -> int:
        job = {"pool": "a", "num_gpus": 1, "spec": {"argv": ["/bin/true"]}}
        event = {"kind": "submitted", "job_id": name, "job": job}
        told = service.client.post("/v1/clusters/c/events", json={"events": [event]})
        assert told.json()["accepted"] == 1, told.text
        return len(service.client.get("/v1/clusters/c/runs", params={"kind": "replan"}).json()["items"])

    required(planned)
    assert asked_for("x") == 0
    clusters.change(planned.engine, "c", {"approval": "automatic"}, None, planned.clock)
    assert asked_for("y") == 1
