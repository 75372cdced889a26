"""The agent as a real process on a simulated node."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from control_plane import DEADLINE_S, ControlPlane

from antecast_executor import processes
from antecast_executor.devices import make

# Ends with the status that is written into the file named by its first argument; until then it waits.
WAITER = """
import pathlib, sys, time
path = pathlib.Path(sys.argv[1])
while not path.exists():
    time.sleep(0.01)
sys.exit(int(path.read_text()))
"""
# As a job that saves its work for too long: SIGTERM is nothing to it.
STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text("deaf")
while True:
    time.sleep(0.05)
"""


class AgentProcess:
    """One node's agent, to be started, killed and started again."""

    def __init__(
        self, plane: ControlPlane, folder: Path, *, sim_gpus: int = 2, python: Path | None = None
    ) -> None:
        self.plane = plane
        self.python = str(python or sys.executable)
        self.state = folder / "state"
        self.folder = folder
        self.sim_gpus = sim_gpus
        self.log = folder / "agent.log"
        self.process: subprocess.Popen[bytes] | None = None
        token = folder / "token"
        token.write_text(plane.token)
        token.chmod(0o600)

    def command(self, *more: str) -> list[str]:
        options = {
            "--url": self.plane.url,
            "--state": str(self.state),
            "--token-file": str(self.folder / "token"),
            "--node": "node-1",
            "--devices": "sim",
            "--sim-gpus": str(self.sim_gpus),
            "--tick-s": "0.1",
        }
        words = [word for pair in options.items() for word in pair]
        return [self.python, "-m", "antecast_executor", "run", *words, *more]

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log, stdout=log, cwd=self.folder)

    def kill(self) -> None:
        """As the kernel does it when memory is short."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def stop(self) -> int:
        """As systemd does it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def gpus(self) -> list[str]:
        """UUIDs, once the agent has introduced itself."""
        introduction = self.plane.wait("a session", lambda: self.plane.sessions[-1:])[0]
        return [item["uuid"] for item in introduction["devices"]]

    def lose_gpu(self, uuid: str, *, is_lost: bool = True) -> None:
        backends = make("sim", self.state / "run", node="node-1")
        backends.devices._world.set_gpu(uuid, is_lost=is_lost)  # type: ignore[attr-defined]

    def waiter(self, name: str) -> list[str]:
        """A command that runs until `let_end`."""
        return [sys.executable, "-c", WAITER, str(self.folder / f"{name}.end")]

    def let_end(self, name: str, status: int) -> None:
        draft = self.folder / f"{name}.draft"
        draft.write_text(str(status))
        draft.rename(self.folder / f"{name}.end")

    def logs(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        end_all(self.state)


def end_all(state: Path) -> None:
    """End what a test has left running, and take its group away."""
    holders = processes.make(state / "placements")
    for path in (state / "placements").iterdir():
        found = holders.find(path.name) if path.is_dir() else None
        if found is not None:
            holders.kill(path.name, found)
            holders.forget(path.name, found)
    if holders._base is not None and holders._base.exists():
        holders._base.rmdir()


@contextmanager
def agent_on(plane: ControlPlane, folder: Path, *, sim_gpus: int = 2) -> Iterator[AgentProcess]:
    """A running agent; nothing of it is left afterwards."""
    agent = AgentProcess(plane, folder, sim_gpus=sim_gpus)
    agent.start()
    try:
        yield agent
    except BaseException:
        sys.stderr.write(agent.log.read_text())
        raise
    finally:
        agent.clean_up()


def is_running(pid: int) -> bool:
    """Whether a process runs that is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def wait_gone(pid: int) -> None:
    """Until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], DEADLINE_S)[0], f"{pid} still runs"
    finally:
        os.close(handle)
