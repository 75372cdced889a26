"""What a tick would do, printed and not done: a copy of the journal, processes that are only looked at."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from antecast_executor.agent import Agent
from antecast_executor.client import Client, Credentials
from antecast_executor.interfaces import (
    Capability,
    DeviceError,
    EffectiveAt,
    Enforcement,
    Exit,
    InForce,
    ProcessId,
)
from antecast_executor.processes import procfs


class OnlyLook:
    """`ProcessBackend` that sees what runs and touches nothing."""

    def launch(
        self,
        placement_id: str,
        argv: Sequence[str],  # noqa: ARG002
        env: Mapping[str, str],  # noqa: ARG002
        *,
        cwd: Path | None,  # noqa: ARG002
        log: Path,  # noqa: ARG002
    ) -> ProcessId:
        """No."""
        self._no(placement_id)

    def find(self, placement_id: str) -> ProcessId | None:  # noqa: ARG002
        """What is not in the journal is not known here."""
        return None

    def is_alive(self, process: ProcessId) -> bool:
        """Whether this very process runs."""
        return process.boot_id == procfs.boot_id() and procfs.is_same(process.pid, process.start_ticks)

    def pids(self, placement_id: str, process: ProcessId) -> Sequence[int]:  # noqa: ARG002
        """Not looked for."""
        return []

    def exit_of(self, placement_id: str, process: ProcessId) -> Exit | None:  # noqa: ARG002
        """Whether it has ended; how is not looked for."""
        return None if self.is_alive(process) else Exit(None, None, 0.0, is_known=False)

    def pause(self, placement_id: str, process: ProcessId) -> InForce:  # noqa: ARG002
        """No."""
        self._no(placement_id)

    def resume(self, placement_id: str, process: ProcessId) -> InForce:  # noqa: ARG002
        """No."""
        self._no(placement_id)

    def throttle(self, placement_id: str, process: ProcessId, duty_pct: float) -> InForce:  # noqa: ARG002
        """No."""
        self._no(placement_id)

    def terminate(self, placement_id: str, process: ProcessId) -> None:  # noqa: ARG002
        """No."""
        self._no(placement_id)

    def kill(self, placement_id: str, process: ProcessId) -> None:  # noqa: ARG002
        """No."""
        self._no(placement_id)

    def forget(self, placement_id: str, process: ProcessId) -> None:  # noqa: ARG002
        """No."""
        self._no(placement_id)

    def capabilities(self) -> Sequence[Capability]:
        """Taken to be all there."""
        native = [
            Capability(name, True, Enforcement.NATIVE, EffectiveAt.NOW)
            for name in ("launch", "pause", "resume", "stop")
        ]
        return [*native, Capability("throttle", True, Enforcement.ADVISORY, EffectiveAt.NOW)]

    def _no(self, placement_id: str) -> NoReturn:
        raise DeviceError("dry_run", f"{placement_id}: a dry run touches nothing")


def run(client: Client, who: Credentials, agent: Agent, write: Callable[[str], object]) -> None:
    """Fetch the document that is wanted now, and write the actions of the next tick, one JSON line each."""
    session = client.open_session(who, agent.introduction())
    raw = client.desired(who, session.number, after=agent.after, wait_s=0)
    if raw is not None and not agent.offer(raw):
        _write(write, {"refusals": agent.report()["refusals"]})
        return
    steps = agent.plan()
    for action in steps.actions:
        _write(write, agent.describe(action))
    for placement_id, reason in steps.waiting.items():
        _write(write, {"waits": "launch", "placement_id": placement_id, "reason": reason})


def _write(write: Callable[[str], object], body: Mapping[str, Any]) -> None:
    write(json.dumps(body) + "\n")
