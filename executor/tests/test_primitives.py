"""Primitives and their retries, in one process, with real process trees and simulated sharing."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_process import STUBBORN, end_all
from control_plane import placement
from in_process import Life
from test_crash import document

from antecast_executor.actuator import Actuator
from antecast_executor.interfaces import Capability, DeviceError, EffectiveAt, Enforcement, ShareBackend
from antecast_executor.primitives import PRIMITIVES
from antecast_executor.primitives.base import Node

SLEEP = ["sleep", "3600"]


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    state = tmp_path / "state"
    running = Life(state)
    yield running
    running.die()
    end_all(state)


class Told:
    """`ShareBackend` that notes what it is told, in the order of all that is noted."""

    def __init__(self, real: ShareBackend, notes: list[str]) -> None:
        self.real = real
        self.notes = notes
        self.broken = ""

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.real, name)

        def call(*arguments: Any, **more: Any) -> Any:
            if name == self.broken:
                raise DeviceError("timeout", "the daemon does not answer")
            self.notes.append(name)
            return function(*arguments, **more)

        return call


def told(life: Life) -> Told:
    """Put ears into an agent."""
    ears = Told(life.node.share, [])
    node = replace(life.node, share=ears)
    life.agent._node = life.agent._observer._node = node
    life.agent._actuator = Actuator(node, life.journal)
    return ears


def test_every_primitive_says_whether_it_can_be_done(life: Life) -> None:
    for primitive in PRIMITIVES.values():
        can = primitive.supported(life.node)
        assert can.supported
        assert can.enforcement is not Enforcement.UNSUPPORTED


def test_gpu_work_is_taken_away_before_the_kill(
    life: Life, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    ears, mark = told(life), tmp_path / "deaf"
    job = placement("a", [sys.executable, "-c", STUBBORN, str(mark)], [life.uuids[0]], grace_s=20.0)
    life.agent.offer(document(1, job))
    life.tick()
    eventually(mark.exists, "the job to be deaf")
    life.tick()
    assert life.condition("a", "launch")["state"] == "verified"
    life.agent.offer(document(2))
    life.agent.step()
    assert life.condition("a", "stop")["reason"] == "asked to end"
    assert "terminate_client" not in ears.notes, "not before its grace is over"
    life.skip_s += 21.0
    life.agent.step()
    assert life.condition("a", "stop")["reason"] == "GPU work taken away"
    assert "terminate_client" in ears.notes
    process = life.processes.find("a")
    assert process is not None
    assert life.processes.is_alive(process)
    life.agent.step()

    def is_over() -> bool:
        life.agent.step()
        return life.state_of("a") == "ended"

    eventually(is_over, "the end")
    assert life.condition("a", "stop")["state"] == "verified"


def test_a_daemon_that_does_not_answer_delays_a_launch_and_no_more(life: Life) -> None:
    ears = told(life)
    ears.broken = "ensure"
    life.agent.offer(document(1, placement("a", SLEEP, [life.uuids[0]])))
    life.agent.step()
    waiting = life.condition("a", "launch")
    assert (waiting["state"], waiting["in_force"]) == ("accepted", None)
    assert "timeout" in waiting["reason"]
    ears.broken = ""
    life.agent.step()
    assert life.state_of("a") == "launching", "not before the back-off is over"
    life.tick()
    assert life.state_of("a") == "running"
    assert life.kinds() == ["placement_started"]


def test_a_daemon_that_does_not_answer_keeps_no_squeeze_from_time_slices(life: Life) -> None:
    ears = told(life)
    job = placement("a", SLEEP, [life.uuids[0]])
    life.agent.offer(document(1, job))
    life.tick()
    ears.broken = "clients"
    life.agent.offer(document(2, job | {"share_pct": 50.0}))
    life.tick()
    squeezed = life.condition("a", "squeeze")
    assert (squeezed["state"], squeezed["enforcement"], squeezed["in_force"]) == (
        "effective",
        "advisory",
        50.0,
    )


def test_a_cap_of_a_daemon_is_not_set_where_it_would_bind_a_neighbour(life: Life) -> None:
    ears = told(life)
    first = placement("a", SLEEP, [life.uuids[0]], share_pct=60.0)
    second = placement("b", SLEEP, [life.uuids[0]], share_pct=40.0)
    life.agent.offer(document(1, first, second))
    life.tick()
    life.tick()
    assert life.condition("b", "launch")["in_force"] == 40.0
    with_world: Any = life.node.share
    before = cap_pct(with_world, life.uuids[0])
    life.agent.offer(document(2, first | {"share_pct": 20.0}, second))
    life.tick()
    assert life.condition("a", "squeeze")["state"] == "effective"
    assert cap_pct(with_world, life.uuids[0]) == before
    assert "set_share" in ears.notes


def facts(condition: dict[str, Any]) -> tuple[str, str, float | None]:
    return condition["state"], condition["enforcement"], condition["in_force"]


def cap_pct(share: Any, uuid: str) -> float:
    with share._world.edit() as state:
        return float(state["mps"][uuid]["cap_pct"])


def test_several_gpus_start_without_mps_and_say_so(life: Life) -> None:
    ears = told(life)
    wide = placement("wide", SLEEP, life.uuids, share_pct=50.0, memory_mib=1000)
    life.agent.offer(document(1, wide))
    life.tick()
    launched = life.condition("wide", "launch")
    assert (launched["state"], launched["enforcement"], launched["in_force"]) == (
        "effective",
        "advisory",
        50.0,
    )
    assert "MPS" not in launched["reason"]
    assert "ensure" not in ears.notes
    life.tick()
    assert life.condition("wide", "launch")["state"] == "effective", "time slices are never verified"


def test_a_memory_cap_without_mps_is_said_to_be_none(life: Life) -> None:
    life.agent.offer(document(1, placement("wide", SLEEP, life.uuids, memory_mib=1000)))
    life.tick()
    assert life.condition("wide", "launch")["reason"] == "no memory cap without MPS"


class Unable:
    """`ProcessBackend` that cannot throttle."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def capabilities(self) -> Sequence[Capability]:
        never = Capability("throttle", False, Enforcement.UNSUPPORTED, EffectiveAt.NOW, "no freezer")
        return [never if item.name == "throttle" else item for item in self.real.capabilities()]

    def throttle(self, *_: Any) -> Any:
        raise AssertionError("it was said that this cannot be done")


def without_throttle(life: Life) -> Node:
    node = replace(life.node, processes=Unable(life.node.processes))
    life.agent._node = life.agent._observer._node = node
    life.agent._actuator = Actuator(node, life.journal)
    life.agent._observer.probe()
    return node


def test_without_time_slices_a_squeeze_of_a_live_client_is_not_effective(life: Life) -> None:
    without_throttle(life)
    job = placement("a", SLEEP, [life.uuids[0]])
    life.agent.offer(document(1, job))
    life.tick()
    life.agent.offer(document(2, job | {"share_pct": 50.0}))
    for _ in range(3):
        life.tick()
        squeezed = life.condition("a", "squeeze")
        assert (squeezed["state"], squeezed["effective_at"]) == ("applied", "next_client")
        assert squeezed["in_force"] == 100.0


def test_shares_do_not_flutter(life: Life) -> None:
    job = placement("a", SLEEP, [life.uuids[0]])
    life.agent.offer(document(1, job))
    life.tick()
    life.agent.offer(document(2, job | {"share_pct": 50.0}))
    life.tick()
    life.agent.offer(document(3, job))
    life.agent.step()
    assert life.condition("a", "swell") == {}, "it dwells for a moment"
    life.tick()
    assert life.condition("a", "swell")["state"] == "verified"


def test_the_same_holds_with_the_control_program(
    cli: Any, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    life = Life(tmp_path / "state", share=cli.backend)
    try:
        job = placement("a", SLEEP, [life.uuids[0]], share_pct=80.0, memory_mib=2560)
        life.agent.offer(document(1, job))

        def is_verified() -> bool:
            life.tick()
            return life.condition("a", "launch").get("state") == "verified"

        eventually(is_verified, "the job to attach")
        assert facts(life.condition("a", "launch")) == ("verified", "native", 80.0)
        life.agent.offer(document(2, job | {"share_pct": 40.0}))
        life.tick()
        assert facts(life.condition("a", "squeeze")) == ("effective", "advisory", 40.0)
        life.agent.offer(document(3, job | {"share_pct": 100.0}))
        life.tick()
        swelled = life.condition("a", "swell")
        assert (swelled["state"], swelled["in_force"], swelled["effective_at"]) == (
            "applied",
            80.0,
            "next_client",
        )
    finally:
        life.die()
        end_all(tmp_path / "state")
