"""MPS through NVIDIA's control program, protocol 2: one daemon for each GPU.

Of the control program only its words are to be trusted: the exit status says that the daemon answered, a
value it does not like leaves the old one in force, and it serves one caller at a time. So there is one
lane for each daemon, every value is read back, and "busy" is told apart from "dead" and from "stopped".
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from antecast_executor.devices import mps_lane, names
from antecast_executor.interfaces import (
    Capability,
    DeviceBackend,
    DeviceError,
    EffectiveAt,
    Enforcement,
    InForce,
)
from antecast_executor.processes import procfs

_POLL_S = 0.02
_SHARE_TOLERANCE_PCT = 0.05
_QUIT_WAIT_S = 5.0


class CliShare:
    """`ShareBackend` over `nvidia-cuda-mps-control`. Touches the daemons it started and no other."""

    def __init__(
        self,
        run: Path,
        *,
        control: str = "nvidia-cuda-mps-control",
        devices: DeviceBackend | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """Keep the daemons' folders under `run`/mps.

        Args:
            run: folder of this executor, short enough for the daemons' sockets.
            control: the control program, or where it is.
            devices: to tell unknown GPUs and MIG; without it every UUID is taken for a GPU.
            timeout_s: of one call of the control program, and of each wait for what it ordered.
        """
        self._run = run.absolute()
        self._control = control
        self._devices = devices
        self._timeout_s = timeout_s
        self._lanes: dict[str, mps_lane.Lane] = {}

    def ensure(self, uuid: str) -> None:
        """See to it that the GPU's daemon runs, with the cap that was asked for last."""
        lane = self._lane(uuid)
        self._check_device(uuid)
        with lane.lock:
            if lane.owner() == "foreign":
                raise DeviceError("foreign_daemon", f"{lane.folder} holds a daemon that is not ours")
            if lane.owner() == "":
                lane.start()
            wanted = lane.wanted_pct()
            if abs(_number(lane.ask("get_default_active_thread_percentage")) - wanted) > _SHARE_TOLERANCE_PCT:
                self._cap(lane, wanted)

    def client_env(
        self, uuid: str, *, share_pct: float, memory_mib: int | None, priority: int
    ) -> Mapping[str, str]:
        """Environment of a worker about to start.

        A client can only lower the daemon's cap, so a cap below its share is raised first.
        """
        lane = self._lane(uuid)
        share = names.checked_share(share_pct)
        env = names.mps_env(uuid, share, memory_mib, priority)
        with lane.lock:
            if lane.wanted_pct() < share:
                self._cap(lane, share)
        env["CUDA_MPS_PIPE_DIRECTORY"] = str(lane.folder)
        env["CUDA_MPS_LOG_DIRECTORY"] = str(lane.log)
        return env

    def set_share(self, uuid: str, pid: int | None, share_pct: float) -> InForce:
        """Cap all workers that start from now on; or, with `pid`, read what holds for that worker."""
        lane = self._lane(uuid)
        share = names.checked_share(share_pct)
        if pid is not None:
            return self._of_client(uuid, pid, share)
        with lane.lock:
            in_force = self._cap(lane, share)
            has_server = bool(self._servers(lane))
        at = EffectiveAt.NEXT_CLIENT if has_server else EffectiveAt.NEXT_SERVER
        reason = "" if abs(in_force - share) <= _SHARE_TOLERANCE_PCT else "the daemon did not take it"
        return InForce(share_pct, in_force, at, Enforcement.NATIVE, reason)

    def clients(self, uuid: str) -> Sequence[int]:
        """PIDs attached to the GPU's servers; none where no daemon of ours was ever started."""
        lane = self._lane(uuid)
        with lane.lock:
            if not lane.has_been_started():
                return []
            return sorted(pid for server in self._servers(lane) for pid in self._clients(lane, server))

    def terminate_client(self, uuid: str, pid: int) -> None:
        """Destroy a client's GPU work and wait until it is off the list; nothing if it is not on it."""
        lane = self._lane(uuid)
        with lane.lock:
            for server in self._servers(lane):
                if pid in self._clients(lane, server):
                    lane.ask("terminate_client", server, pid)

        def is_gone() -> bool:
            return pid not in self.clients(uuid)

        if not _until(is_gone, self._timeout_s):
            raise DeviceError("timeout", f"client {pid} is still attached {self._timeout_s:g} s later")

    def release(self, uuid: str) -> None:
        """Stop the GPU's daemon, if it is ours; never under a client."""
        lane = self._lane(uuid)
        with lane.lock:
            if lane.owner() != "ours":
                return
            if any(self._clients(lane, server) for server in self._servers(lane)):
                raise DeviceError("in_use", f"the daemon of {uuid} has clients")
            lane.ask("quit", timeout_s=self._timeout_s + _QUIT_WAIT_S)
            if not _until(lambda: lane.owner() == "", self._timeout_s):
                raise DeviceError("timeout", f"the daemon of {uuid} does not leave")
            lane.forget()

    def capabilities(self) -> Sequence[Capability]:
        """What MPS can do here; a share of a running client is never among it."""
        has_control = shutil.which(self._control) is not None
        reason = "" if has_control else f"no_mps: {self._control} is not on this machine"
        return capabilities(has_control, reason)

    def _lane(self, uuid: str) -> mps_lane.Lane:
        names.checked_uuid(uuid)
        if uuid not in self._lanes:
            folder = self._run / "mps" / uuid
            self._lanes[uuid] = mps_lane.Lane(self._control, folder, uuid, self._timeout_s)
        return self._lanes[uuid]

    def _check_device(self, uuid: str) -> None:
        if shutil.which(self._control) is None:
            raise DeviceError("no_mps", f"{self._control} is not on this machine")
        if self._devices is None:
            return
        found = [item for item in self._devices.devices() if item.uuid == uuid]
        if not found:
            raise DeviceError("unknown_uuid", f"no GPU {uuid}")
        if found[0].is_mig:
            raise DeviceError("mig", f"GPU {uuid} is in MIG mode")

    def _cap(self, lane: mps_lane.Lane, share: float) -> float:
        """Set the cap of the next server and of the servers' next clients; the value in force."""
        lane.want(share)
        in_force = _number(lane.ask("set_default_active_thread_percentage", share))
        for server in self._servers(lane):
            in_force = min(in_force, _number(lane.ask("set_active_thread_percentage", server, share)))
        return in_force

    def _of_client(self, uuid: str, pid: int, share: float) -> InForce:
        if pid not in self.clients(uuid):
            return InForce(share, None, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, "not_attached")
        text = procfs.environ(pid).get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
        try:
            in_force = float(text) if text is not None else None
        except ValueError:
            in_force = None
        return of_live_client(share, in_force)

    def _servers(self, lane: mps_lane.Lane) -> list[int]:
        return _pids(lane.ask("get_server_list"))

    def _clients(self, lane: mps_lane.Lane, server: int) -> list[int]:
        try:
            return _pids(lane.ask("get_client_list", server))
        except DeviceError as error:
            if error.code == "no_server":  # it left between the two questions
                return []
            raise


def of_live_client(share_pct: float, in_force: float | None) -> InForce:
    """What to say of a client that runs: it keeps the share it started with."""
    if in_force is None:
        reason = "the share it started with cannot be read"
    elif abs(in_force - share_pct) <= _SHARE_TOLERANCE_PCT:
        reason = ""
    else:
        reason = "a running client keeps the share it started with"
    return InForce(share_pct, in_force, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, reason)


def capabilities(is_supported: bool, reason: str) -> list[Capability]:
    """The same list for every back-end of MPS."""
    by = Enforcement.NATIVE if is_supported else Enforcement.UNSUPPORTED
    never = "an MPS share is read once, when a client starts"
    return [
        Capability("set_share", is_supported, by, EffectiveAt.NEXT_CLIENT, reason),
        Capability("memory_cap", is_supported, by, EffectiveAt.NEXT_CLIENT, reason),
        Capability("priority", is_supported, by, EffectiveAt.NEXT_CLIENT, reason),
        Capability("terminate_client", is_supported, by, EffectiveAt.NOW, reason),
        Capability("set_share_live", False, Enforcement.UNSUPPORTED, EffectiveAt.NEXT_CLIENT, never),
    ]


def _number(text: str) -> float:
    """The value a command echoes; the last line, since warnings may come before it."""
    lines = text.split("\n") if text else []
    try:
        return float(lines[-1])
    except (IndexError, ValueError) as error:
        raise DeviceError("mps_error", f"no number in the control program's reply: {text[:200]!r}") from error


def _pids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split()]
    except ValueError as error:
        raise DeviceError("mps_error", f"no list of processes: {text[:200]!r}") from error


def _until(is_done: Callable[[], bool], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
