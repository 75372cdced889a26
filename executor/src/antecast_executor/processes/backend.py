"""Placements as process trees under supervisors, in whichever way this machine can hold them.

Nothing is remembered here that a second executor would miss: who runs, by which means, and what holds it
is read from the placement's folder, which its supervisor writes.

Under systemd the executor's unit needs `KillMode=process` (or stopping the executor ends the supervisors)
and `Delegate=yes` (or it may not make groups).
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from antecast_executor.interfaces import (
    Capability,
    DeviceError,
    EffectiveAt,
    Enforcement,
    Exit,
    InForce,
    ProcessId,
)
from antecast_executor.processes import cgroups, launching, procfs, supervisor
from antecast_executor.processes.launching import KILL_WAIT_S, removed, swept, until
from antecast_executor.processes.means import CgroupV1, CgroupV2, Means, Signals, of_text

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_INHERITED = ("PATH", "HOME", "LANG")
_ANSWER_WAIT_S = 5.0
_SUPERVISOR_WAIT_S = 5.0
_POLL_S = 0.002
_MIN_DUTY_PCT = 1.0
_HOW = {
    CgroupV2.name: "cgroup v2 freezer",
    CgroupV1.name: "cgroup v1 freezer",
    Signals.name: "SIGSTOP and SIGCONT: anyone with the right may undo it",
}


class SupervisedProcesses:
    """`ProcessBackend`: cgroup v2 where it can be used, else the v1 freezer, else signals."""

    def __init__(self, root: Path, means: str = "auto", *, pause_ttl_s: float = 900.0) -> None:
        """Find the means and become the executor of all placements under `root`.

        Args:
            root: folder of the placements' files; short-lived (/run) or not, both will do.
            means: `cgroup_v2`, `cgroup_v1`, `signals`, or `auto` for the first that works.
            pause_ttl_s: how long a pause or throttle outlasts an executor that does not come back.

        Raises:
            DeviceError: `unsupported` if the means asked for cannot be used here.
        """
        self._root = root.absolute()
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pause_ttl_s = pause_ttl_s
        self._locks: dict[str, threading.Lock] = {}
        self._base_lock = threading.Lock()
        self._boot_id = procfs.boot_id()
        self._reasons: dict[str, str] = {}
        self._base: Path | None = None
        self.means = self._choose(means)
        me = _stat(os.getpid())
        supervisor.write_json(
            str(self._root / "executor.json"),
            {"pid": os.getpid(), "start_ticks": me.start_ticks, "boot_id": self._boot_id},
        )

    # Life

    def launch(
        self,
        placement_id: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: Path | None,
        log: Path,
    ) -> ProcessId:
        """Start a command under a new supervisor."""
        folder = self._folder(placement_id)
        earlier = self.find(placement_id)
        if earlier is not None and (self.is_alive(earlier) or self.pids(placement_id, earlier)):
            raise DeviceError("launch_failed", f"placement {placement_id} runs already")
        spec = {
            "argv": list(argv),
            "env": {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **env},
            "cwd": str(cwd or "/"),
            "log": str(log.absolute()),
            "pause_ttl_s": self._pause_ttl_s,
        }
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            spec["means"] = self._prepare(placement_id)
            pid, answer = launching.spawn(folder, json.dumps(spec).encode())
        except OSError as error:
            self._clear(placement_id)
            reason = f"{error.strerror or error}: {error.filename or ''}"
            raise DeviceError("launch_failed", reason) from error
        start_ticks = answer.get("start_ticks")
        if not isinstance(start_ticks, int):
            self._abandon(placement_id, pid)
            raise DeviceError("launch_failed", str(answer.get("failure") or "its supervisor did not answer"))
        return ProcessId(pid, start_ticks, self._boot_id)

    def find(self, placement_id: str) -> ProcessId | None:
        """A placement's supervisor of this boot, as it left itself in the placement's folder."""
        state = self._state(placement_id)
        pid, ticks, boot_id = state.get("pid"), state.get("start_ticks"), state.get("boot_id")
        if not (isinstance(pid, int) and isinstance(ticks, int) and boot_id == self._boot_id):
            return None
        return ProcessId(pid, ticks, self._boot_id)

    def is_alive(self, process: ProcessId) -> bool:
        """Whether this very supervisor runs."""
        found = procfs.stat(process.pid)
        if found is None or found.start_ticks != process.start_ticks or process.boot_id != self._boot_id:
            return False
        if not found.is_running:
            launching.collect(process.pid)
        return found.is_running

    def pids(self, placement_id: str, process: ProcessId) -> Sequence[int]:
        """All processes of the placement, its supervisor left out."""
        means = self._means(placement_id, process)
        return [] if means is None else means.pids()

    def exit_of(self, placement_id: str, process: ProcessId) -> Exit | None:
        """How the command ended; None while anything of the placement runs.

        A supervisor that was killed leaves its command without one. It is then not alive, and there is no
        exit before `kill` has ended the rest.
        """
        is_alive = self.is_alive(process)  # before the file: it is written first
        exit_ = self._exit(placement_id, process)
        if exit_ is not None or is_alive or self.pids(placement_id, process):
            return exit_
        return Exit(exit_code=None, signal=None, ended_s=time.time(), is_known=False)

    # Holding

    def pause(self, placement_id: str, process: ProcessId) -> InForce:
        """Stop all threads of the placement."""
        return self._hold(placement_id, process, is_paused=True)

    def resume(self, placement_id: str, process: ProcessId) -> InForce:
        """Let them go on, under the duty cycle if there is one."""
        return self._hold(placement_id, process, is_paused=False)

    def throttle(self, placement_id: str, process: ProcessId, duty_pct: float) -> InForce:
        """Let them run only part of the time. It holds CPU threads: work already on the GPU finishes."""
        wanted = min(100.0, max(_MIN_DUTY_PCT, duty_pct))
        state, reason = self._ask(placement_id, process, {"duty_pct": wanted})
        found = state.get("duty_pct")
        in_force = float(found) if not reason and isinstance(found, int | float) else None
        return InForce(duty_pct, in_force, EffectiveAt.NOW, Enforcement.ADVISORY, reason)

    def terminate(self, placement_id: str, process: ProcessId) -> None:
        """SIGTERM to every process of the placement, running again if it was held."""
        means = self._means(placement_id, process)
        if means is not None:
            self._let_go(placement_id, process, means)
            means.signal(signal.SIGTERM)

    def kill(self, placement_id: str, process: ProcessId) -> None:
        """End the placement, frozen or not, and its supervisor if that does not end by itself."""
        means = self._means(placement_id, process)
        if means is None:
            return
        until(lambda: swept(means), KILL_WAIT_S)
        if not until(lambda: not self.is_alive(process), _SUPERVISOR_WAIT_S):
            self._signal_supervisor(process, signal.SIGKILL)

    def forget(self, placement_id: str, process: ProcessId) -> None:
        """Remove an ended placement's group and files."""
        if self.is_alive(process) or self.pids(placement_id, process):
            raise DeviceError("still_alive", f"placement {placement_id} still runs")
        means = self._means(placement_id, process)
        self._clear(placement_id, means)

    def capabilities(self) -> Sequence[Capability]:
        """What can be done here, and which better means were not to be had."""
        missing = "; ".join(f"{name}: {reason}" for name, reason in self._reasons.items())
        how = _HOW[self.means] + (f" ({missing})" if missing else "")
        native = [
            Capability(name, True, Enforcement.NATIVE, EffectiveAt.NOW, how)
            for name in ("launch", "pause", "resume", "stop")
        ]
        throttle = Capability(
            "throttle", True, Enforcement.ADVISORY, EffectiveAt.NOW, f"duty cycle of the {how}"
        )
        return [*native, throttle]

    # Inside

    def _choose(self, wanted: str) -> str:
        name = f"antecast-{hashlib.sha256(str(self._root).encode()).hexdigest()[:12]}"
        for kind in (CgroupV2.name, CgroupV1.name):
            if wanted in (kind, "auto"):
                self._base, reason = cgroups.find(kind, name)
                if self._base is not None:
                    return kind
                self._reasons[kind] = reason
        if wanted in (Signals.name, "auto"):
            return Signals.name
        raise DeviceError("unsupported", f"{wanted}: {self._reasons.get(wanted, 'no such means')}")

    def _prepare(self, placement_id: str) -> str:
        """An empty, thawed group for a placement; its text for the supervisor."""
        if self._base is None:
            return Signals.name
        group = of_text(f"{self.means}:{self._base / placement_id}")
        with self._base_lock:
            group.remove()
            group.create()
        return group.text()

    def _clear(self, placement_id: str, means: Means | None = None) -> None:
        """Remove what an ended or failed placement left: its group and its files."""
        if means is None and self._base is not None:
            means = of_text(f"{self.means}:{self._base / placement_id}")
        if means is not None:
            until(lambda: removed(means), KILL_WAIT_S)
        if self._base is not None:
            with self._base_lock, contextlib.suppress(OSError):  # others' groups are in it
                self._base.rmdir()
        shutil.rmtree(self._folder(placement_id), ignore_errors=True)

    def _abandon(self, placement_id: str, pid: int) -> None:
        """End a supervisor that did not start its command, or not in time, and what it did start."""
        launching.abandon(pid)
        if self._base is not None:
            group = of_text(f"{self.means}:{self._base / placement_id}")
            until(lambda: swept(group), KILL_WAIT_S)
        self._clear(placement_id)

    def _folder(self, placement_id: str) -> Path:
        if not _NAME.fullmatch(placement_id) or placement_id == "executor.json":
            raise DeviceError("launch_failed", f"not a placement id: {placement_id!r}")
        return self._root / placement_id

    def _state(self, placement_id: str) -> dict[str, object]:
        return supervisor.read_json(str(self._folder(placement_id) / "state.json"))

    def _means(self, placement_id: str, process: ProcessId) -> Means | None:
        """What holds the placement, if its files are this very process's and of this boot."""
        state = self._state(placement_id)
        if process.boot_id != self._boot_id or not _is_of(state, process):
            return None
        return of_text(str(state["means"]))

    def _exit(self, placement_id: str, process: ProcessId) -> Exit | None:
        found = supervisor.read_json(str(self._folder(placement_id) / "exit.json"))
        if not _is_of(found, process):
            return None
        exit_code, number, ended_s = found.get("exit_code"), found.get("signal"), found.get("ended_s")
        return Exit(
            exit_code=exit_code if isinstance(exit_code, int) else None,
            signal=number if isinstance(number, int) else None,
            ended_s=float(ended_s) if isinstance(ended_s, int | float) else time.time(),
        )

    def _hold(self, placement_id: str, process: ProcessId, *, is_paused: bool) -> InForce:
        state, reason = self._ask(placement_id, process, {"is_paused": is_paused})
        in_force: float | None = None
        if not reason and is_paused and not state.get("is_frozen"):
            reason = "freezing: a thread is in a system call that cannot be interrupted"
        elif not reason:
            in_force = float(is_paused)
        return InForce(float(is_paused), in_force, EffectiveAt.NOW, Enforcement.NATIVE, reason)

    def _ask(
        self, placement_id: str, process: ProcessId, wish: Mapping[str, object]
    ) -> tuple[dict[str, object], str]:
        """Tell the supervisor what is wanted; what it says is in force, or a reason why it says nothing."""
        folder = self._folder(placement_id)
        with self._locks.setdefault(placement_id, threading.Lock()):
            if not self.is_alive(process) or not _is_of(self._state(placement_id), process):
                return {}, "not_running"
            control: dict[str, object] = {"is_paused": False, "duty_pct": 100.0, "seq": 0}
            control |= supervisor.read_json(str(folder / "control.json"))
            seq = int(str(control["seq"])) + 1
            supervisor.write_json(str(folder / "control.json"), {**control, **wish, "seq": seq})
            self._signal_supervisor(process, signal.SIGUSR1)
            for state in self._answers(placement_id):
                if int(str(state.get("seq", 0))) >= seq:
                    return state, ""
                if not self.is_alive(process):
                    return {}, "not_running"
            return {}, "no_answer: its supervisor does not answer"

    def _answers(self, placement_id: str) -> Iterator[dict[str, object]]:
        deadline = time.monotonic() + _ANSWER_WAIT_S
        while time.monotonic() < deadline:
            yield self._state(placement_id)
            time.sleep(_POLL_S)

    def _let_go(self, placement_id: str, process: ProcessId, means: Means) -> None:
        """End pause and throttle, with the supervisor's help or without."""
        _, reason = self._ask(placement_id, process, {"is_paused": False, "duty_pct": 100.0})
        if reason:
            with contextlib.suppress(OSError):
                means.thaw()

    def _signal_supervisor(self, process: ProcessId, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(process.pid)
            try:
                if self.is_alive(process):
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def _is_of(document: Mapping[str, object], process: ProcessId) -> bool:
    """Whether a supervisor's file is this very supervisor's."""
    identity = (process.pid, process.start_ticks, process.boot_id)
    return (document.get("pid"), document.get("start_ticks"), document.get("boot_id")) == identity


def _stat(pid: int) -> procfs.Stat:
    found = procfs.stat(pid)
    if found is None:
        raise DeviceError("unsupported", "/proc is not readable")
    return found
