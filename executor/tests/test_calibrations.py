"""Calibration by the running agent, from the document to the report: real processes, a pretended world."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from agent_process import AgentProcess, end_all
from control_plane import ControlPlane
from control_plane import placement as wire
from in_process import Life
from test_crash import document
from test_document import GPU, device, facts, raw, reasons

from antecast_executor import record as records
from antecast_executor.calibrations import NO_TELEMETRY, linked
from antecast_executor.devices.sim_telemetry import RATE, USE, SimTelemetry
from antecast_executor.document import Calibrate, DocumentError, parse
from antecast_executor.record import Record

SLEEP = ["sleep", "3600"]
WISH: Mapping[str, Any] = {"objective": "jct", "least_pct": 10, "most_pct": 100, "steps": 4000}
"""The host uses 30 % of the GPU and the rider 90 %: at 70 % the rider hurts it no more."""


def host(uuid: str, **more: Any) -> dict[str, Any]:
    env = {RATE: "2", USE: "0.3"}
    wish = {"calibrate": {**WISH, "utilisation": 0.3}}
    return wire("host", SLEEP, [uuid], env=env, role="host") | wish | more


def rider(uuid: str, **more: Any) -> dict[str, Any]:
    env = {RATE: "2", USE: "0.9"}
    wish = {"calibrate": {**WISH, "utilisation": 0.9}}
    return wire("rider", SLEEP, [uuid], env=env, role="rider") | wish | more


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    running = Life(tmp_path / "state")
    yield running
    running.die()
    end_all(tmp_path / "state")


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane().running() as running:
        yield running


@pytest.fixture
def agent(plane: ControlPlane, tmp_path: Path) -> Iterator[AgentProcess]:
    running = AgentProcess(plane, tmp_path)
    running.start()
    yield running
    running.clean_up()


def calibration(life: Life) -> dict[str, Any]:
    (found,) = life.agent.report().get("calibrations", [])
    return dict(found)


def share_pct(life: Life, name: str) -> float | None:
    return life.agent._records[name].share_pct


def until_squeezed(life: Life) -> None:
    """Both run, and the search is under way."""
    for _ in range(12):
        life.tick()
        if share_pct(life, "rider") != 100.0:
            break
    assert share_pct(life, "rider") in {80.0, 90.0}
    assert calibration(life)["state"] == "searches"


def until_ended(life: Life) -> dict[str, Any]:
    for _ in range(200):
        life.tick()
        if life.agent.report()["calibrations"][0]["state"] == "ended":
            break
    return calibration(life)


def mean_step_s(life: Life, name: str) -> float:
    """Of the steps of one more tick."""
    telemetry = life.agent._calibrations._telemetry
    assert telemetry is not None
    since_s = life.node.clock.monotonic()
    life.tick()
    return fmean(step.length_s for step in telemetry.steps(name, since_s))


def told(life: Life) -> list[dict[str, Any]]:
    return [item["data"] for item in life.journal.pending(limit=10_000) if item["kind"] == "calibrated"]


def test_a_packed_pair_is_calibrated_and_the_best_is_left_in_force(life: Life) -> None:
    uuid = life.uuids[0]
    assert life.agent.offer(document(1, host(uuid), rider(uuid)))
    life.tick()
    before_s = mean_step_s(life, "host")
    ended = until_ended(life)
    assert (ended["outcome"], ended["objective"]) == ("found", "jct")
    assert ended["placements"] == ["host", "rider"]
    assert share_pct(life, "host") == 100.0
    assert share_pct(life, "rider") == 70.0
    assert before_s == pytest.approx(0.6, rel=0.05)
    assert mean_step_s(life, "host") == pytest.approx(0.5, rel=0.05), "its neighbour is squeezed"
    # What is in force is told, with its means: time slices.
    last = ended["steps"][-1]
    assert last["is_in_force"]
    assert {item["enforcement"] for item in last["shares"]} == {"advisory"}
    assert told(life) == [
        {
            "placements": ["host", "rider"],
            "objective": "jct",
            "outcome": "found",
            "shares": {"host": 100.0, "rider": 70.0},
            "tries": told(life)[0]["tries"],
        }
    ]
    # The same set, published again: nothing is undone, nothing begins anew.
    kinds = life.kinds()
    assert life.agent.offer(document(2, host(uuid), rider(uuid)))
    for _ in range(3):
        life.tick()
    assert share_pct(life, "rider") == 70.0
    assert life.kinds() == kinds


def test_the_limits_of_the_document_are_kept(life: Life) -> None:
    uuid = life.uuids[0]
    wish = {"calibrate": {**WISH, "utilisation": 0.9, "least_pct": 80}}
    assert life.agent.offer(document(1, host(uuid), rider(uuid, **wish)))
    life.tick()
    until_ended(life)
    assert share_pct(life, "rider") == 80.0
    asked = [
        item["data"]["requested"] for item in life.journal.pending(limit=10_000) if item["kind"] == "squeezed"
    ]
    assert asked
    assert min(asked) >= 80.0


def test_when_the_neighbour_is_to_go_the_share_of_the_document_is_back(
    life: Life, eventually: Callable[[Callable[[], Any], str], Any]
) -> None:
    uuid = life.uuids[0]
    assert life.agent.offer(document(1, host(uuid), rider(uuid)))
    until_squeezed(life)
    assert life.agent.offer(document(2, rider(uuid)))
    life.tick()
    assert [item["outcome"] for item in told(life)] == ["set_changed"]
    eventually(lambda: life.tick() or life.state_of("host") == "ended", "the end of the host")
    life.tick()
    assert "two jobs" in calibration(life)["reason"]
    assert share_pct(life, "rider") == 100.0


def test_when_one_stands_still_it_stops_and_begins_anew_later(life: Life) -> None:
    uuid = life.uuids[0]
    assert life.agent.offer(document(1, host(uuid), rider(uuid)))
    until_squeezed(life)
    assert life.agent.offer(document(2, host(uuid, state="paused"), rider(uuid)))
    life.tick()  # the host is paused
    life.tick()
    assert [item["outcome"] for item in told(life)] == ["set_changed"]
    assert share_pct(life, "rider") == 100.0
    life.tick()
    assert calibration(life)["reason"] == "host does not run"
    assert life.agent.offer(document(3, host(uuid), rider(uuid)))
    until_squeezed(life)


def test_what_is_no_longer_to_be_calibrated_gets_what_the_document_says(life: Life) -> None:
    uuid = life.uuids[0]
    assert life.agent.offer(document(1, host(uuid), rider(uuid)))
    until_squeezed(life)
    plain = [host(uuid, share_pct=60.0, calibrate=None), rider(uuid, share_pct=40.0, calibrate=None)]
    assert life.agent.offer(document(2, *plain))
    life.tick()
    assert (share_pct(life, "host"), share_pct(life, "rider")) == (60.0, 40.0)
    assert "calibrations" not in life.agent.report()


def test_an_executor_that_starts_again_searches_anew_from_the_document(tmp_path: Path) -> None:
    life = Life(tmp_path / "state")
    uuid = life.uuids[0]
    assert life.agent.offer(document(1, host(uuid), rider(uuid)))
    until_squeezed(life)
    life.die()
    after = Life(tmp_path / "state")
    after.skip_s = life.skip_s
    after.tick()
    assert share_pct(after, "rider") == 100.0
    until_squeezed(after)
    after.die()
    end_all(tmp_path / "state")


def test_without_telemetry_nothing_is_searched_and_the_status_says_so(tmp_path: Path) -> None:
    life = Life(tmp_path / "state", has_telemetry=False)
    try:
        uuid = life.uuids[0]
        assert life.agent.offer(document(1, host(uuid), rider(uuid)))
        for _ in range(4):
            life.tick()
        found = calibration(life)
        assert (found["state"], found["reason"]) == ("waits", NO_TELEMETRY)
        assert "squeezed" not in life.kinds()
    finally:
        life.die()
        end_all(tmp_path / "state")


@pytest.mark.parametrize(
    ("of_host", "of_rider", "reason"),
    [
        ({"calibrate": None}, {}, "host is of the set, and is not to be calibrated"),
        ({"calibrate": {**WISH, "objective": "makespan"}}, {}, "one objective, not jct and makespan"),
        ({"num_ranks": 2}, {}, "1 of 2 workers"),
    ],
)
def test_what_is_in_the_way_is_said(
    life: Life, of_host: dict[str, Any], of_rider: dict[str, Any], reason: str
) -> None:
    uuid = life.uuids[0]
    assert life.agent.offer(document(1, host(uuid, **of_host), rider(uuid, **of_rider)))
    for _ in range(3):
        life.tick()
    assert reason in calibration(life)["reason"]
    assert share_pct(life, "rider") == 100.0


def test_it_is_told_over_the_wire_by_the_real_program(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid = agent.gpus()[0]
    fast = [
        item | {"argv": agent.waiter(item["placement_id"]), "env": item["env"] | {RATE: "40"}}
        for item in (host(uuid), rider(uuid))
    ]
    plane.want(*fast)
    plane.wait_condition("rider", "squeeze", "effective")
    found = plane.wait("a calibration", lambda: plane.statuses[-1].get("calibrations"))
    assert found[0]["state"] == "searches"
    assert found[0]["steps"][0]["step"] == "try"


# The document


def test_all_that_can_be_asked_for_is_read() -> None:
    wish = {
        **WISH,
        "objective": "promise",
        "utilisation": 1,
        "lowest_rate": 0.5,
        "deadline": "2026-01-01T00:00:00Z",
        "promised_by": "2026-01-01T02:00:00+01:00",
    }
    (item,) = parse(raw(rider(GPU, calibrate=wish))).placements
    assert item.calibrate == Calibrate("promise", 10.0, 100.0, 4000.0, 1.0, 0.5, 1767225600.0, 1767229200.0)


@pytest.mark.parametrize(
    "wish",
    [
        7,
        {},
        {**WISH, "objective": "speed"},
        {**WISH, "least_pct": 5},
        {**WISH, "least_pct": 15},
        {**WISH, "most_pct": 110},
        {**WISH, "most_pct": 90},
        {**WISH, "steps": None},
        {**WISH, "steps": -1},
        {**WISH, "utilisation": 2},
        {**WISH, "lowest_rate": -1},
        {**WISH, "deadline": 7},
        {**WISH, "deadline": "2026-01-01T00:00:00"},
        {**WISH, "promised_by": "soon"},
    ],
)
def test_a_bad_wish_is_a_bad_document(wish: object) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(raw(rider(GPU, calibrate=wish)))
    assert [(item.placement_id, item.reason) for item in caught.value.refusals] == [("rider", "bad_document")]


def test_what_a_calibration_may_reach_counts_as_given() -> None:
    wish = {"share_pct": 50, "calibrate": WISH}
    pair = [rider(GPU, **wish), host(GPU, **wish)]
    assert reasons(raw(*pair), facts(device())) == []
    owned = [item | {"role": "own"} for item in pair]
    assert reasons(raw(*owned), facts(device())) == ["overcommit"] * 2


def test_the_journal_keeps_the_wish_and_reads_records_without_one() -> None:
    (item,) = parse(raw(rider(GPU))).placements
    kept = records.to_json(Record(item))
    assert records.from_json(kept).placement == item
    del kept["placement"]["calibrate"]
    assert records.from_json(kept).placement == replace(item, calibrate=None)


def test_sets_are_bound_by_gpus_and_by_jobs() -> None:
    items = [
        wire("a-0", ["true"], ["g0"]) | {"job_id": "a"},
        wire("a-1", ["true"], ["g1"]) | {"job_id": "a"},
        wire("b", ["true"], ["g1"], role="rider"),
        wire("c", ["true"], ["g2"]),
    ]
    groups = linked(parse(raw(*items)).placements)
    assert [[item.placement_id for item in group] for group in groups] == [["a-0", "a-1", "b"], ["c"]]


# The pretended steps


def test_who_stands_still_makes_no_steps_and_old_ones_are_not_made_up() -> None:
    now_s, rate = 0.0, 1.0
    telemetry = SimTelemetry(lambda: now_s, lambda: {"a": 100.0}, lambda _: {"a": rate}, seed=1, jitter=0.0)
    now_s = 10.0
    assert len(telemetry.steps("a", 0.0)) == 10
    rate = 0.0
    now_s = 20.0
    telemetry.steps("a", 0.0)
    rate = 1.0
    now_s = 25.0
    assert [step.began_s for step in telemetry.steps("a", 10.5)] == [20.0, 21.0, 22.0, 23.0, 24.0]
    now_s = 1e9
    assert len(telemetry.steps("a", 100.0)) == 1000
