"""How supervisors are started, given up and collected."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from antecast_executor.processes import procfs, supervisor
from antecast_executor.processes.means import Means, Signals

KILL_WAIT_S = 10.0
_LAUNCH_WAIT_S = 20.0
_POLL_S = 0.002


def spawn(folder: Path, spec: bytes) -> tuple[int, dict[str, object]]:
    """Start a supervisor, hand it the document and wait for its answer; nothing if that does not come.

    Raises:
        OSError: if not even that can be started.
    """
    spec_out, spec_in = os.pipe()
    answer_out, answer_in = os.pipe()
    try:
        pid = _start([sys.executable, "-I", "-S", supervisor.__file__, str(folder)], spec_out, answer_in)
        os.close(answer_in)
        answer_in = -1
        with contextlib.suppress(BrokenPipeError), os.fdopen(spec_in, "wb") as file:
            spec_in = -1
            file.write(spec)
        return pid, _read_answer(answer_out)
    finally:
        for handle in (spec_out, spec_in, answer_out, answer_in):
            if handle >= 0:
                os.close(handle)


def abandon(pid: int) -> None:
    """End a supervisor that has not been collected yet, and all that is below it."""
    os.kill(pid, signal.SIGSTOP)  # our child, so the number is its own; it must not fork meanwhile
    found = procfs.stat(pid)
    if found is not None and found.is_running:
        started = Signals(pid, found.start_ticks)
        until(lambda: swept(started), KILL_WAIT_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def collect(pid: int) -> None:
    """Take a zombie's status, if it is ours: an adopted one is another's."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def swept(means: Means) -> bool:
    """Kill what there is now; whether there was nothing."""
    if not means.pids():
        return True
    with contextlib.suppress(OSError):  # it has gone meanwhile
        means.kill()
    return False


def removed(means: Means) -> bool:
    """Remove what held the processes; whether the kernel let go of it yet."""
    try:
        means.remove()
    except OSError:
        return False
    return True


def until(is_done: Callable[[], bool], wait_s: float) -> bool:
    """Wait for something that comes soon or never; whether it came."""
    deadline = time.monotonic() + wait_s
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _start(argv: list[str], spec_out: int, answer_in: int) -> int:
    """In a session of its own, deaf to signals from its first instruction on, without our handles."""
    return os.posix_spawn(
        argv[0],
        argv,
        {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, spec_out, 0),
            (os.POSIX_SPAWN_DUP2, answer_in, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        setsid=True,
        setsigmask=signal.valid_signals(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _read_answer(handle: int) -> dict[str, object]:
    """The supervisor's line, or nothing if it does not come in time."""
    text = b""
    deadline = time.monotonic() + _LAUNCH_WAIT_S
    os.set_blocking(handle, False)
    while not text.endswith(b"\n") and time.monotonic() < deadline:
        try:
            part = os.read(handle, 65536)
        except BlockingIOError:
            time.sleep(_POLL_S)
            continue
        if not part:
            break
        text += part
    try:
        answer = json.loads(text or b"{}")
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
