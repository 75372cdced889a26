"""A desk whose lending somebody reviews, derived again from the log like any other; what holds rest on."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from walks import CLUSTER, Executed, Scheduled
from worlds import checked_worlds

from app.children.decide import Room
from app.children.hold_forecast import feasibility
from app.children.state import LiveDesk
from app.services import actions, clusters, planning
from app.services.facts import Fact, FactKind
from app.store import live
from app.store.engine import reading

ALL = {"requeueable": "1"}
Made = Callable[..., Any]


@pytest.fixture
def made(sqlite_template: Path, tmp_path: Path) -> Iterator[Made]:
    """Makes clusters; SQLite only, for nothing here is the database's business."""
    with checked_worlds(sqlite_template, tmp_path) as make:
        yield make


def submit(world: Any, *pools: str, num_gpus: int = 1) -> list[str]:
    facts = [world.submission(pool, num_gpus, may_be_sent_back=True, shares=False) for pool in pools]
    world.tell(*facts)
    return [fact.job_id for fact in facts]


def put_mode(world: Any, mode: str) -> None:
    clusters.change(world.engine, CLUSTER, {"mode": mode}, None, world.clock)


def accept(world: Any, kind: str) -> list[str | None]:
    """Accept all that is proposed of a kind; says whose it was."""
    found = actions.page(world.engine, CLUSTER, status="proposed", after=0, limit=99)
    mine = [row for row in found if row.kind == kind]
    for row in mine:
        actions.review(world.engine, CLUSTER, row.number, is_accepted=True, reviewer="ann", clock=world.clock)
    return [row.job_id for row in mine]


def states(world: Any) -> list[tuple[str, str | None, str]]:
    found = actions.page(world.engine, CLUSTER, status=None, after=0, limit=99)
    return [(row.kind, row.job_id, row.status) for row in found]


def test_a_scheduler_is_given_of_lending_what_was_accepted(made: Made):
    world = made(Scheduled, "reclaim", ALL)
    put_mode(world, "advise")
    own, second, guest = submit(world, "a", "a", "a")
    answer = world.decide([]).row.answer
    assert [start["job_id"] for start in answer["starts"]] == [own, second], "own starts need nobody's word"
    assert [one["job_id"] for one in answer["proposed"]] == [guest]
    world.decide([Fact(FactKind.STARTED, world.now_s, job_id) for job_id in (own, second)])
    assert accept(world, "start") == [guest]
    assert world.decide([]).row.answer["starts"] == [{"job_id": guest, "is_guest": True}]
    world.decide([Fact(FactKind.STARTED, world.now_s, guest, {"is_guest": True})])
    assert states(world) == [("start", guest, "done")]


def test_what_waits_for_a_guest_to_go_waits_until_that_is_accepted(made: Made):
    world = made(Executed, "reclaim", ALL)
    guest, other = submit(world, "a", "a", "a", "a")[2:]
    world.plan()
    assert {job.job_id for job in world.jobs("running") if job.is_guest} == {guest, other}
    put_mode(world, "advise")
    (wide,) = submit(world, "b", num_gpus=2)
    (more,) = submit(world, "c")
    world.plan()
    waiting = {job.job_id for job in world.jobs("waiting")}
    assert waiting == {wide, more} - {job.job_id for job in world.jobs("running")}
    proposed = accept(world, "send_back")
    assert proposed
    world.plan()
    assert {wide, more} <= {job.job_id for job in world.jobs("running")}
    assert {job.job_id for job in world.jobs("waiting")} == set(proposed)
    world.plan()
    assert {state for kind, _, state in states(world) if kind == "send_back"} == {"done"}


def test_a_plan_says_by_when_the_gpus_of_its_holds_will_be_there(made: Made):
    """A job of half the cluster that may not be sent back is in the way of one that is due."""
    world = made(Executed, "reclaim", {})
    stays = world.submission("a", 2, may_be_sent_back=False, shares=False)
    limited = {**stays.data, "limit_s": 3_600.0}
    world.tell(Fact(FactKind.SUBMITTED, world.now_s, "own", limited))
    world.plan()
    request = planning.load(world.engine, CLUSTER, world.clock)
    answer = Room(world.engine).answer(request)
    assert answer["holds"] == answer["feasibility"] == []
    desk = LiveDesk(world.engine, CLUSTER, world.row().epoch)
    desk.catch_up(10**9)
    now_s = world.now_s + 600.0
    holds = [{"pool": "b", "num_gpus": 2}, {"pool": "c", "num_gpus": 2, "until_s": now_s + 4_000.0}]
    there, short = feasibility(desk, {"holds": holds, "starts": [], "send_backs": []}, now_s, 3)
    assert (there["probability"], there["likely_by_s"], there["idle_gpus"]) == (1.0, now_s, 2)
    assert (short["charged_to"], short["idle_gpus"], short["by_s"]) == ("c", 1, now_s + 4_000.0)
    assert short["probability"] == 1.0, "its limit has passed by then"
    assert short["bound_s"] == world.now_s + 3_600.0
    assert now_s <= short["likely_by_s"] <= now_s + 4_000.0
    with reading(world.engine) as session:
        (row,) = live.running(session, CLUSTER)
    assert math.isclose(row.started_s or 0.0, world.now_s)
