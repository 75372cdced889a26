"""By what means a placement's processes are held together, stopped where they are, and ended.

Imported by the supervisor too, so nothing heavy here.
"""
# No pathlib: it would cost each placement's supervisor a megabyte.
# ruff: noqa: PTH103, PTH106

import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod

from antecast_executor.processes import procfs

_FREEZE_WAIT_S = 2.0
_FREEZE_POLL_S = 0.001
_STOP_ROUNDS = 50


class Means(ABC):
    """What every one of them can do."""

    name = ""

    @abstractmethod
    def text(self) -> str:
        """What `of_text` makes it from again, in another process."""

    def create(self) -> None:  # noqa: B027 - not every one has something to prepare
        """Prepare what holds the processes together."""

    def enter(self) -> None:  # noqa: B027
        """Put the calling process in; called between fork and exec."""

    @abstractmethod
    def pids(self) -> list[int]:
        """All processes it holds, zombies left out."""

    @abstractmethod
    def freeze(self) -> bool:
        """Stop all of them; whether they all stand."""

    @abstractmethod
    def thaw(self) -> bool:
        """Let them go on; whether they do."""

    @abstractmethod
    def kill(self) -> None:
        """End all there are now, frozen or not."""

    def remove(self) -> None:  # noqa: B027
        """Take away what `create` made, once nothing is in it."""

    def signal(self, number: int) -> None:
        """Signal every process, and none that took the number of one that has gone.

        A process that is still listed after its pidfd was opened is the one behind that pidfd.
        """
        handles: dict[int, int] = {}
        try:
            for pid in self.pids():
                with contextlib.suppress(OSError):
                    handles[pid] = os.pidfd_open(pid)
            for pid in handles.keys() & set(self.pids()):
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(handles[pid], number)
        finally:
            for handle in handles.values():
                os.close(handle)


class _Cgroup(Means):
    """A control group of its own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def text(self) -> str:
        return f"{self.name}:{self.path}"

    def create(self) -> None:
        os.makedirs(self.path, exist_ok=True)

    def enter(self) -> None:
        self._write("cgroup.procs", str(os.getpid()))

    def pids(self) -> list[int]:
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            listed = procfs.read_text(f"{folder}/cgroup.procs").split()
            # 0 is a process of another pid namespace: nothing we could signal.
            found += [
                pid for pid in map(int, listed) if pid and (seen := procfs.stat(pid)) and seen.is_running
            ]
        return found

    def remove(self) -> None:
        for folder, _, _ in os.walk(self.path, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(folder)

    def _write(self, name: str, value: str) -> None:
        # Unbuffered: the kernel's answer is the write's error.
        handle = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, value.encode())
        finally:
            os.close(handle)

    def _wait(self, name: str, wanted: str) -> bool:
        deadline = time.monotonic() + _FREEZE_WAIT_S
        while wanted not in procfs.read_text(f"{self.path}/{name}"):
            if time.monotonic() > deadline:
                return False
            time.sleep(_FREEZE_POLL_S)
        return True


class CgroupV2(_Cgroup):
    """A group of the unified hierarchy: freezes in well under a millisecond, dies even while frozen."""

    name = "cgroup_v2"

    def freeze(self) -> bool:
        """Stop all of them at once."""
        self._write("cgroup.freeze", "1")
        return self._wait("cgroup.events", "frozen 1")

    def thaw(self) -> bool:
        """Let them go on."""
        self._write("cgroup.freeze", "0")
        return self._wait("cgroup.events", "frozen 0")

    def kill(self) -> None:
        """End all of them at once, whatever they fork meanwhile."""
        try:
            self._write("cgroup.kill", "1")
        except FileNotFoundError:  # before Linux 5.14
            self.signal(signal.SIGKILL)


class CgroupV1(_Cgroup):
    """A group of the v1 freezer: SIGKILL has no effect on its frozen tasks until they are thawed."""

    name = "cgroup_v1"

    def freeze(self) -> bool:
        """Stop all of them."""
        self._write("freezer.state", "FROZEN")
        return self._wait("freezer.state", "FROZEN")

    def thaw(self) -> bool:
        """Let them go on."""
        self._write("freezer.state", "THAWED")
        return self._wait("freezer.state", "THAWED")

    def kill(self) -> None:
        """End those there are now."""
        # Frozen first, they cannot fork away from the signal; thawed, they die before they run on.
        self._write("freezer.state", "FROZEN")
        self.signal(signal.SIGKILL)
        self._write("freezer.state", "THAWED")


class Signals(Means):
    """Everything below the supervisor: it is the reaper of all it started, daemons included.

    Without its supervisor only what is below the command, and its session, can be told from strangers.
    """

    name = "signals"

    def __init__(
        self, supervisor: int, supervisor_ticks: int, command: int = 0, command_ticks: int = 0
    ) -> None:
        self.supervisor = supervisor
        self.supervisor_ticks = supervisor_ticks
        self.command = command
        self.command_ticks = command_ticks

    def text(self) -> str:
        """Whom it counts from."""
        return f"{self.name}:{self.supervisor}:{self.supervisor_ticks}:{self.command}:{self.command_ticks}"

    def pids(self) -> list[int]:
        """What is below the supervisor; without it, below the command or in its session."""
        if procfs.is_same(self.supervisor, self.supervisor_ticks):
            return procfs.descendants(self.supervisor)
        if not procfs.is_same(self.command, self.command_ticks):
            return []
        # The command still holds the session, so its number cannot be another's.
        session = [
            pid
            for pid in procfs.all_pids()
            if (seen := procfs.stat(pid)) and seen.is_running and seen.session == self.supervisor
        ]
        return sorted({*session, *procfs.descendants(self.command)})

    def freeze(self) -> bool:
        """Stop them one by one until none is left moving."""
        signalled: set[int] = set()
        for _ in range(_STOP_ROUNDS):
            # One that forks while it is being stopped leaves a child that runs: look again.
            found = set(self.pids())
            if found <= signalled and not any(_moves(pid) for pid in found):
                return True
            self.signal(signal.SIGSTOP)
            signalled = found
            time.sleep(_FREEZE_POLL_S)
        return False

    def thaw(self) -> bool:
        """Let them go on; it cannot be read back whether one was stopped by another."""
        self.signal(signal.SIGCONT)
        return True

    def kill(self) -> None:
        """Stop them, so that none forks away, and end them."""
        self.freeze()
        self.signal(signal.SIGKILL)


def _moves(pid: int) -> bool:
    """Whether a process that was sent SIGSTOP may still run code of its own.

    One in an uninterruptible call (a vfork whose child was stopped before it could exec) will not: the
    stop takes it before it leaves the kernel.
    """
    found = procfs.stat(pid)
    return found is not None and found.state not in "TtDZXx"


def of_text(text: str) -> Means:
    """The means that another process wrote down with `Means.text`."""
    name, _, rest = text.partition(":")
    if name == CgroupV2.name:
        return CgroupV2(rest)
    if name == CgroupV1.name:
        return CgroupV1(rest)
    if name == Signals.name:
        return Signals(*map(int, rest.split(":")))
    raise ValueError(f"unknown means: {text!r}")
