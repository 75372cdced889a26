"""A question put to a copy of this process: what it changes is gone with the copy.

Explaining asks a policy what it would do otherwise, after which the policy cannot be used any more. A copy
costs milliseconds, whatever the policy and its models hold. All models are asked with one thread, so no
thread of this process is missed in the copy.
"""

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Final, NoReturn

from app.errors import DecisionUnavailable
from domain.errors import AntecastError

_PIECE: Final = 65_536


def in_a_copy(answer: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """Answer in a copy of this process.

    Args:
        answer: makes plain data.
        limit_s: the copy is killed if it takes longer.

    Raises:
        DecisionUnavailable: if the copy says why there is no answer, takes too long, or dies.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _answer_and_exit(answer, write)
    os.close(write)
    try:
        data = _all_of(read, time.monotonic() + limit_s)
    finally:
        os.close(read)
        os.kill(pid, signal.SIGKILL)  # done, late, or nobody wants to know any more
        os.waitpid(pid, 0)
    if not data:
        raise DecisionUnavailable("there is no explanation within the time limit")
    said = json.loads(data)
    if "refusal" in said:
        raise DecisionUnavailable(said["refusal"])
    found: dict[str, Any] = said["answer"]
    return found


def _answer_and_exit(answer: Callable[[], dict[str, Any]], write: int) -> NoReturn:
    """Answer, and leave without running what the original has to run at its own end."""
    code = 1
    try:
        try:
            said: dict[str, Any] = {"answer": answer()}
        except AntecastError as error:
            said = {"refusal": str(error)}
        left = memoryview(json.dumps(said, allow_nan=False).encode() + b"\n")
        while left:
            left = left[os.write(write, left) :]
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it must not go on as the original
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _all_of(read: int, until_s: float) -> bytes:
    """The line that comes; nothing if it is not there in time, or cut short."""
    data = b""
    while not data.endswith(b"\n"):
        if not select.select([read], [], [], max(until_s - time.monotonic(), 0.0))[0]:
            return b""
        piece = os.read(read, _PIECE)
        if not piece:
            return b""
        data += piece
    return data
