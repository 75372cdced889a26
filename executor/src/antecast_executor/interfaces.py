"""What the executor asks of a node: devices, sharing and processes, each behind one interface.

Every back-end says what it can do (`Capability`) and what is really in force (`InForce`), never what was
merely asked for. A value that is not known is None with a reason, never 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Enforcement(StrEnum):
    """By what means a primitive is carried out."""

    NATIVE = "native"
    COOPERATIVE = "cooperative"
    RESTART = "restart"
    ADVISORY = "advisory"
    UNSUPPORTED = "unsupported"


class EffectiveAt(StrEnum):
    """From when on it holds."""

    NOW = "now"
    NEXT_STEP = "next_step"
    NEXT_CLIENT = "next_client"
    NEXT_SERVER = "next_server"
    NEXT_DAEMON = "next_daemon"


@dataclass(frozen=True, slots=True)
class Capability:
    """Whether a node can do something, by what means, from when on, and why not."""

    name: str
    supported: bool
    enforcement: Enforcement
    effective_at: EffectiveAt
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A measured value, or None and why (not_supported, no_permission, not_found, lost, error)."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InForce:
    """What was asked for, what was read back, and from when on it holds.

    Attributes:
        requested, in_force: the value asked for and the value read back; None where it cannot be read.
        effective_at: from when on the value in force holds for the worker in question.
        enforcement: by what means.
        reason: empty, or why `in_force` differs from `requested`.
    """

    requested: float
    in_force: float | None
    effective_at: EffectiveAt
    enforcement: Enforcement
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as it is now. Identity is the UUID; the index is for display."""

    uuid: str
    index: int
    name: str
    memory_total_mib: Reading
    memory_reserved_mib: Reading
    memory_used_mib: Reading
    utilisation_pct: Reading
    temperature_c: Reading
    is_mig: bool = False
    is_lost: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds GPU memory."""

    pid: int
    memory_used_mib: Reading


class DeviceError(Exception):
    """A back-end could not do what it was asked to. `code` is one word, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DeviceBackend(Protocol):
    """NVML, read only: this product never changes clocks, modes or MIG, and resets nothing."""

    def devices(self) -> Sequence[Device]:
        """All GPUs now; one that is lost is listed as lost and does not hide the others.

        Raises:
            DeviceError: if there is no driver or library (`no_library`, `no_driver`, `version_mismatch`).
        """
        ...

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        """Who holds memory on a GPU.

        Raises:
            DeviceError: `unknown_uuid`, `lost`, or as `devices`.
        """
        ...

    def capabilities(self) -> Sequence[Capability]:
        """What can be read here."""
        ...

    def close(self) -> None:
        """Let the library go."""
        ...


class ShareBackend(Protocol):
    """MPS: one control daemon per GPU (one fault domain each), one serialised lane per daemon."""

    def ensure(self, uuid: str) -> None:
        """See to it that the GPU's daemon runs, and put its defaults in force again.

        Raises:
            DeviceError: `no_mps`, `mig`, `unknown_uuid`, `timeout`, `crash_loop`.
        """
        ...

    def client_env(
        self, uuid: str, *, share_pct: float, memory_mib: int | None, priority: int
    ) -> Mapping[str, str]:
        """Environment of a worker that is about to start on this GPU under these caps."""
        ...

    def set_share(self, uuid: str, pid: int | None, share_pct: float) -> InForce:
        """Cap the SMs of workers that start from now on; with `pid`, say what holds for that worker.

        A share never changes for a client that runs: for it the answer is `next_client`, and `in_force`
        is the share it started with.
        """
        ...

    def clients(self, uuid: str) -> Sequence[int]:
        """PIDs attached to the GPU's servers."""
        ...

    def terminate_client(self, uuid: str, pid: int) -> None:
        """Take a client's GPU work away before anything signals it (killing it first can hang neighbours)."""
        ...

    def release(self, uuid: str) -> None:
        """Stop the GPU's daemon, if it is ours."""
        ...

    def capabilities(self) -> Sequence[Capability]:
        """What sharing can do here."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process beyond doubt: a PID alone can be another's tomorrow.

    Attributes:
        pid: of the placement's supervisor, leader of a session and process group of its own.
        start_ticks: field 22 of /proc/<pid>/stat.
        boot_id: of the kernel it was started under.
    """

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a placement's command ended.

    Attributes:
        exit_code: its status; None if it was killed by a signal or nobody saw it.
        signal: number of the signal that killed it; None otherwise.
        ended_s: instant, seconds since 1970, UTC.
        is_known: False if it vanished without leaving a status.
    """

    exit_code: int | None
    signal: int | None
    ended_s: float
    is_known: bool = True


class ProcessBackend(Protocol):
    """Process trees, each in a cgroup of its own where that is allowed, else in a session of its own.

    A placement's command runs under a small supervisor that outlives the executor and leaves the command's
    exit status in a file, so that an executor that starts again adopts what runs and learns how it ended.
    """

    def launch(
        self,
        placement_id: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: Path | None,
        log: Path,
    ) -> ProcessId:
        """Start a command. `env` is all it gets, besides PATH, HOME and LANG of the executor.

        Raises:
            DeviceError: `launch_failed` with the system's reason (no such file, not permitted, ...).
        """
        ...

    def find(self, placement_id: str) -> ProcessId | None:
        """The placement's supervisor, by what it left itself: for a launch that nobody wrote down.

        None if no supervisor of that placement came as far as starting the command.
        """
        ...

    def is_alive(self, process: ProcessId) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        ...

    def pids(self, placement_id: str, process: ProcessId) -> Sequence[int]:
        """All processes of the placement, its supervisor left out."""
        ...

    def exit_of(self, placement_id: str, process: ProcessId) -> Exit | None:
        """How the command ended; None while it runs."""
        ...

    def pause(self, placement_id: str, process: ProcessId) -> InForce:
        """Stop all its threads where they are; memory stays allocated (1 in force: paused)."""
        ...

    def resume(self, placement_id: str, process: ProcessId) -> InForce:
        """Let it go on (0 in force: not paused)."""
        ...

    def throttle(self, placement_id: str, process: ProcessId, duty_pct: float) -> InForce:
        """Let it run only `duty_pct` of the time, in slices of at least 50 ms; 100 ends it."""
        ...

    def terminate(self, placement_id: str, process: ProcessId) -> None:
        """Ask it to end (SIGTERM to all of it), thawed first if it was frozen."""
        ...

    def kill(self, placement_id: str, process: ProcessId) -> None:
        """End it at once, frozen or not, whatever it forked."""
        ...

    def forget(self, placement_id: str, process: ProcessId) -> None:
        """Remove its cgroup and status file once it has ended."""
        ...

    def capabilities(self) -> Sequence[Capability]:
        """What can be done to processes here, and by which means."""
        ...
