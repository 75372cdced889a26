"""Runs one program without a shell; what it prints goes to a file, within limits of size and time."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Final

from domain.errors import SettingError

_BLOCK: Final = 2**16
_MOST_SAID: Final = 2**16
"""Bytes of its standard error that are kept."""


class Stopped(StrEnum):
    """Why a program did not end by itself."""

    TIME = "it took too long"
    SIZE = "it printed more than is taken at once"


@dataclass(frozen=True)
class Limits:
    """What a program may take: seconds, and bytes of output."""

    seconds_s: float = 300.0
    size_bytes: int = 2**31


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
        code: its exit status; None if it was stopped.
        said: what it wrote to standard error, cut.
        stopped: why it was stopped; None if it ended by itself.
    """

    code: int | None
    said: str = ""
    stopped: Stopped | None = None


Run = Callable[[Sequence[str], Path, Mapping[str, str], Limits], Outcome]
"""Runs a program: its arguments, the file for what it prints, its environment, its limits."""


def run(arguments: Sequence[str], out: Path, environment: Mapping[str, str], limits: Limits) -> Outcome:
    """Run a program to its end, or stop it, and what it has started, at its limits.

    Raises:
        SettingError: if there is no such program, or it may not be run.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise SettingError(f"{arguments[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            with out.open("wb") as file:
                said, stopped = _listened(process, file, limits)
        finally:
            _end(process)
    return Outcome(None if stopped else process.returncode, said.decode(errors="replace"), stopped)


def _listened(
    process: subprocess.Popen[bytes], file: IO[bytes], limits: Limits
) -> tuple[bytes, Stopped | None]:
    """What it says on standard error, and why it has to be stopped, if so; the rest is in the file."""
    assert process.stdout is not None  # noqa: S101 - both are pipes
    assert process.stderr is not None  # noqa: S101
    until_s = time.monotonic() + limits.seconds_s
    said, size_bytes = b"", 0
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        ready.register(process.stderr, selectors.EVENT_READ)
        while ready.get_map():
            found = ready.select(max(0.0, until_s - time.monotonic()))
            if not found:
                return said, Stopped.TIME
            for key, _ in found:
                block = os.read(key.fd, _BLOCK)
                if not block:
                    ready.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    said = (said + block)[:_MOST_SAID]
                else:
                    size_bytes += file.write(block)
            if size_bytes > limits.size_bytes:
                return said, Stopped.SIZE
    try:
        process.wait(max(0.0, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return said, Stopped.TIME
    return said, None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it has started; nothing to do where it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
