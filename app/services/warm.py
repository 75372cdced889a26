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
        limit_s: float,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Ask one of them.

        Args:
            key: which one.
            request: goes to it as JSON.
            limit_s: it is killed if it takes longer; a kill switch, not how its work is bounded.
            check: called several times a second; what it raises ends the child and is passed on.

        Raises:
            DecisionUnavailable: if there is no answer in time, or the child says why there is none.
        """
        child = self._of(key)
        with child.lock:
            try:
                said = child.ask(request, limit_s, check)
            except BaseException:
                self._drop(key, child)
                raise
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

    def ask(self, request: Mapping[str, Any], limit_s: float, check: Callable[[], None]) -> dict[str, Any]:
        """Send a line, read a line."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise DecisionUnavailable("the deciding process has no pipes")
        try:
            stdin.write(json.dumps(request, allow_nan=False).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise DecisionUnavailable("the deciding process has died; ask again") from error
        said: dict[str, Any] = json.loads(self._line(stdout.fileno(), time.monotonic() + limit_s, check))
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

    def _line(self, descriptor: int, until_s: float, check: Callable[[], None]) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._left:
                if selector.select(_LOOK_S):
                    data = os.read(descriptor, 65536)
                    if not data or len(self._left) > _LONGEST_LINE:
                        raise DecisionUnavailable("the deciding process has died; ask again")
                    self._left += data
                elif time.monotonic() > until_s:
                    raise DecisionUnavailable("no decision within the time limit; ask again")
                check()
        line, _, self._left = self._left.partition(b"\n")
        return line
