"""Decisions put on the nodes of a cluster that executors enforce: cells, reasons, the checker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database
from planned import AT, Planned

from app.services import places
from app.services.facts import Fact, FactKind
from app.store.tables import JobRow
from domain.cluster import Gpu, Node
from domain.jobs import Job

HOLD = {"pool": "a", "num_gpus": 2, "until_s": None}
NO_NODE = "no-node-fits: does not fit any node although 2 GPUs are idle: the widest gang has 1"


@pytest.fixture
def planned(sqlite_template: Path, tmp_path: Path) -> Iterator[Planned]:
    """Two nodes of two GPUs; SQLite only, for nothing here is the database's business."""
    path = tmp_path / "antecast.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    yield Planned(database)
    database.dispose()


def halve(planned: Planned) -> None:
    """One job runs on each node, so that the two idle GPUs lie apart."""
    planned.submit("b1", "b2", "b3")
    planned.publish(starts=["b1", "b2"], guests=["b3"])
    planned.tell(Fact(FactKind.ENDED, AT, "b2", {"state": "completed"}))
    where = planned.placements()
    assert (where["b1"], where["b3"]) == ([("n1", (0,))], [("n2", (0,))])


def waits(planned: Planned, run_id: str) -> dict[str, str]:
    return {one["job_id"]: one["why"] for one in planned.content(run_id)["dropped"]}


def test_a_gang_whose_gpus_lie_apart_waits_with_that_reason_and_others_go_on(planned: Planned):
    halve(planned)
    planned.submit("gang", num_gpus=2, pool="a")
    planned.submit("guest", "other")
    done = planned.publish(run_id="run", starts=["gang"])
    assert done["num_dropped"] == 1
    assert waits(planned, "run") == {"gang": NO_NODE}
    assert planned.job("gang").state == "waiting"
    planned.publish(run_id="next", starts=["gang"], guests=["guest"])
    assert waits(planned, "next")["guest"] == "its GPUs are not there yet"
    planned.tell(Fact(FactKind.ENDED, AT, "b1", {"state": "completed"}))
    planned.publish(starts=["gang"], guests=["guest"])
    assert planned.placements()["gang"] == [("n1", (0, 1))]
    assert planned.placements()["guest"] == [("n2", (1,))]


def test_a_gang_that_waits_for_a_node_is_no_reason_to_plan_again(planned: Planned):
    halve(planned)
    planned.submit("gang", num_gpus=2, pool="a")
    request = planned.load()
    planned.submit("late")
    assert "is_stale" not in planned.publish(request, "run", starts=["gang"])


def test_no_guest_starts_in_the_cell_of_a_gang_that_gpus_are_held_for(planned: Planned):
    planned.submit("b1")
    planned.publish(starts=["b1"])
    planned.submit("gang", num_gpus=2, pool="a")
    planned.submit("g1", "g2")
    planned.publish(run_id="run", guests=["g1", "g2"], holds=[HOLD])
    assert planned.placements()["g1"] == [("n1", (1,))]
    assert waits(planned, "run") == {
        "g2": "behind-due-job: the nodes that would hold it are kept for pool a (gang)"
    }
    planned.publish(starts=["gang"])
    assert planned.placements()["gang"] == [("n2", (0, 1))]


def test_a_hold_that_is_nowhere_whole_yet_keeps_the_nearest_node(planned: Planned):
    halve(planned)
    planned.submit("gang", num_gpus=2, pool="a")
    planned.submit("g1", "g2")
    planned.publish(run_id="run", guests=["g1", "g2"], holds=[HOLD])
    assert planned.placements()["g1"] == [("n2", (1,))]
    assert list(waits(planned, "run")) == ["g2"]


def test_a_hold_for_nobody_who_waits_keeps_a_cell_of_its_width(planned: Planned):
    planned.submit("g1", "g2", "g3")
    planned.publish(run_id="run", guests=["g1", "g2", "g3"], holds=[HOLD])
    assert waits(planned, "run") == {
        "g3": "behind-due-job: the nodes that would hold it are kept for pool a (hold 0)"
    }


def test_the_checker_finds_a_guest_in_a_cell_and_a_cell_that_is_none():
    held, guest = Job("held", "a", 0.0, 2), Job("guest", "b", 0.0, 1)
    nodes = [Node("n1", 2)]
    row = JobRow(
        cluster="c", job_id="guest", pool="b", submit_s=0.0, num_gpus=1, rank=0.0, state="waiting", gpus=[]
    )
    cell = (Gpu("n1", 0), Gpu("n1", 1))
    found = places.refused({"guest": row}, nodes, {guest.job_id: cell[:1]}, [(held, cell)])
    assert list(found) == ["guest"]
    assert found["guest"].startswith("gpu-in-use: ")
    found = places.refused({"guest": row}, nodes, {guest.job_id: cell[:1]}, [(held, cell[1:])])
    assert list(found) == ["held"]
