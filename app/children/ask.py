"""Child that stays: desks that are asked, and decide nothing (`app.children.questions`).

Apart from those that decide, so that nobody's decision waits for somebody's question. One JSON request a line
in, one JSON answer a line out, until standard input ends (its parent is gone).
"""

from typing import Any

from app.children.decide import Room, serve
from app.children.questions import QUESTIONS


class AskedRoom(Room):
    """Desks of this process; each is told the log up to the entry that a question names."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to `question`, as of entry `seq` of epoch `epoch` of cluster `cluster`."""
        desk = self.desk(request)
        desk.catch_up(int(request["seq"]))
        return QUESTIONS[request["question"]](desk, request)


if __name__ == "__main__":
    serve(AskedRoom)
