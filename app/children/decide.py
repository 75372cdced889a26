"""Child that stays: keeps clusters' desks warm and answers for log entries that stand for decisions.

One JSON request a line in, one JSON answer a line out, until standard input ends (its parent is gone).
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

from sqlalchemy import Engine

from app.children.plan import answer_of
from app.children.state import LiveDesk
from app.logs import set_up_child
from app.store.engine import make_engine
from domain.errors import AntecastError


class Room:
    """The desks of this process, one a cluster; a new epoch gets a new desk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._desks: dict[str, LiveDesk] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The decision of log entry `decided_seq` of epoch `epoch` of cluster `cluster`."""
        cluster, epoch = str(request["cluster"]), int(request["epoch"])
        desk = self._desks.get(cluster)
        if desk is None or desk.epoch.number != epoch:
            desk = self._desks[cluster] = LiveDesk(self._engine, cluster, epoch)
        return answer_of(desk, request)


class Answers(Protocol):
    """What a child that stays answers from."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        ...


def serve(make: Callable[[Engine], Answers]) -> None:
    """Answer line by line. What libraries print goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    set_up_child()
    room = make(make_engine(os.environ["ANTECAST_DATABASE_URL"]))
    for line in sys.stdin:
        request = json.loads(line)
        said: dict[str, Any] = {"number": request["number"]}
        try:
            said["answer"] = room.answer(request)
        except AntecastError as error:
            said["refusal"] = {"kind": type(error).__name__, "message": str(error)}
        out.write(json.dumps(said, allow_nan=False) + "\n")
        out.flush()


if __name__ == "__main__":
    serve(Room)
