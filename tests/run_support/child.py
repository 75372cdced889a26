"""A child that does as it is told."""

import os
import sys
import time
from pathlib import Path

from app.children import main, tell_incumbent, tell_progress
from domain.errors import SettingError

DEADLINE_S = 60


def answer(request):  # noqa: C901 - one case a word
    match request.get("do", "echo"):
        case "refuse":
            raise SettingError("there is nothing to plan: put pools first")
        case "crash":
            sys.stderr.write("x" * 100_000 + "the last words")
            sys.exit(7)
        case "print":
            sys.stdout.write("noise of a library\n")
            os.write(1, b"noise from below\n")
        case "progress":
            tell_progress(1, 4)
            tell_progress(4, 4)
        case "exit silently":
            os._exit(0)
        case "hand out":
            hand_out(request)
        case "wait":
            wait(Path(request["folder"]))
        case "fork":
            if os.fork() == 0:
                wait(Path(request["folder"]))
            wait(Path(request["folder"]))
        case "flood":
            return {"text": "x" * int(request["bytes"])}
    return {"echo": request, "url": os.environ.get("ANTECAST_DATABASE_URL")}


def hand_out(request):
    """Some answers that would do, large ones, between what libraries print; then wait to be let go."""
    for number in range(int(request["incumbents"])):
        sys.stderr.write("noise of a library\n")
        echo = {**request, "cluster": f"as of {number}"}
        tell_incumbent({"echo": echo, "padding": "x" * 200_000}, {"number": number})
    if "folder" in request:
        wait(Path(request["folder"]))


def wait(folder):
    """Say that it runs, alone in this folder, and wait to be let go."""
    mine = folder / f"{os.getpid()}.pid"
    alone = folder / "alone"
    alone_for = os.open(alone, os.O_CREAT | os.O_EXCL) if "alone" in folder.name else None
    mine.touch()
    ends_s = time.monotonic() + DEADLINE_S
    while not (folder / "go").exists():
        if time.monotonic() > ends_s:
            raise TimeoutError("nobody let it go")
        time.sleep(0.01)
    if alone_for is not None:
        alone.unlink()


if __name__ == "__main__":
    main(answer)
