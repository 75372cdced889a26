"""Worker processes, and waiting for what they do."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

from support import REPOSITORY

DEADLINE_S = 60


def environment(url, **settings):
    path = os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY)])
    given = {"ANTECAST_" + name.upper(): str(value) for name, value in settings.items()}
    defaults = {"ANTECAST_QUEUE_POLL_S": "0.05", "ANTECAST_WORKER_LEASE_S": "60"}
    return {**os.environ, "PYTHONPATH": path, **defaults, **given, "ANTECAST_DATABASE_URL": url}


@contextmanager
def worker(url, module="run_support.worker", **settings):
    """A worker process, killed at the end if it still lives."""
    with subprocess.Popen([sys.executable, "-m", module], env=environment(url, **settings)) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition, what="it"):
    """Wait for a condition and return what it returned; fails loudly where it never comes."""
    ends_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < ends_s:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {DEADLINE_S} s in vain for {what}")


def is_alive(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - no path of ours
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # gone before, or while it is read
        return False
