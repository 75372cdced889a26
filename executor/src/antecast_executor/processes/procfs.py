"""What /proc says about processes. Imported by the supervisor too, so nothing heavy here."""
# No pathlib: it would cost each placement's supervisor a megabyte.
# ruff: noqa: PTH110, PTH123, PTH208

import os


class Stat:
    """The fields of /proc/<pid>/stat that identify a process and place it in the tree."""

    __slots__ = ("parent", "session", "start_ticks", "state")

    def __init__(self, state: str, parent: int, session: int, start_ticks: int) -> None:
        self.state = state
        self.parent = parent
        self.session = session
        self.start_ticks = start_ticks

    @property
    def is_running(self) -> bool:
        """Whether it is more than a zombie."""
        return self.state not in "ZXx"


def read_text(path: str) -> str:
    """A file's text, or nothing where it cannot be read: /proc and cgroup files vanish at any time."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def boot_id() -> str:
    """Of the running kernel: process numbers of another boot mean nothing."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def stat(pid: int) -> Stat | None:
    """What a process is now; None if there is none."""
    # The command name in brackets may hold blanks and brackets itself.
    _, _, rest = read_text(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    if len(fields) < 20:
        return None
    return Stat(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def is_same(pid: int, start_ticks: int) -> bool:
    """Whether a process runs that is this very one, not a later one under its number."""
    found = stat(pid)
    return found is not None and found.start_ticks == start_ticks and found.is_running


def all_pids() -> list[int]:
    """Every process there is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environ(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty if it may not be read."""
    pairs = (item.partition("=") for item in read_text(f"/proc/{pid}/environ").split("\0"))
    return {name: value for name, is_pair, value in pairs if is_pair}


def descendants(pid: int) -> list[int]:
    """All processes below one, as far as they are no zombies."""
    found: list[int] = []
    level = [pid]
    while level:
        level = [child for parent in level for child in _children(parent)]
        found += level
    return [child for child in found if (seen := stat(child)) and seen.is_running]


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    texts = [read_text(f"/proc/{pid}/task/{thread}/children") for thread in threads]
    if any(texts) or os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return [int(child) for text in texts for child in text.split()]
    # A kernel without CONFIG_PROC_CHILDREN.
    return [other for other in all_pids() if (seen := stat(other)) and seen.parent == pid]
