"""Plans applied once: what starts where, what is sent back, what reality no longer allows."""

import pytest
from databases import Database
from nodes import StandingClock
from planned import AT, Planned

from app.errors import Conflict
from app.services import applying, epochs, planning
from app.services.facts import Fact, FactKind
from app.store import clusters, live, plans
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, PlacementRow

SHARES = {"argv": ["/bin/true"], "is_shareable": True, "memory_mib": 60_000}


@pytest.fixture
def planned(database: Database) -> Planned:
    return Planned(database)


def test_a_plan_starts_jobs_on_gpus_and_tells_their_nodes(planned: Planned):
    planned.submit("x", "y")
    planned.submit("gang", pool="a", num_gpus=2)
    done = planned.publish(starts=["gang", "x"], guests=["y"])
    assert (done["num_starts"], done["num_dropped"]) == (3, 0)
    assert planned.placements() == {"gang": [("n1", (0, 1))], "x": [("n2", (0,))], "y": [("n2", (1,))]}
    assert {one["job_id"]: one["gpus"] for one in planned.wanted_on("n2")} == {
        "x": ["GPU-n2-0"],
        "y": ["GPU-n2-1"],
    }
    assert [(planned.job(name).state, planned.job(name).is_guest) for name in ("x", "y")] == [
        ("running", False),
        ("running", True),
    ]


def test_a_gang_wider_than_a_node_gets_a_placement_on_each(database: Database):
    planned = Planned(database)
    with transaction(planned.engine) as session:
        row = lock_cluster(session, "c")
        for pool in clusters.pools(session, "c"):
            pool.quota_gpus = 4 if pool.name == "a" else 0
        session.flush()
        epochs.begin(session, row, "quotas", planned.clock)
    planned.submit("wide", pool="a", num_gpus=4)
    planned.publish(starts=["wide"])
    assert planned.placements() == {"wide": [("n1", (0, 1)), ("n2", (0, 1))]}
    (first,), (second,) = planned.wanted_on("n1"), planned.wanted_on("n2")
    assert [(one["rank"], one["num_ranks"]) for one in (first, second)] == [(0, 2), (1, 2)]


def test_a_run_makes_one_plan_however_often_it_comes(planned: Planned):
    planned.submit("x")
    request = planned.load()
    first = planned.publish(request, "run", starts=["x"])
    assert planned.publish(request, "run", starts=["x"]) == first
    with reading(planned.engine) as session:
        assert len(plans.page(session, "c", before=None, limit=9)) == 1
        assert [entry.kind for entry in live.entries(session, "c", 0, 99)] == [
            "submitted",
            "decided",
            "started",
        ]


def test_a_newer_plan_supersedes_the_one_before(planned: Planned):
    planned.publish(run_id="one")
    planned.publish(run_id="two")
    with reading(planned.engine) as session:
        found = plans.page(session, "c", before=None, limit=9)
    assert [(plan.number, plan.status) for plan in found] == [(2, "applied"), (1, "superseded")]


def test_a_plan_of_another_epoch_is_stale_and_changes_nothing(planned: Planned):
    planned.submit("x")
    request = planned.load()
    with transaction(planned.engine) as session:
        epochs.begin(session, lock_cluster(session, "c"), "settings", planned.clock)
    assert planned.publish(request, starts=["x"]) == {"is_stale": True}
    assert planned.job("x").state == "waiting"


def test_jobs_that_arrive_meanwhile_keep_guests_from_starting_but_not_own_jobs(planned: Planned):
    planned.submit("own", "guest")
    request = planned.load()
    planned.submit("late", pool="a")
    planned.publish(request, "run", starts=["own"], guests=["guest"])
    assert planned.job("own").state == "running"
    assert planned.job("guest").state == "waiting"
    (dropped,) = planned.content("run")["dropped"]
    assert dropped["job_id"] == "guest"
    assert "arrived since" in dropped["why"]


def test_what_was_cancelled_meanwhile_does_not_start(planned: Planned):
    planned.submit("x", "y")
    request = planned.load()
    planned.tell(Fact(FactKind.CANCELLED, AT, "x"))
    planned.publish(request, "run", starts=["x", "y"])
    assert planned.job("x").state == "cancelled"
    assert planned.job("y").state == "running"
    assert [one["job_id"] for one in planned.content("run")["dropped"]] == ["x"]


def test_a_guest_is_sent_back_and_its_gpus_go_to_their_owner_in_one_plan(planned: Planned):
    planned.submit("g1", "g2", "g3", "g4")
    planned.publish(starts=["g1", "g2"], guests=["g3", "g4"])
    planned.submit("own", pool="a", num_gpus=2)
    where = planned.placements()
    planned.publish(run_id="run", send_backs=["g3", "g4"], starts=["own"])
    assert planned.placements()["own"] == [(where["g3"][0][0], (0, 1))]
    assert set(planned.placements()) == {"g1", "g2", "own"}
    assert [planned.job(name).state for name in ("g3", "g4")] == ["waiting", "waiting"]
    assert planned.content("run")["send_backs"] == ["g3", "g4"]


def test_own_jobs_are_not_sent_back_whatever_a_plan_says(planned: Planned):
    planned.submit("x")
    planned.publish(starts=["x"])
    planned.publish(run_id="run", send_backs=["x"])
    assert planned.job("x").state == "running"
    assert "x" in planned.placements()
    assert [one["job_id"] for one in planned.content("run")["dropped"]] == ["x"]


def test_a_converted_guest_stays_where_it_is_and_is_own_from_then_on(planned: Planned):
    planned.submit("g")
    planned.publish(guests=["g"])
    before = planned.placements()
    planned.publish(conversions=["g"])
    assert planned.placements() == before
    assert planned.job("g").own_from_s == AT
    planned.publish(run_id="run", send_backs=["g"])
    assert planned.job("g").state == "running"


def test_consenting_jobs_share_a_gpu_and_have_it_alone_again_afterwards(planned: Planned):
    planned.submit("host", "rider", "other", **SHARES)
    planned.publish(run_id="run", starts=["host"])
    content = planned.content("run")
    assert content["riders"] == [{"job_id": "rider", "host_job_id": "host"}]
    assert content["shares"] == [{"job_id": "host", "primitive": "squeeze", "share_pct": 60.0}]
    assert planned.placements()["rider"] == planned.placements()["host"]
    assert {one["job_id"]: (one["share_pct"], one["role"]) for one in planned.wanted_on("n1")} == {
        "host": (60.0, "host"),
        "rider": (40.0, "rider"),
    }
    assert planned.job("other").state == "waiting"
    planned.tell(
        Fact(FactKind.CANCELLED, AT, "other"), Fact(FactKind.ENDED, AT, "host", {"state": "completed"})
    )
    planned.publish(run_id="after")
    assert {"job_id": "rider", "primitive": "swell", "share_pct": 100.0} in planned.content("after")["shares"]


def test_nobody_shares_who_has_not_consented(planned: Planned):
    planned.submit("host", memory_mib=10)
    planned.submit("rider", **SHARES)
    planned.publish(run_id="run", starts=["host"])
    assert planned.content("run")["riders"] == []
    assert planned.job("rider").state == "waiting"


def test_gpus_that_are_not_there_are_not_placed_on(planned: Planned):
    with transaction(planned.engine) as session:
        row = lock_cluster(session, "c")
        epochs.nodes_changed(session, row, lost=["n1"], back=[], clock=planned.clock)
    planned.submit("x", "y")
    planned.submit("z", pool="a")
    planned.publish(run_id="run", starts=["x", "y", "z"])
    assert {node for places in planned.placements().values() for node, _ in places} == {"n2"}
    assert [one["job_id"] for one in planned.content("run")["dropped"]] == ["z"]


def test_a_lost_node_restarts_own_jobs_at_the_head_and_sends_guests_back(planned: Planned):
    planned.submit("o1", "o2", "g1", "g2")
    planned.publish(starts=["o1", "o2"], guests=["g1", "g2"])
    on_n1 = sorted(name for name, places in planned.placements().items() if places[0][0] == "n1")
    with transaction(planned.engine) as session:
        row = lock_cluster(session, "c")
        epochs.nodes_changed(session, row, lost=["n1"], back=[], clock=planned.clock)
    assert on_n1 == ["o1", "o2"]
    assert [planned.job(name).state for name in ("o1", "o2", "g1", "g2")] == ["waiting"] * 2 + ["running"] * 2
    with reading(planned.engine) as session:
        line = [job.job_id for job in live.unfinished(session, "c")]
        epoch = live.epoch(session, "c", planned.load()["epoch"])
    assert line[:2] == ["o1", "o2"]
    assert epoch is not None
    assert epoch.capacity_gpus == 2
    assert sum(quota for _, quota in epoch.quotas) == 2


def test_a_cluster_without_inventory_cannot_be_planned_for(database: Database):
    with transaction(database.engine) as session:
        clock = StandingClock()
        session.add(
            ClusterRow(
                name="empty",
                clock_origin=clock.now(),
                enforced_by="scheduler",
                policy="fcfs",
                settings={},
                created_at=clock.now(),
            )
        )
    with pytest.raises(Conflict, match="no inventory"):
        planning.load(database.engine, "empty", clock)


def test_placement_ids_are_safe_and_tell_jobs_apart():
    made = [applying.placement_id(name, 1, 0) for name in ("a/b", "a_b", "x" * 300, "../../etc", "é", "-x")]
    assert len(set(made)) == len(made)
    for one in made:
        assert len(one) <= 128
        assert one[0].isalnum()
        assert set(one) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def test_idle_gpus_are_those_of_the_epoch_less_those_in_use(planned: Planned):
    assert planned.load()["idle_gpus"] == 4
    planned.submit("x")
    planned.publish(starts=["x"])
    assert planned.load()["idle_gpus"] == 3


def test_a_placement_row_is_one_attempt(planned: Planned):
    planned.submit("g")
    planned.publish(guests=["g"])
    planned.publish(send_backs=["g"])
    planned.publish(guests=["g"])
    with reading(planned.engine) as session:
        wanted = live.wanted_of(session, "c", "g")
    assert [(row.attempt, row.is_wanted) for row in wanted] == [(2, True)]
    assert isinstance(wanted[0], PlacementRow)
