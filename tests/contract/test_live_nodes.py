"""A live policy knows nodes: it lends what has a place, and the guests go whose nodes an own gang needs."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from walks import CLUSTER, NODES, Executed, LiveCluster, Scheduled
from worlds import checked_worlds

from app.children.state import LiveDesk
from app.services.facts import Fact, FactKind
from app.store import live
from app.store.engine import reading
from app.store.tables import EpochRow

ALL = {"requeueable": "1"}
LENDS = {"eps": "1", "finish": "1", "share": "1", "lives": "learned"}
Made = Callable[..., Executed]


@pytest.fixture
def made(sqlite_template: Path, tmp_path: Path) -> Iterator[Made]:
    """Makes clusters of three nodes of two GPUs; a desk that knows only the log has to decide the same."""
    with checked_worlds(sqlite_template, tmp_path) as make:
        yield partial(make, Executed)


def submit(world: LiveCluster, *pools: str, num_gpus: int = 1) -> list[str]:
    facts = [world.submission(pool, num_gpus, may_be_sent_back=True, shares=False) for pool in pools]
    world.tell(*facts)
    return [fact.job_id for fact in facts]


def end(world: LiveCluster, *job_ids: str) -> None:
    world.tell(*(Fact(FactKind.ENDED, world.now_s, job_id, {"state": "completed"}) for job_id in job_ids))


def where(world: LiveCluster) -> dict[str, set[str]]:
    return {job.job_id: {str(node) for node, _ in job.gpus} for job in world.jobs("running")}


def newest(world: LiveCluster) -> EpochRow:
    with reading(world.engine) as session:
        epoch = live.epoch(session, CLUSTER, world.row().epoch)
    assert epoch is not None
    return epoch


@pytest.mark.parametrize("policy", ["anticipatory", "planned"])
def test_who_has_no_place_is_not_chosen_and_who_has_one_is(made: Made, policy: str):
    world = made(policy, LENDS | {"requeueable": "0"})
    _, neighbour, _, _, _ = submit(world, "a", "b", "a", "b", "c")
    world.plan()
    end(world, neighbour)
    assert sorted(map(len, where(world).values())) == [1, 1, 1, 1], "idle GPUs lie apart"
    (wide,) = submit(world, "a", num_gpus=2)
    (narrow,) = submit(world, "a")
    done = world.plan()
    assert (done["num_starts"], done["num_dropped"]) == (1, 0)
    assert narrow in where(world)
    assert wide not in where(world)


def test_guests_go_by_node_where_the_youngest_are_strewn(made: Made):
    world = made("reclaim", ALL)
    jobs = submit(world, *"bbbbbb")
    world.plan()
    end(world, jobs[3])
    submit(world, "b")
    world.plan()
    (gang,) = submit(world, "a", num_gpus=2)
    done = world.plan()
    assert (done["num_send_backs"], done["num_dropped"]) == (2, 0)
    assert len(where(world)[gang]) == 1
    assert set(jobs[:2]) <= where(world).keys(), "own jobs stay"


def test_a_gang_for_which_enough_is_idle_on_two_nodes_gets_one_of_them(made: Made):
    world = made("reclaim", ALL)
    jobs = submit(world, *"bbbbbb")
    world.plan()
    end(world, jobs[2], jobs[4])
    (gang,) = submit(world, "a", num_gpus=2)
    done = world.plan()
    assert (done["num_send_backs"], done["num_dropped"]) == (1, 0)
    assert len(where(world)[gang]) == 1


def test_an_epoch_has_the_nodes_that_are_there(made: Made):
    world = made("fcfs", {})
    assert newest(world).nodes == [[name, num_gpus, "any"] for name, num_gpus in NODES.items()]
    world.lose("n2")
    assert [name for name, _, _ in newest(world).nodes] == ["n1", "n3"]
    world.bring_back("n2", has_rebooted=True)
    assert len(newest(world).nodes) == len(NODES)


def test_where_a_scheduler_places_nobody_knows_who_is_where(sqlite_template: Path, tmp_path: Path):
    path = tmp_path / "antecast.db"
    path.write_bytes(sqlite_template.read_bytes())
    world = Scheduled(path, "anticipatory", LENDS)
    assert newest(world).nodes == []
    assert LiveDesk(world.engine, CLUSTER, world.row().epoch)._nodes is None
    world.close()
