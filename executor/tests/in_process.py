"""An agent in this process over real process trees on simulated GPUs, with a way to die at any point."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from antecast_executor import processes
from antecast_executor.agent import Agent
from antecast_executor.clock import Clock, read_boot_id
from antecast_executor.devices import make
from antecast_executor.interfaces import Capability, Exit, InForce, ProcessBackend, ProcessId, ShareBackend
from antecast_executor.journal import Journal
from antecast_executor.primitives import Node


class Crash(BaseException):
    """The executor is killed here."""


class Mortal:
    """`ProcessBackend` that kills the executor right before or right after one call."""

    def __init__(self, real: ProcessBackend) -> None:
        self.real = real
        self.crash_at: tuple[str, str] | None = None

    def _call(self, name: str, function: Callable[[], Any]) -> Any:
        if self.crash_at == (name, "before"):
            raise Crash
        result = function()
        if self.crash_at == (name, "after"):
            raise Crash
        return result

    def launch(
        self, placement_id: str, argv: Sequence[str], env: Mapping[str, str], *, cwd: Path | None, log: Path
    ) -> ProcessId:
        found: ProcessId = self._call(
            "launch", lambda: self.real.launch(placement_id, argv, env, cwd=cwd, log=log)
        )
        return found

    def find(self, placement_id: str) -> ProcessId | None:
        return self.real.find(placement_id)

    def is_alive(self, process: ProcessId) -> bool:
        return self.real.is_alive(process)

    def pids(self, placement_id: str, process: ProcessId) -> Sequence[int]:
        return self.real.pids(placement_id, process)

    def exit_of(self, placement_id: str, process: ProcessId) -> Exit | None:
        return self.real.exit_of(placement_id, process)

    def pause(self, placement_id: str, process: ProcessId) -> InForce:
        answer: InForce = self._call("pause", lambda: self.real.pause(placement_id, process))
        return answer

    def resume(self, placement_id: str, process: ProcessId) -> InForce:
        answer: InForce = self._call("resume", lambda: self.real.resume(placement_id, process))
        return answer

    def throttle(self, placement_id: str, process: ProcessId, duty_pct: float) -> InForce:
        answer: InForce = self._call("throttle", lambda: self.real.throttle(placement_id, process, duty_pct))
        return answer

    def terminate(self, placement_id: str, process: ProcessId) -> None:
        self._call("terminate", lambda: self.real.terminate(placement_id, process))

    def kill(self, placement_id: str, process: ProcessId) -> None:
        self._call("kill", lambda: self.real.kill(placement_id, process))

    def forget(self, placement_id: str, process: ProcessId) -> None:
        self.real.forget(placement_id, process)

    def capabilities(self) -> Sequence[Capability]:
        return self.real.capabilities()


class Life:
    """One life of an executor on a state that outlives it."""

    def __init__(
        self,
        state: Path,
        *,
        boot_id: str | None = None,
        share: ShareBackend | None = None,
        has_telemetry: bool = True,
    ) -> None:
        (state / "logs").mkdir(parents=True, exist_ok=True)
        self.boot_id = boot_id or read_boot_id()
        self.journal = Journal(state / "journal.sqlite", boot_id=self.boot_id)
        backends = make("sim", state / "run", node="n")
        self.processes = Mortal(processes.make(state / "placements"))
        self.skip_s = 0.0
        real = Clock()
        clock = Clock(real.wall, lambda: real.monotonic() + self.skip_s)
        self.node = Node(backends.devices, share or backends.share, self.processes, clock, state / "logs")
        telemetry = backends.telemetry if has_telemetry else None
        self.agent = Agent(self.node, self.journal, boot_id=self.boot_id, telemetry=telemetry)
        self.agent.start()

    @property
    def uuids(self) -> list[str]:
        return [item.uuid for item in self.node.devices.devices()]

    def state_of(self, name: str) -> str | None:
        for item in self.agent.report()["placements"]:
            if item["placement_id"] == name:
                return str(item["state"])
        return None

    def condition(self, name: str, primitive: str) -> dict[str, Any]:
        for item in self.agent.report()["placements"]:
            for found in item["conditions"] if item["placement_id"] == name else []:
                if found["primitive"] == primitive:
                    return dict(found)
        return {}

    def kinds(self) -> list[str]:
        return [item["kind"] for item in self.journal.pending()]

    def tick(self) -> None:
        """A tick, later than any back-off or dwell of the one before."""
        self.skip_s += 31.0
        self.agent.step()

    def die(self) -> None:
        self.agent.close()
        self.journal.close()
