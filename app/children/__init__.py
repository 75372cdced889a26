"""Programs that a worker runs in a process of their own: one JSON request in, one JSON answer out.

Each ends with `if __name__ == "__main__": main(answer)`. The answer goes to standard output, where nothing
else can get to; progress, incumbents and what libraries print go to standard error. A child dies with its
worker: it holds one end of a pipe whose other end only the worker has.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from app.logs import set_up_child
from domain.errors import AntecastError

LIFELINE: Final = "ANTECAST_CHILD_LIFELINE"
"""Environment variable: number of the descriptor whose end of file means that the worker is gone."""

REFUSED: Final = 3
"""Exit code of a child that says in words why there is no answer."""

_PROGRESS_EVERY_S: Final = 0.25

_told_at_s = -1.0


def main(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> NoReturn:
    """Read the request, answer it, and end the process.

    An `AntecastError` becomes a refusal that `app.runs.children.run_child` raises again on its side; any
    other error ends the process with its traceback on standard error.
    """
    _die_with_worker()
    set_up_child()
    out = _keep_stdout_to_ourselves()
    try:
        said: dict[str, Any] = {"answer": answer(json.load(sys.stdin))}
    except AntecastError as error:
        said = {"refusal": {"kind": type(error).__name__, "message": str(error)}}
    with os.fdopen(out, "w", encoding="utf-8") as file:
        json.dump(said, file, allow_nan=False)
    sys.exit(REFUSED if "refusal" in said else 0)


def tell_progress(done: float, total: float) -> None:
    """Say how far it is; the worker shows it with the run. Cheap: said a few times a second at most."""
    global _told_at_s  # noqa: PLW0603 - one process, one answer
    now_s = time.monotonic()
    if now_s - _told_at_s >= _PROGRESS_EVERY_S or done >= total:
        _told_at_s = now_s
        sys.stderr.write(json.dumps({"done": done, "total": total}) + "\n")
        sys.stderr.flush()


def tell_incumbent(answer: dict[str, Any], about: dict[str, Any]) -> None:
    """Hand out what could be the answer if there were no time left: each is better than those before.

    Where the run is cancelled the worker takes the last of them in (`Kind.keep`).

    Args:
        answer: as the whole answer would be.
        about: in a few words and numbers, for who watches the run.
    """
    sys.stderr.write(json.dumps({"incumbent": answer, "about": about}, allow_nan=False) + "\n")
    sys.stderr.flush()


def _die_with_worker() -> None:
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is None:
        return  # started by hand
    lifeline = int(descriptor)
    os.set_inheritable(lifeline, False)
    threading.Thread(target=_watch, args=(lifeline,), name="lifeline", daemon=True).start()


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    os.killpg(0, signal.SIGKILL)  # with the processes it may have started


def _keep_stdout_to_ourselves() -> int:
    """A descriptor for the answer; whatever else is printed from now on goes to standard error."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    return out
