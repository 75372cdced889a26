"""What happens to runs, watched: pages and streams, on both databases."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from service import assert_problem
from sqlalchemy import event

from app.services.run_feed import RunFeed
from app.store import run_events
from app.store import runs as store
from app.store.engine import transaction
from app.store.tables import ClusterRow, RunEventKind, RunRow

AT = datetime(2026, 1, 5, tzinfo=UTC)
RUNS = ("run-a", "run-b")
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def run_id(service):
    service.cluster()
    service.inventory({"vision": 6, "speech": 2})
    return service.client.post("/v1/clusters/c/replans").json()["run_id"]


def events(service, run_id, **query):
    answer = service.client.get(f"/v1/runs/{run_id}/events", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(service, run_id, **headers):
    """Ids and kinds of a whole stream."""
    answer = service.client.get(f"/v1/runs/{run_id}/events", headers=STREAM | headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            said = json.loads(lines["data"])
            assert (lines["id"], lines["event"]) == (str(said["number"]), said["kind"])
            found.append((said["number"], said["kind"]))
    return found


def test_events_of_a_run_are_numbered_and_come_a_page_at_a_time(service, run_id):
    waiting = events(service, run_id)
    assert [(one["number"], one["kind"]) for one in waiting["items"]] == [(1, "queued")]
    assert waiting["next"] == 1
    service.client.post(f"/v1/runs/{run_id}/cancel")
    over = events(service, run_id, after=waiting["next"])
    assert [(one["number"], one["kind"]) for one in over["items"]] == [(2, "finished")]
    assert over["items"][0]["data"] == {"status": "cancelled", "error": None}
    assert over["next"] is None
    assert events(service, run_id, limit=1)["next"] == 1


def test_a_stream_ends_with_the_run_and_goes_on_where_it_was_cut(service, run_id):
    service.client.post(f"/v1/runs/{run_id}/cancel")
    assert stream(service, run_id) == [(1, "queued"), (2, "finished")]
    assert stream(service, run_id, **{"Last-Event-ID": "1"}) == [(2, "finished")]
    bad = service.client.get(f"/v1/runs/{run_id}/events", headers=STREAM | {"Last-Event-ID": "x"})
    assert_problem(bad, 422, "invalid")
    for headers in ({}, STREAM):
        assert_problem(service.client.get("/v1/runs/nix/events", headers=headers), 404, "unknown-resource")


def make_runs(database):
    with transaction(database.engine) as session:
        session.add(
            ClusterRow(
                name="c", clock_origin=AT, enforced_by="scheduler", policy="fcfs", settings={}, created_at=AT
            )
        )
        session.flush()
        for run_id in RUNS:
            row = RunRow(
                run_id=run_id,
                cluster="c",
                kind="replan",
                status="queued",
                arguments={},
                requested_by="x",
                requested_at=AT,
            )
            store.add(session, row)


def tell(database, kind):
    with transaction(database.engine) as session:
        for run_id in RUNS:
            store.lock(session, run_id)
            run_events.append(session, run_id, kind, AT)


async def watch(feed, run_id, after):
    return [one.number async for one in feed.watch(run_id, after, quiet_s=60.0) if one is not None]


async def leave(feed):
    async for _ in feed.watch("run-a", 0, quiet_s=60.0):
        return


def test_many_who_watch_hold_one_connection_and_lose_nothing(database):
    """Also those that begin late, behind some events, or leave early."""
    make_runs(database)
    held, most = Counter(), Counter()

    def count(step):
        def change(*_):
            held["now"] += step
            most["ever"] = max(most["ever"], held["now"])

        return change

    watched = database.another_engine()
    event.listen(watched, "checkout", count(1))
    event.listen(watched, "checkin", count(-1))

    async def everyone():
        feed = RunFeed(watched, look_every_s=0.01)
        early = [asyncio.create_task(watch(feed, RUNS[k % 2], k % 3)) for k in range(200)]
        await leave(feed)
        for _ in range(3):
            await asyncio.to_thread(tell, database, RunEventKind.PROGRESS)
        late = [asyncio.create_task(watch(feed, "run-b", 2))]
        await asyncio.to_thread(tell, database, RunEventKind.FINISHED)
        try:
            return await asyncio.gather(*early, *late)
        finally:
            await feed.close()

    *seen, late = asyncio.run(everyone())
    assert [list(range(k % 3 + 1, 6)) for k in range(200)] == seen
    assert late == [3, 4, 5]
    assert most["ever"] == 1


def test_who_hears_nothing_hears_that_there_is_nothing(database):
    async def silence():
        feed = RunFeed(database.engine, look_every_s=0.01)
        watching = feed.watch("run-none", 0, quiet_s=0.0)
        try:
            return await anext(watching)
        finally:
            await watching.aclose()
            await feed.close()

    assert asyncio.run(silence()) is None


def test_a_process_that_is_about_to_end_ends_its_streams(database):
    async def ended():
        feed = RunFeed(database.engine, look_every_s=0.01)
        asked = iter([False, True])
        found = [
            one async for one in feed.watch("run-none", 0, quiet_s=60.0, is_stopping=lambda: next(asked))
        ]
        await feed.close()
        return found

    assert asyncio.run(ended()) == []
