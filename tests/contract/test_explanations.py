"""Reasons of small live clusters one by one, for holds and send-backs too; and the same over HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from service import Service, assert_problem
from walks import CLUSTER, Scheduled
from worlds import checked_worlds

from app.children.explain import Explanations
from app.services import clusters
from app.services.facts import FactKind
from app.store import plans
from app.store.engine import reading

Json = dict[str, Any]
ALL = {"requeueable": "1"}
LENDS = {"eps": "1", "finish": "1", "share": "1", "lives": "learned"}


class Explained:
    """A cluster of pools a: 2, b: 2, c: 1 and 6 GPUs, and what is said of its latest decision."""

    def __init__(self, world: Scheduled) -> None:
        self.world = world
        self.explanations = Explanations(world.engine)

    def submit(self, *pools: str, num_gpus: int = 1, **more: Any) -> list[str]:
        facts = [self.world.submission(p, num_gpus, may_be_sent_back=True, shares=False) for p in pools]
        for fact in facts:
            assert isinstance(fact.data, dict)
            fact.data.update(more)
            self.world.untold.append(fact)
        return [fact.job_id for fact in facts]

    def decide(self, *, told: bool = True) -> Json:
        made = self.world.ask_again()
        if told:
            for job_id in made.row.answer["send_backs"]:
                self.world.note(FactKind.SENT_BACK, job_id)
            for start in made.row.answer["starts"]:
                self.world.note(FactKind.STARTED, start["job_id"], is_guest=start["is_guest"])
        return {**made.row.answer, "seq": made.row.seq, "waits": made.waits}

    def ask(self, asked: str, **more: Any) -> Json:
        with reading(self.world.engine) as session:
            row = plans.latest_decision(session, CLUSTER)
        assert row is not None
        request = {
            "cluster": CLUSTER,
            "epoch": row.epoch,
            "seq": row.seq,
            "done": row.answer,
            "limit_s": 30.0,
        }
        return self.explanations.answer({**request, "asked": asked, **more})

    def why(self, job_id: str) -> Json:
        return self.ask("job", job_id=job_id)


@pytest.fixture
def cluster(sqlite_template: Path, tmp_path: Path) -> Iterator[Callable[..., Explained]]:
    """Makes clusters; what is asked must leave the decisions what they are."""
    with checked_worlds(sqlite_template, tmp_path) as make:
        yield lambda policy, settings=None: Explained(make(Scheduled, policy, settings))


def test_its_own_lane_has_no_room_and_limits_say_until_when(cluster):
    here = cluster("fcfs")
    first, second = here.submit("a", "a", limit_s=100.0)
    wide, last = here.submit("a", num_gpus=2, limit_s=50.0)[0], here.submit("a")[0]
    decided = here.decide()
    assert {start["job_id"] for start in decided["starts"]} == {first, second}
    now_s = here.world.now_s
    assert decided["waits"] == {
        "total": 2,
        "jobs": [
            {"job_id": wide, "why": "waits-in-own-lane", "until_s": now_s + 100.0},
            {"job_id": last, "why": "waits-in-own-lane", "until_s": now_s + 150.0},
        ],
    }
    said = here.why(last)
    assert (said["kind"], said["why"]) == ("waits", "waits-in-own-lane")
    assert said["evidence"] == {"quota_gpus": 2, "own_gpus": 2, "before_gpus": 2, "width_gpus": 1}
    assert said["ahead"]["jobs"] == [{"job_id": wide, "num_gpus": 2, "standing": "waiting"}]
    assert (said["ahead"]["own_gpus"], said["ahead"]["gpus"]) == (2, 2)
    assert [change["lever"] for change in said["changes"]] == ["lane-freed"]
    assert said["latest_s"] >= said["earliest_s"] >= now_s
    assert here.why(first)["kind"] == "starts"
    assert here.why("nobody")["kind"] == "unknown"


def test_guests_say_so_and_who_is_sent_back_says_for_whom(cluster):
    here = cluster("reclaim", ALL)
    here.submit("a", "a")
    guest = here.submit("a")[0]
    here.submit("a", "a", "a")  # all 6 GPUs are in use then: 2 by own jobs, 4 by guests
    here.decide()
    here.decide()
    said = here.why(guest)
    assert said["kind"] == "guest"
    assert said["evidence"]["missing_gpus"] == 1
    assert said["evidence"]["can_be_sent_back"] == 1.0
    owner = here.submit("b", num_gpus=2)[0]
    decided = here.decide(told=False)
    assert len(decided["send_backs"]) == 2
    whole = here.ask("decision")
    assert (whole["idle_gpus"], whole["idle_after_gpus"], whole["holds"]) == (0, 0, [])
    for one in whole["send_backs"]:
        assert one["job_id"] in decided["send_backs"]
        assert one["jobs"] == [owner]
        assert one["evidence"]["owed_gpus"] == one["evidence"]["missing_gpus"] == 2
        assert one["evidence"]["freed_gpus"] == 2
        assert one["evidence"]["guests_that_may_go"] == 4
    stopped = decided["send_backs"][0]
    assert here.why(stopped)["why"] == "no-idle-gpu"
    listed = {one["job_id"]: one["why"] for one in decided["waits"]["jobs"]}
    assert decided["waits"]["total"] == len(listed) == 2
    assert listed[stopped] == "no-idle-gpu"


def test_gpus_are_held_for_a_due_job_that_does_not_fit_yet(cluster):
    here = cluster("anticipatory", LENDS | {"requeueable": "0"})
    guests = here.submit("a", "a", "a", "a", "a")
    here.decide()
    due = here.submit("b", num_gpus=2)[0]
    (behind,) = here.submit("a")
    decided = here.decide(told=False)
    assert decided["holds"] == [{"pool": "b", "num_gpus": 2, "until_s": None}]
    (hold,) = here.ask("decision")["holds"]
    assert hold["jobs"] == [due]
    assert (hold["evidence"]["due_gpus"], hold["evidence"]["idle_gpus"]) == (2, 1)
    assert here.why(due)["why"] == "wider-than-idle"
    assert here.why(behind)["why"] == "behind-due-job"
    assert here.why(guests[-1])["kind"] == "guest"


def test_no_promise_lending_off_and_not_requeueable(cluster):
    here = cluster("reclaim")
    wide = here.submit("a", "a", num_gpus=2)[1]
    here.decide(told=False)
    here.world.put({"a": 1, "b": 2, "c": 1})
    here.world.was_cut = True
    here.submit("c")
    also = here.world.submission("c", 1, may_be_sent_back=False, shares=False)
    here.world.untold.append(also)
    decided = here.decide()
    listed = {one["job_id"]: one["why"] for one in decided["waits"]["jobs"]}
    assert here.why(wide)["why"] == listed[wide] == "no-promise"
    assert here.why(also.job_id)["why"] == listed[also.job_id] == "not-requeueable"
    assert [change["lever"] for change in here.why(also.job_id)["changes"]] == ["requeueable"]
    clusters.change(here.world.engine, CLUSTER, {"is_lending": False}, None, here.world.clock)
    (late,) = here.submit("c")
    decided = here.decide()
    said = here.why(late)
    assert said["why"] == "lending-off"
    assert said["evidence"]["off_for"] == "all pools"
    assert {one["job_id"]: one["why"] for one in decided["waits"]["jobs"]}[late] == "lending-off"


def test_the_list_has_every_waiting_job_in_the_words_of_the_command(cluster):
    here = cluster("fcfs")
    here.submit("a", "a", "a", "b", "b", "b")
    here.decide()
    said = here.ask("waiting")
    assert (said["waiting"], said["running"], said["idle_gpus"]) == (2, 4, 2)
    assert said["by_reason"] == {"waits-in-own-lane": 2}
    assert {"job_id", "why", "text", "evidence", "changes", "submit_s", "latest_s"} <= set(said["jobs"][0])


def test_over_http_a_job_is_explained_until_it_ends(service: Service):
    service.cluster(policy="fcfs")
    service.inventory({"a": 1, "b": 1})
    url = "/v1/clusters/c"
    assert_problem(service.client.get(f"{url}/jobs/x/explanation"), 404, "unknown-resource")
    submitted = [
        {"kind": "submitted", "job_id": f"j{k}", "job": {"pool": "a", "num_gpus": 1, "limit_s": 60}}
        for k in range(3)
    ]
    service.client.post(f"{url}/events", json={"events": submitted})
    assert_problem(service.client.get(f"{url}/jobs/j1/explanation"), 409, "conflict")
    asked = service.client.post(f"{url}/decisions", json={"explain": True}).json()
    assert asked["waits"]["total"] == 2
    assert [(one["job_id"], one["why"]) for one in asked["waits"]["jobs"]] == [
        ("j1", "waits-in-own-lane"),
        ("j2", "waits-in-own-lane"),
    ]
    assert service.client.post(f"{url}/decisions", json={"explain": False}).json()["waits"]["jobs"] == []
    told = service.client.post(
        f"{url}/decisions", json={"events": [{"kind": "started", "job_id": "j0"}], "explain": True}
    ).json()
    assert told["waits"]["jobs"][0]["until"] == asked["at"].replace("12:00:00", "12:01:00")
    said = service.client.get(f"{url}/jobs/j2/explanation").json()
    assert (said["kind"], said["why"], said["seq"]) == ("waits", "waits-in-own-lane", told["seq"])
    assert said["ahead"]["jobs"] == [{"job_id": "j1", "num_gpus": 1, "standing": "waiting"}]
    assert said["latest"] > said["at"]
    page = service.client.get(f"{url}/explanations", params={"limit": 1}).json()
    assert [one["job_id"] for one in page["items"]] == [page["next_after"]] == ["j1"]
    rest = service.client.get(f"{url}/explanations", params={"after": "j1"}).json()
    assert ([one["job_id"] for one in rest["items"]], rest["next_after"]) == (["j2"], None)
    whole = service.client.get(f"{url}/decisions/{told['seq']}/explanation").json()
    assert (whole["holds"], whole["send_backs"], whole["idle_gpus"]) == ([], [], 1)
    assert_problem(service.client.get(f"{url}/decisions/1/explanation"), 404, "unknown-resource")
    late = {"kind": "submitted", "job_id": "late", "job": {"pool": "b", "num_gpus": 1}}
    service.client.post(f"{url}/events", json={"events": [late, {"kind": "cancelled", "job_id": "j1"}]})
    assert service.client.get(f"{url}/jobs/late/explanation").json()["kind"] == "not-decided-yet"
    assert_problem(service.client.get(f"{url}/jobs/j1/explanation"), 409, "conflict")
