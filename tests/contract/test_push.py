"""What is wanted on nodes, on both databases: whole documents, generations in the order of commits."""

import threading

import pytest
from nodes import (
    SPEC,
    Enrolled,
    StandingClock,
    document,
    make_cluster,
    start,
    want_no_more,
    wanted_on,
)
from sqlmodel import select

from app.services import push
from app.services.push import document_hash
from app.store import executors as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import DesiredRow, PlacementRow


@pytest.fixture
def clock():
    return StandingClock()


@pytest.fixture
def engine(database, clock):
    make_cluster(database.engine, clock, {"n1": 2, "n2": 2})
    Enrolled.on(database.engine, clock, "n1", 2)
    Enrolled.on(database.engine, clock, "n2", 2)
    return database.engine


def publish(engine, clock, **more):
    with transaction(engine) as session:
        return push.publish(session, "c", clock, **more)


def test_a_node_that_is_told_nothing_has_an_empty_document(engine):
    empty = document(engine, "n1")
    assert empty["placements"] == []
    assert empty["hash"] == document_hash(empty)


def test_a_placement_reaches_the_nodes_of_its_ranks_and_no_other(engine, clock):
    before = document(engine, "n2")
    start(engine, clock, "j", [("n1", 1)])
    (entry,) = document(engine, "n1")["placements"]
    assert entry["gpus"] == ["GPU-n1-1"]
    assert entry["argv"] == SPEC["argv"]
    assert document(engine, "n2") == before


def test_publishing_again_changes_nothing(engine, clock):
    start(engine, clock, "j", [("n1", 0), ("n2", 0)])
    before = [document(engine, node) for node in ("n1", "n2")]
    assert publish(engine, clock) == []
    assert [document(engine, node) for node in ("n1", "n2")] == before


def test_the_hash_survives_the_database(engine, clock):
    start(engine, clock, "j\u00e9\u4e2d\U0001f600", [("n1", 0)], env={"Z": "1", "A": "\u2603"}, grace_s=0.1)
    kept = document(engine, "n1")
    assert kept["placements"][0]["env"]["A"] == "\u2603"
    assert document_hash(kept) == kept["hash"]


def test_generations_only_rise_and_the_epoch_is_the_cluster_s(engine, clock):
    first = document(engine, "n1")
    ids = start(engine, clock, "j", [("n1", 0)])
    second = document(engine, "n1")
    want_no_more(engine, clock, *ids)
    third = document(engine, "n1")
    assert first["generation"] < second["generation"] < third["generation"]
    assert third["placements"] == first["placements"]
    with transaction(engine) as session:
        cluster = lock_cluster(session, "c")
        cluster.epoch += 5
        epoch = cluster.epoch
    start(engine, clock, "k", [("n1", 0)])
    assert document(engine, "n1")["epoch"] == epoch


def test_an_epoch_by_itself_is_no_news_to_a_node(engine, clock):
    with transaction(engine) as session:
        lock_cluster(session, "c").epoch += 1
    assert publish(engine, clock) == []


def test_only_the_nodes_asked_for_are_made_anew(engine, clock):
    ids = start(engine, clock, "j", [("n1", 0), ("n2", 0)])
    with transaction(engine) as session:
        for placement_id in ids:
            session.get(PlacementRow, placement_id).is_wanted = False
        assert push.publish(session, "c", clock, nodes={"n2"}) == ["n2"]
    assert wanted_on(engine, "n1") == [ids[0]]
    assert wanted_on(engine, "n2") == []


def _publish_and_fail(session, clock):
    row = PlacementRow(
        placement_id="p",
        cluster="c",
        job_id="j",
        attempt=1,
        node="n1",
        gpu_indices=[0],
        role="own",
        observed={},
    )
    session.add(row)
    push.publish(session, "c", clock)
    raise ZeroDivisionError


def test_what_fails_publishes_nothing(engine, clock):
    before = document(engine, "n1")
    with pytest.raises(ZeroDivisionError), transaction(engine) as session:
        _publish_and_fail(session, clock)
    assert document(engine, "n1") == before


def test_concurrent_publishers_never_give_a_generation_twice(database, engine, clock):
    """Many writers, and a reader that looks again and again: it misses no generation and sees none fall."""
    writers, each = 4, 6
    for number in range(writers):
        start(engine, clock, f"j{number}", [("n1" if number % 2 else "n2", number // 2)])
    started = threading.Barrier(writers)
    faults = []

    def write(number):
        mine = database.another_engine()
        started.wait()
        try:
            for turn in range(each):
                with transaction(mine) as session:
                    lock_cluster(session, "c")
                    row = session.get(PlacementRow, f"j{number}.1.0", populate_existing=True)
                    row.share_pct = 90.0 - turn
                    assert len(push.publish(session, "c", clock)) == 1
        except Exception as fault:  # noqa: BLE001 - told by the test's own thread
            faults.append(fault)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    with reading(engine) as session:
        first = {row.node: row.generation for row in session.exec(select(DesiredRow))}
    for thread in threads:
        thread.start()
    seen = max(first.values())
    found = []
    while any(thread.is_alive() for thread in threads) or not found:
        with reading(engine) as session:
            news = sorted(generation for _, _, generation in store.changes(session, {"c": seen}))
        found += [generation for generation in news if generation > seen]
        seen = max([seen, *news])
    for thread in threads:
        thread.join()
    assert not faults
    with reading(engine) as session:
        last = {row.node: (row.generation, row.document) for row in session.exec(select(DesiredRow))}
    assert max(generation for generation, _ in last.values()) == max(first.values()) + writers * each
    for node, (generation, kept) in last.items():
        assert generation > first[node]
        assert kept["generation"] == generation
        assert document_hash(kept) == kept["hash"]
        assert {entry["share_pct"] for entry in kept["placements"]} == {90.0 - each + 1}
    assert found == sorted(set(found))


def test_memory_of_gpus_is_known_by_node_and_index(engine):
    with reading(engine) as session:
        found = store.gpu_memory_mib(session, "c")
    assert found == {(node, index): 143_000 for node in ("n1", "n2") for index in (0, 1)}
