"""Child processes: heavy work outside the worker, with a hard limit, that never outlives its worker."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

from app import logs
from app.children import LIFELINE, REFUSED
from app.runs.errors import ChildFailedError, ChildRefusedError, ChildTimeoutError

Progress = Callable[[float, float], None]
Incumbent = Callable[[dict[str, Any], dict[str, Any]], None]
"""Told an answer that would do, and something about it."""

MAX_ANSWER_BYTES: Final = 64 * 2**20
KEPT_STDERR_BYTES: Final = 64 * 2**10
MAX_INCUMBENT_BYTES: Final = 8 * 2**20
"""A larger one is passed over; the one before it still stands."""

_POLL_S: Final = 0.1
_SHOWN_CHARACTERS: Final = 2_000
_PROGRESS_MARK: Final = b'{"done":'
_INCUMBENT_MARK: Final = b'{"incumbent":'


def run_child(  # noqa: PLR0913 - named, and each a part of how it is run
    name: str,
    request: Mapping[str, Any],
    limit_s: float,
    check: Callable[[], None] = lambda: None,
    *,
    environment: Mapping[str, str] | None = None,
    module: str | None = None,
    progress: Progress | None = None,
    incumbent: Incumbent | None = None,
) -> dict[str, Any]:
    """Run `python -m app.children.<name>` and return its answer.

    Args:
        name: of the module in `app.children`.
        request: goes to its standard input as JSON.
        limit_s: it is killed after so many seconds; a kill switch, not how its work is bounded.
        check: called several times a second; what it raises ends the child and is passed on.
        environment: variables on top of this process's.
        module: full name of a module to run instead.
        progress: told (done, total) when the child says how far it is.
        incumbent: told (answer, about) when the child hands out an answer that would do.

    Raises:
        ChildTimeoutError: if it was killed at the limit.
        ChildRefusedError: if it says why there is no answer.
        ChildFailedError: if it ended in any other way without one.
    """
    lifeline, held = os.pipe()
    try:
        with subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
            [sys.executable, "-m", module or f"app.children.{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {}), **logs.for_child(), LIFELINE: str(lifeline)},
            pass_fds=(lifeline,),
            start_new_session=True,
        ) as process:
            heard = _Heard(name, progress, incumbent)
            try:
                _talk(process, json.dumps(request, allow_nan=False).encode(), heard, limit_s, check)
            finally:
                # Before it is waited for, while its number still names its group and no other.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return heard.answer(process.returncode)
    finally:
        os.close(lifeline)
        os.close(held)


@dataclass
class _Heard:
    """What a child has said so far."""

    name: str
    progress: Progress | None
    incumbent: Incumbent | None = None
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    _line: bytearray = field(default_factory=bytearray)

    def take_out(self, data: bytes) -> None:
        self.out += data
        if len(self.out) > MAX_ANSWER_BYTES:
            raise ChildFailedError(
                f"the {self.name} process answered with more than {MAX_ANSWER_BYTES // 2**20} MiB; "
                "ask for less at once"
            )

    def take_err(self, data: bytes) -> None:
        """Keep the end of what it prints, without the lines that are for us, or of its log."""
        head, *others = data.split(b"\n")
        self._line += head
        for piece in others:
            line, self._line = bytes(self._line), bytearray(piece)
            if not self._is_for_us(line) and not logs.pass_on(line, self.name):
                self.err += line + b"\n"
        if len(self._line) > (MAX_INCUMBENT_BYTES if self._is_long else KEPT_STDERR_BYTES):
            del self._line[:-KEPT_STDERR_BYTES]
        del self.err[:-KEPT_STDERR_BYTES]

    @property
    def _is_long(self) -> bool:
        return self._line.startswith(_INCUMBENT_MARK)

    def _is_for_us(self, line: bytes) -> bool:
        """Whether a line says how far it is, or what would do; it is passed on."""
        if not line.startswith((_PROGRESS_MARK, _INCUMBENT_MARK)):
            return False
        try:
            said = json.loads(line)
            if line.startswith(_PROGRESS_MARK):
                if self.progress is not None:
                    self.progress(float(said["done"]), float(said["total"]))
            elif self.incumbent is not None:
                self.incumbent(dict(said["incumbent"]), dict(said["about"]))
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def answer(self, code: int) -> dict[str, Any]:
        """The answer, once the process has ended with this exit code."""
        said = self._parsed() if code in (0, REFUSED) else {}
        if code == 0 and isinstance(said.get("answer"), dict):
            answer: dict[str, Any] = said["answer"]
            return answer
        refusal = said.get("refusal")
        if code == REFUSED and isinstance(refusal, dict):
            raise ChildRefusedError(str(refusal.get("kind")), str(refusal.get("message")))
        raise ChildFailedError(self._why(code))

    def _parsed(self) -> dict[str, Any]:
        try:
            said = json.loads(self.out)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    def _why(self, code: int) -> str:
        if code < 0:
            how = f"was killed by signal {-code} (9 often means that the machine ran out of memory)"
        else:
            how = f"ended with exit code {code} and no answer"
        text = bytes(self.err + self._line).decode("utf-8", "replace").strip()
        end = f"; it said last: {text[-_SHOWN_CHARACTERS:]}" if text else ""
        return f"the {self.name} process {how}{end}"


def _talk(
    process: subprocess.Popen[bytes],
    request: bytes,
    heard: _Heard,
    limit_s: float,
    check: Callable[[], None],
) -> None:
    """Send the request and listen until the process closes both of its outputs, that is, ends."""
    ends_s = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        left = request
        for pipe, events in (
            (process.stdin, selectors.EVENT_WRITE),
            (process.stdout, selectors.EVENT_READ),
            (process.stderr, selectors.EVENT_READ),
        ):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, events)
        while selector.get_map():
            check()
            if time.monotonic() >= ends_s:
                raise ChildTimeoutError(
                    f"the {heard.name} process was stopped after {limit_s:g} s; give it less to do or "
                    "raise its limit"
                )
            for key, _ in selector.select(_POLL_S):
                if key.fileobj is process.stdin:
                    left = _send(selector, process.stdin, left)
                else:
                    take = heard.take_out if key.fileobj is process.stdout else heard.take_err
                    _receive(selector, key.fileobj, take)  # type: ignore[arg-type]


def _send(selector: selectors.BaseSelector, pipe: IO[bytes] | None, left: bytes) -> bytes:
    """Write what fits; close the pipe at the end, or if the child does not want the rest."""
    assert pipe is not None  # noqa: S101 - for the type checker
    try:
        left = left[os.write(pipe.fileno(), left) :] if left else left
    except BrokenPipeError:
        left = left[:0]
    if not left:
        selector.unregister(pipe)
        pipe.close()
    return left


def _receive(selector: selectors.BaseSelector, pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
    data = os.read(pipe.fileno(), 65_536)
    if data:
        take(data)
    else:
        selector.unregister(pipe)
