"""Child processes that stay: asked line by line, killed at the limit, started again when needed.

What such a process holds is a cache of the database and nothing more. If it dies or is killed, the next
question starts another one, which reads the log and comes to the same state.
"""

import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from app.errors import DecisionUnavailable

DATABASE_URL: Final = "ANTECAST_DATABASE_URL"

_MOST_CHILDREN: Final = 8
_LONGEST_LINE: Final = 16 * 2**20
_LOOK_S: Final = 0.25
_STOP_S: Final = 5.0

_LATE: Final = "no decision within the time limit; ask again"
_DEAD: Final = "the deciding process has died; ask again"

_log = structlog.get_logger(__name__)


class WarmChildren:
    """Children of one module, one a key (a cluster); of many keys the ones asked last are kept.

    Args:
        module: full name; reads one JSON request a line, answers each with one JSON line.
        database_url: what the children work on.
    """

    def __init__(self, module: str, database_url: str) -> None:
        self._module = module
        self._database_url = database_url
        self._lock = threading.Lock()
        self._children: OrderedDict[str, _Child] = OrderedDict()

    def ask(
        self,
        key: str,
        request: Mapping[str, Any],
        *,
        wait_s: float,
        limit_s: float,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Ask one of them.

        Args:
            key: which one.
            request: goes to it as JSON.
            wait_s: how long to wait for the answer; the child works on, so asking again later helps.
            limit_s: it is killed if it works longer on one answer; a kill switch, not how work is bounded.
            check: called several times a second; what it raises ends the child and is passed on.

        Raises:
            DecisionUnavailable: if there is no answer in time, or the child says why there is none.
        """
        child = self._of(key)
        if not child.lock.acquire(timeout=wait_s):
            raise DecisionUnavailable(_LATE)
        try:
            said = child.ask(request, wait_s, limit_s, check)
        except StillWorking as error:
            raise DecisionUnavailable(_LATE) from error
        except BaseException:
            self._drop(key, child)
            raise
        finally:
            child.lock.release()
        if "refusal" in said:
            raise DecisionUnavailable(said["refusal"]["message"])
        answer: dict[str, Any] = said["answer"]
        return answer

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            children = list(self._children.values())
            self._children.clear()
        for child in children:
            child.close()

    def _of(self, key: str) -> "_Child":
        oldest = None
        with self._lock:
            child = self._children.pop(key, None) or _Child(self._module, self._database_url)
            self._children[key] = child
            if len(self._children) > _MOST_CHILDREN:
                _, oldest = self._children.popitem(last=False)
        if oldest is not None:
            with oldest.lock:
                oldest.close()
        return child

    def _drop(self, key: str, child: "_Child") -> None:
        with self._lock:
            if self._children.get(key) is child:
                del self._children[key]
        child.close(is_stuck=True)


class StillWorking(Exception):  # noqa: N818
    """The child has not answered yet; it goes on."""


class _Child:
    """One process. Questions to it are asked one after the other, under its lock."""

    def __init__(self, module: str, database_url: str) -> None:
        self.lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, DATABASE_URL: database_url},
            start_new_session=True,
        )
        self._left = b""
        self._asked = 0
        self._answered = 0
        self._busy_since_s = 0.0

    def ask(
        self, request: Mapping[str, Any], wait_s: float, limit_s: float, check: Callable[[], None]
    ) -> dict[str, Any]:
        """Send a line, read lines until the one that answers it: earlier ones nobody waits for any more."""
        stdin = self._process.stdin
        now_s = time.monotonic()
        if self._asked == self._answered:
            self._busy_since_s = now_s
        self._asked += 1
        try:
            if stdin is None:
                raise DecisionUnavailable(_DEAD)
            stdin.write(json.dumps({**request, "number": self._asked}, allow_nan=False).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise DecisionUnavailable(_DEAD) from error
        while True:
            said: dict[str, Any] = json.loads(self._line(now_s + wait_s, limit_s, check))
            self._answered = said["number"]
            if self._answered == self._asked:
                return said

    def close(self, *, is_stuck: bool = False) -> None:
        """End it; it holds nothing that is not in the log."""
        if is_stuck:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    _log.info("child_was_gone", pid=self._process.pid)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _line(self, until_s: float, limit_s: float, check: Callable[[], None]) -> bytes:
        stdout = self._process.stdout
        if stdout is None:
            raise DecisionUnavailable(_DEAD)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._left:
                if selector.select(_LOOK_S):
                    data = os.read(stdout.fileno(), 65536)
                    if not data or len(self._left) > _LONGEST_LINE:
                        raise DecisionUnavailable(_DEAD)
                    self._left += data
                elif time.monotonic() > self._busy_since_s + limit_s:
                    raise DecisionUnavailable(_LATE)
                elif time.monotonic() > until_s:
                    raise StillWorking
                check()
        line, _, self._left = self._left.partition(b"\n")
        self._busy_since_s = time.monotonic()
        return line
