"""One MPS control daemon: its folder, who owns it, and the one lane on which it is spoken to."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import threading
import time
from collections import deque
from pathlib import Path

from antecast_executor.interfaces import DeviceError
from antecast_executor.processes import procfs

_OWNER = "ANTECAST_MPS_OWNER"
_PID_FILE = "nvidia-cuda-mps-control.pid"
_WANTED_FILE = "wanted.json"
_MAX_SOCKET_PATH = 107
_LONGEST_SOCKET = "control_privileged"
_BUSY_PAUSE_S = (0.005, 0.05)
_MAX_STARTS = 3
_STARTS_WITHIN_S = 60.0
_SERVER_DIED = re.compile(r"Server \d+ exited with status [1-9]\d*")
_LOG_TAIL_BYTES = 65536

# All the words that ever go to a control program, with the numbers of arguments they take.
_COMMANDS = {
    "get_server_list": 0,
    "get_client_list": 1,
    "get_default_active_thread_percentage": 0,
    "set_default_active_thread_percentage": 1,
    "set_active_thread_percentage": 2,
    "terminate_client": 2,
    "quit": 0,
}
# Two callers at once can make the program end with status 0 and no text. Where no text can be an answer,
# this question goes with the command: a reply without its number is none.
_SENTINEL = "get_default_active_thread_percentage"
_MAY_BE_SILENT = {"get_server_list", "get_client_list", "terminate_client"}
# What it says, with exit status 0, instead of doing it.
_REFUSALS = (
    ("Insufficient privileges", "no_permission"),
    ("Not enough privilege", "no_permission"),
    ("Unknown command", "unsupported"),
)
_NO_SERVER = re.compile(r"Server \d+ not found")


class Lane:
    """Everything that is said to one daemon, one thing after the other: callers hold `lock`."""

    def __init__(self, control: str, folder: Path, uuid: str, timeout_s: float) -> None:
        self.lock = threading.RLock()
        self.folder = folder
        self.log = folder / "log"
        self._control = control
        self._uuid = uuid
        self._timeout_s = timeout_s
        self._starts_s: deque[float] = deque(maxlen=_MAX_STARTS)
        self._log_read_bytes = 0

    def owner(self) -> str:
        """`ours`, `foreign`, or nothing if no daemon runs in the folder.

        A daemon of ours carries our mark in its environment: no file can be stale, and no crash between
        its start and a note of it can lose it.
        """
        pid = self._pid()
        found = procfs.stat(pid) if pid else None
        if found is None or not found.is_running:
            return ""
        environ = procfs.environ(pid)
        if environ.get(_OWNER) == str(self.folder):
            return "ours"
        # A stale number may have become any other process's.
        is_daemon = "mps-control" in procfs.read_text(f"/proc/{pid}/cmdline")
        return "foreign" if is_daemon else ""

    def has_been_started(self) -> bool:
        """Whether a daemon ran here, or does."""
        return (self.folder / _PID_FILE).exists()

    def start(self) -> None:
        """Start the daemon, unless it or its servers keep dying.

        Raises:
            DeviceError: `crash_loop`, `path_too_long`, `timeout`, `mps_error`.
        """
        self._break_loop()
        if len(str(self.folder / _LONGEST_SOCKET)) > _MAX_SOCKET_PATH:
            raise DeviceError("path_too_long", f"{self.folder} is too long for the daemon's sockets")
        for folder in (self.folder, self.log):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._starts_s.append(time.monotonic())
        environ = self._environ() | {"CUDA_VISIBLE_DEVICES": self._uuid, _OWNER: str(self.folder)}
        # A file, not a pipe: the daemon keeps it open, and a pipe would never end.
        with (self.log / "start.txt").open("w+b") as said:
            try:
                done = subprocess.run(  # noqa: S603 -- a list, never a shell
                    [self._program(), "-d"],
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=self._timeout_s,
                    cwd="/",
                    start_new_session=True,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise DeviceError("timeout", f"the daemon of {self._uuid} does not come up") from error
            except OSError as error:
                raise DeviceError("no_mps", f"{self._control}: {error.strerror}") from error
            said.seek(0)
            text = said.read(1000).decode(errors="replace").strip()
        if self.owner() != "ours":
            raise DeviceError("mps_error", f"the daemon did not start ({done.returncode}): {text}")

    def ask(self, word: str, *numbers: float, timeout_s: float | None = None) -> str:
        """Send one command, again while the daemon serves someone else; its reply.

        Raises:
            DeviceError: `no_daemon`, `timeout`, `busy`, `no_permission`, `unsupported`, `no_server`,
                `mps_error`, `foreign_daemon`.
        """
        if _COMMANDS.get(word) != len(numbers):
            raise ValueError(f"not a command of ours: {word} with {len(numbers)} arguments")
        if self.owner() == "foreign":
            raise DeviceError("foreign_daemon", f"{self.folder} holds a daemon that is not ours")
        line = " ".join([word, *map(_text, numbers)])
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + wait_s
        while (reply := self._exchange(word, line, wait_s)) is None:
            if time.monotonic() > deadline:
                raise DeviceError("busy", f"the daemon of {self._uuid} serves others all the time")
            time.sleep(random.uniform(*_BUSY_PAUSE_S))  # noqa: S311 -- jitter, no secret
        return reply

    def wanted_pct(self) -> float:
        """The cap that was asked for last, by this executor or the one before it."""
        try:
            document = json.loads((self.folder / _WANTED_FILE).read_text())
            return float(document["share_pct"])
        except (OSError, ValueError, KeyError, TypeError):
            return 100.0

    def want(self, share_pct: float) -> None:
        """Remember the cap: a daemon that starts anew has forgotten it."""
        self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        draft = self.folder / f"{_WANTED_FILE}.{os.getpid()}.{threading.get_ident()}"
        draft.write_text(json.dumps({"share_pct": share_pct}))
        draft.replace(self.folder / _WANTED_FILE)

    def forget(self) -> None:
        """Clear the folder of a daemon that has left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._log_read_bytes = 0

    def _exchange(self, word: str, line: str, timeout_s: float) -> str | None:
        """One command and its reply; None if the daemon was busy, whichever way the program says so."""
        if word not in _MAY_BE_SILENT:
            reply = self._send(line, timeout_s)
            return reply if reply or word == "quit" else None
        reply = self._send(f"{line}\n{_SENTINEL}", timeout_s)
        before, _, last = f"\n{reply or ''}".rpartition("\n")
        return before.strip() if "." in last else None

    def _send(self, line: str, timeout_s: float) -> str | None:
        """One call of the control program; None if the daemon was busy."""
        try:
            done = subprocess.run(  # noqa: S603 -- a list, never a shell
                [self._program()],
                input=f"{line}\n",
                env=self._environ(),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DeviceError("timeout", f"the daemon of {self._uuid} does not answer") from error
        except OSError as error:
            raise DeviceError("no_mps", f"{self._control}: {error.strerror}") from error
        text = f"{done.stdout}\n{done.stderr}".strip()
        if "Cannot find MPS control daemon" in text:
            raise DeviceError("no_daemon", f"no daemon runs for {self._uuid}")
        if done.returncode == 1 and (not text or "Cannot send command" in text):
            return None
        if done.returncode != 0 and line != "quit":
            raise DeviceError("mps_error", f"{line}: status {done.returncode}: {text[:200]}")
        for sign, code in _REFUSALS:
            if sign in text:
                raise DeviceError(code, f"{line}: {text[:200]}")
        if _NO_SERVER.search(text):
            raise DeviceError("no_server", f"{line}: {text[:200]}")
        return done.stdout.strip()

    def _program(self) -> str:
        found = shutil.which(self._control)
        if found is None:
            raise DeviceError("no_mps", f"{self._control} is not on this machine")
        return found

    def _environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log),
        }

    def _pid(self) -> int:
        text = procfs.read_text(str(self.folder / _PID_FILE)).strip()
        return int(text) if text.isdigit() else 0

    def _break_loop(self) -> None:
        """Count the daemon's starts and its servers' deaths; refuse to go on if there are many."""
        now_s = time.monotonic()
        self._starts_s.extend([now_s] * self._deaths())
        recent = [at_s for at_s in self._starts_s if now_s - at_s < _STARTS_WITHIN_S]
        if len(recent) >= _MAX_STARTS:
            raise DeviceError("crash_loop", f"MPS on {self._uuid} died {len(recent)} times within a minute")

    def _deaths(self) -> int:
        """Servers that died since the last look, by the daemon's log."""
        path = self.log / "control.log"
        with contextlib.suppress(OSError), path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = self._log_read_bytes if self._log_read_bytes <= size else 0
            file.seek(max(begin, size - _LOG_TAIL_BYTES))
            self._log_read_bytes = size
            return len(_SERVER_DIED.findall(file.read().decode(errors="replace")))
        return 0


def _text(number: float) -> str:
    """Without an exponent, which process numbers would get, and without needless zeros."""
    return str(number) if isinstance(number, int) else f"{number:g}"
