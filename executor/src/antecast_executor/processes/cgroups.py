"""Which kinds of control group this process may make, found out by making one and using it."""

import os
import sys
import time
from pathlib import Path

from antecast_executor.processes import procfs
from antecast_executor.processes.means import CgroupV1, CgroupV2

_TEST_WAIT_S = 10.0


def find(kind: str, name: str) -> tuple[Path | None, str]:
    """Where our groups can be made, under this process's own group; or None and why there can be none."""
    own = _own_group(kind)
    if own is None:
        return None, "not mounted"
    try:
        reason = _self_test(kind, own / f"{name}-self-test-{os.getpid()}")
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
    return (None, reason) if reason else (own / name, "")


def _own_group(kind: str) -> Path | None:
    for line in procfs.read_text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        root, mount = left.split()[3:5]
        file_system, _, options = right.split(" ", 2)
        is_wanted = (
            file_system == "cgroup2"
            if kind == CgroupV2.name
            else file_system == "cgroup" and "freezer" in options.split(",")
        )
        if is_wanted:
            return Path(mount) / _own_path(kind, root)
    return None


def _own_path(kind: str, root: str) -> str:
    """This process's group, relative to the mount."""
    for line in procfs.read_text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" if kind == CgroupV2.name else "freezer" in controllers.split(","):
            return os.path.relpath(path, root) if path.startswith(root) else "."
    return "."


def _self_test(kind: str, path: Path) -> str:
    """Put a process into a new group, freeze it and kill it frozen; what failed, or nothing."""
    group = (CgroupV2 if kind == CgroupV2.name else CgroupV1)(str(path))
    group.create()
    argv = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
    pid = os.posix_spawn(argv[0], argv, {})
    try:
        (path / "cgroup.procs").write_text(str(pid))
        if not group.freeze():
            return "a process did not freeze"
        group.kill()
    finally:
        handle = os.pidfd_open(pid)
        try:
            os.kill(pid, 9)  # our own child, not waited for yet: the number is still its own
            os.waitpid(pid, 0)
        finally:
            os.close(handle)
            _remove(group)
    return ""


def _remove(group: CgroupV1 | CgroupV2) -> None:
    deadline = time.monotonic() + _TEST_WAIT_S
    while Path(group.path).exists():
        try:
            group.remove()
        except OSError:  # the kernel is not done with the process yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
