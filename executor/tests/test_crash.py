"""The executor dies between the intent and the act, or between the act and its record, in every primitive."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import end_all
from control_plane import placement, sealed
from in_process import Crash, Life

from antecast_executor.journal import JournalError

SLEEP = ["sleep", "3600"]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    end_all(tmp_path / "state")


def document(generation: int, *placements: dict[str, Any], **more: Any) -> bytes:
    body = {
        "epoch": 1,
        "generation": generation,
        "valid_for_s": 1e6,
        "plan_id": None,
        "placements": list(placements),
        "actions": [],
    }
    return json.dumps(sealed(body | more)).encode()


def job(life: Life, **more: Any) -> dict[str, Any]:
    return placement("a", SLEEP, [life.uuids[0]], **more)


def crash(life: Life, at: tuple[str, str]) -> None:
    life.processes.crash_at = at
    with pytest.raises(Crash):
        life.tick()
    life.die()


def running(state: Path) -> Life:
    """A life with one placement that runs."""
    life = Life(state)
    assert life.agent.offer(document(1, job(life)))
    life.tick()
    assert life.state_of("a") == "running"
    return life


def test_killed_before_the_launch_it_is_never_launched_again(state: Path) -> None:
    life = Life(state)
    life.agent.offer(document(1, job(life)))
    crash(life, ("launch", "before"))
    after = Life(state)
    after.tick()
    assert after.state_of("a") == "lost"
    assert after.kinds() == ["placement_lost"]
    assert after.processes.find("a") is None
    after.die()


def test_killed_after_the_launch_it_is_adopted(state: Path) -> None:
    life = Life(state)
    life.agent.offer(document(1, job(life)))
    crash(life, ("launch", "after"))
    after = Life(state)
    after.tick()
    assert after.state_of("a") == "running"
    assert after.kinds()[:2] == ["placement_started", "placement_adopted"]
    process = after.processes.find("a")
    assert process is not None
    assert len(after.processes.pids("a", process)) == 1
    after.tick()
    assert after.condition("a", "launch")["state"] == "verified"
    after.die()


def test_killed_after_a_document_was_accepted_and_before_anything_was_done(state: Path) -> None:
    life = running(state)
    more = placement("b", SLEEP, [life.uuids[1]])
    wish = document(2, job(life, share_pct=50.0), more)
    assert life.agent._intake.offer(wish, life.agent._facts())
    life.die()
    after = Life(state)
    after.tick()
    assert after.agent.after == 2
    assert after.state_of("b") == "running"
    assert after.condition("a", "squeeze")["in_force"] == 50.0
    after.die()


def test_what_is_over_leaves_nothing_behind(state: Path, eventually: Callable[..., Any]) -> None:
    life = running(state)
    assert (state / "placements" / "a").exists()
    life.agent.offer(document(2))

    def is_forgotten() -> bool:
        life.tick()
        life.agent.reported(life.agent.report())
        return life.state_of("a") is None

    eventually(is_forgotten, "a to be forgotten")
    assert not (state / "placements" / "a").exists()
    assert life.journal.records() == []
    assert life.journal.spent() == {"a"}
    life.die()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("wanted", ["paused", "running"])
def test_killed_in_a_pause(state: Path, when: str, wanted: str) -> None:
    life = running(state)
    life.agent.offer(document(2, job(life, state="paused")))
    crash(life, ("pause", when))
    after = Life(state)
    after.agent.offer(document(3, job(after, state=wanted)))
    after.tick()
    after.tick()
    assert after.state_of("a") == wanted
    assert is_frozen(state) is (wanted == "paused")
    after.die()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("wanted", ["paused", "running"])
def test_killed_in_a_resume(state: Path, when: str, wanted: str) -> None:
    life = running(state)
    life.agent.offer(document(2, job(life, state="paused")))
    life.tick()
    assert is_frozen(state)
    life.agent.offer(document(3, job(life)))
    crash(life, ("resume", when))
    after = Life(state)
    after.agent.offer(document(4, job(after, state=wanted)))
    after.tick()
    after.tick()
    assert after.state_of("a") == wanted
    assert is_frozen(state) is (wanted == "paused")
    after.die()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("wanted", [100.0, 50.0])
def test_killed_in_a_squeeze(state: Path, when: str, wanted: float) -> None:
    life = running(state)
    life.agent.offer(document(2, job(life, share_pct=50.0)))
    crash(life, ("throttle", when))
    after = Life(state)
    after.agent.offer(document(3, job(after, share_pct=wanted)))
    after.tick()
    after.tick()
    assert duty_pct(state) == wanted
    assert after.condition("a", "squeeze" if wanted < 100 else "swell")["in_force"] == wanted
    after.die()


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_a_swell(state: Path, when: str) -> None:
    life = running(state)
    life.agent.offer(document(2, job(life, share_pct=50.0)))
    life.tick()
    life.agent.offer(document(3, job(life)))
    crash(life, ("throttle", when))
    after = Life(state)
    after.tick()
    assert duty_pct(state) == 100.0
    after.die()


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_a_stop(state: Path, when: str, eventually: Callable[..., Any]) -> None:
    life = running(state)
    life.agent.offer(document(2))
    crash(life, ("terminate", when))
    after = Life(state)

    def is_over() -> bool:
        after.tick()
        return after.state_of("a") == "ended"

    eventually(is_over, "the end of the placement")
    assert after.kinds().count("placement_ended") == 1
    assert after.condition("a", "stop")["state"] in {"verified", "superseded", "applied"} or when == "after"
    after.die()


def test_after_a_reboot_everything_is_void_but_the_fence(state: Path) -> None:
    life = running(state)
    supervisor = life.processes.find("a")
    assert supervisor is not None
    life.die()
    after = Life(state, boot_id="another-boot")
    assert after.state_of("a") == "lost"
    assert "placement_lost" in after.kinds()
    after.tick()
    assert after.processes.is_alive(supervisor), "a PID of another boot is nobody's"
    report = after.agent.report()
    assert (report["generation"], report["accepted"], after.agent.after) == (0, False, 0)
    assert not after.agent.offer(document(0))
    # The very document may come again, and what it names has been lost: it does not start again.
    assert after.agent.offer(document(1, job(after)))
    after.tick()
    assert after.state_of("a") == "lost"
    after.die()


def test_a_full_disk_keeps_events_and_starts_nothing(state: Path) -> None:
    life = running(state)
    pages = life.journal._db.execute("PRAGMA page_count").fetchone()[0]
    life.journal._db.execute(f"PRAGMA max_page_count = {pages}")
    big = job(life) | {"placement_id": "b", "gpus": [life.uuids[1]], "env": {"X": "x" * 60_000}}
    with pytest.raises(JournalError):
        life.agent.offer(document(2, job(life), big))
    life.tick()
    assert life.processes.find("b") is None
    life.journal._db.execute("PRAGMA max_page_count = 1000000")
    assert life.agent.offer(document(2, job(life), big))
    life.tick()
    assert life.state_of("b") == "running"
    assert life.kinds().count("placement_started") == 2
    life.die()


def is_frozen(state: Path) -> bool:
    return bool(json.loads((state / "placements" / "a" / "state.json").read_text())["is_frozen"])


def duty_pct(state: Path) -> float:
    return float(json.loads((state / "placements" / "a" / "state.json").read_text())["duty_pct"])
