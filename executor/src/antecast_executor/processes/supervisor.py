"""Starts one placement's command, holds it when told to, and leaves its exit status in a file.

Run by the executor as `python -I -S supervisor.py <folder>` with a JSON document on standard input:
argv, env, cwd, log, means, pause_ttl_s. It answers with one line of JSON on standard output and from
then on is on its own: the executor's death, and every signal but SIGKILL and SIGSTOP, pass it by.

It alone freezes and thaws the command, after `control.json` in its folder (SIGUSR1 says: read it again).
So a duty cycle goes on while the executor is away, and a freeze cannot outlast it for ever: once no
executor has been there for `pause_ttl_s` the command runs on, until one is there again.

Files in the folder, all written by rename:
    control.json  by the executor: seq, is_paused, duty_pct
    state.json    by the supervisor: who it is, the means, and what is in force of which seq
    exit.json     by the supervisor: how the command ended; nothing of the placement runs any more
`executor.json` beside the folder says which process is the executor.
"""
# No pathlib: it would cost each placement's supervisor a megabyte.
# ruff: noqa: PTH100, PTH105, PTH120

import contextlib
import json
import os
import signal
import sys
import time

if __name__ == "__main__":  # run as a file, isolated: the package is not on the path yet
    _PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, _PACKAGES)

from antecast_executor.processes import means as means_module
from antecast_executor.processes import procfs

_SLICE_S = 0.05
_WATCH_S = 1.0
_LEFTOVERS_S = 10.0
_WAKE = (signal.SIGCHLD, signal.SIGUSR1)
_PR_SET_CHILD_SUBREAPER = 36


def write_json(path: str, document: dict[str, object], *, is_durable: bool = False) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    new = f"{path}.{os.getpid()}.new"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, json.dumps(document).encode())
        if is_durable:
            os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(new, path)
    if is_durable:
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_json(path: str) -> dict[str, object]:
    """A file's document; empty if there is none or it is not one."""
    try:
        document = json.loads(procfs.read_text(path) or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


class Supervisor:
    """One command's holder: reaps, freezes, thaws, and reports."""

    def __init__(self, folder: str, means: means_module.Means, command: int, pause_ttl_s: float) -> None:
        self.folder = folder
        self.means = means
        self.command = command
        self.pause_ttl_s = pause_ttl_s
        self.identity: dict[str, object] = {
            "boot_id": procfs.boot_id(),
            "pid": os.getpid(),
            "start_ticks": _ticks(os.getpid()),
        }
        self.seq = 0
        self.is_paused = False
        self.duty_pct = 100.0
        self.is_held = False
        self.is_frozen = False
        self.is_let_go = False
        self.slice_runs = True
        self.slice_end_s = 0.0
        self.watched_s = 0.0
        self.executor_seen_s = time.monotonic()
        self.status: int | None = None

    def run(self) -> None:
        """Until the command has ended and nothing of it is left."""
        self.write_state()
        while not self.reap():
            self.read_control()
            wait_s = self.step(time.monotonic())
            if wait_s is None:
                signal.sigwaitinfo(_WAKE)
            else:
                signal.sigtimedwait(_WAKE, wait_s)
        self.finish()

    def reap(self) -> bool:
        """Collect what has ended; whether the command is among it."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.command:
                    self.status = status
        return self.status is not None

    def read_control(self) -> None:
        """Take over what the executor wants, if it is news, and put it in force."""
        wanted = read_json(f"{self.folder}/control.json")
        seq = wanted.get("seq")
        if not isinstance(seq, int) or seq <= self.seq:
            return
        duty_pct = wanted.get("duty_pct", 100.0)
        self.seq = seq
        self.is_paused = bool(wanted.get("is_paused"))
        self.duty_pct = min(100.0, max(1.0, float(duty_pct))) if isinstance(duty_pct, int | float) else 100.0
        self.slice_runs, self.slice_end_s = False, 0.0
        self.executor_seen_s = time.monotonic()
        self.is_let_go = False
        self.step(self.executor_seen_s)
        self.write_state()

    def step(self, now_s: float) -> float | None:
        """Freeze or thaw as it is due; seconds until the next time, None if nothing is held."""
        if not self.is_paused and self.duty_pct >= 100.0:
            self.hold(False)
            return None
        has_changed = self.watch(now_s)
        if self.is_let_go or self.is_paused:
            if self.hold(not self.is_let_go) or has_changed:
                self.write_state()
            return _WATCH_S
        if now_s >= self.slice_end_s:
            self.slice_runs = not self.slice_runs
            self.slice_end_s = now_s + self.slice_s()
            self.hold(not self.slice_runs)
        return max(0.0, self.slice_end_s - now_s)

    def slice_s(self) -> float:
        """How long the slice lasts that begins now: the shorter of the two kinds has the least length."""
        share = self.duty_pct / 100.0
        part = share if self.slice_runs else 1.0 - share
        return _SLICE_S * part / min(share, 1.0 - share)

    def hold(self, is_wanted: bool) -> bool:
        """Freeze or thaw, if it is not so already; whether that changed anything."""
        before = self.is_frozen
        with contextlib.suppress(OSError):  # its group has been removed from outside
            if is_wanted and not self.is_frozen:
                self.is_held = True  # even if it does not stand yet, it has to be thawed
                self.is_frozen = self.means.freeze()
            elif not is_wanted and self.is_held:
                self.is_held = self.is_frozen = False
                self.means.thaw()
        return self.is_frozen != before

    def watch(self, now_s: float) -> bool:
        """Let go of the command once no executor has been there for long, and take it back; whether so."""
        if now_s < self.watched_s + _WATCH_S:
            return False
        self.watched_s = now_s
        executor = read_json(f"{os.path.dirname(self.folder)}/executor.json")
        pid, ticks = executor.get("pid"), executor.get("start_ticks")
        if isinstance(pid, int) and isinstance(ticks, int) and procfs.is_same(pid, ticks):
            self.executor_seen_s = now_s
        before = self.is_let_go
        self.is_let_go = now_s - self.executor_seen_s > self.pause_ttl_s
        return self.is_let_go != before

    def write_state(self) -> None:
        """Say what is in force. A full disk must not end the command, so failing is nothing."""
        with contextlib.suppress(OSError):
            write_json(
                f"{self.folder}/state.json",
                {
                    **self.identity,
                    "command": self.command,
                    "means": self.means.text(),
                    "seq": self.seq,
                    "is_paused": self.is_paused,
                    "is_frozen": self.is_frozen,
                    "is_let_go": self.is_let_go,
                    "duty_pct": self.duty_pct,
                },
            )

    def finish(self) -> None:
        """End what the command left behind, then say how it ended."""
        ended_s = time.time()
        deadline = time.monotonic() + _LEFTOVERS_S
        while self.means.pids() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.means.kill()
            signal.sigtimedwait(_WAKE, 0.01)
            self.reap()
        code = os.waitstatus_to_exitcode(self.status or 0)
        write_json(
            f"{self.folder}/exit.json",
            {
                **self.identity,
                "exit_code": code if code >= 0 else None,
                "signal": -code if code < 0 else None,
                "ended_s": ended_s,
            },
            is_durable=True,
        )


def _ticks(pid: int) -> int:
    found = procfs.stat(pid)
    return found.start_ticks if found else 0


def _adopt_orphans() -> bool:
    """Become the parent of whatever its descendants leave behind; whether that worked."""
    try:
        import ctypes  # noqa: PLC0415 -- some Pythons are built without it

        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _become(spec: dict[str, object], means: means_module.Means) -> None:
    """In the child: become the command. Raises OSError if that cannot be."""
    os.setpgid(0, 0)  # `kill 0` in the command must not reach the supervisor
    means.enter()
    os.chdir(str(spec["cwd"]))
    log = os.open(str(spec["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)  # every other handle closes by itself on exec
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec keeps that
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    argv = [str(word) for word in spec["argv"]] if isinstance(spec["argv"], list) else []
    env = spec["env"] if isinstance(spec["env"], dict) else {}
    os.execvpe(argv[0], argv, env)  # noqa: S606 -- a list, never a shell


def _start(spec: dict[str, object], means: means_module.Means) -> tuple[int, str]:
    """Fork and exec; the child's number, and why exec failed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become(spec, means)
        except (OSError, ValueError, IndexError) as error:
            os.write(writer, str(error).encode())
        os._exit(127)
    os.close(writer)
    text = os.read(reader, 4096).decode(errors="replace")
    os.close(reader)
    return child, text


def _read_spec() -> dict[str, object]:
    parts = []
    while part := os.read(0, 65536):
        parts.append(part)
    document = json.loads(b"".join(parts) or b"{}")
    return document if isinstance(document, dict) else {}


def _answer(document: dict[str, object]) -> None:
    """Tell the executor, if it is still there, and let go of its pipes."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(document).encode() + b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(null, handle)
    os.close(null)


def main(folder: str) -> int:
    """Start the command and stay until it has ended."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    spec = _read_spec()
    if "argv" not in spec:
        return 2  # the executor died before it said what to start
    is_reaper = _adopt_orphans()
    text = str(spec["means"])
    me = os.getpid()
    means = means_module.Signals(me, _ticks(me)) if text == "signals" else means_module.of_text(text)
    child, failure = _start(spec, means)
    if failure:
        os.waitpid(child, 0)
        _answer({"failure": failure})
        return 1
    if isinstance(means, means_module.Signals):
        means.command, means.command_ticks = child, _ticks(child)
    pause_ttl_s = spec.get("pause_ttl_s")
    supervisor = Supervisor(
        folder, means, child, float(pause_ttl_s) if isinstance(pause_ttl_s, int | float) else 0.0
    )
    supervisor.write_state()
    _answer({"pid": me, "start_ticks": _ticks(me), "is_reaper": is_reaper})
    supervisor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
