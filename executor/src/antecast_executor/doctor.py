"""Whether this machine can be an executor's node, and what it can and cannot do."""

import os
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from antecast_executor import devices, processes
from antecast_executor.clock import Clock
from antecast_executor.config import ConfigError, read_secret
from antecast_executor.interfaces import DeviceError
from antecast_executor.logs import clean
from antecast_executor.observer import Observer
from antecast_executor.primitives import Node

Finding = tuple[str, str, str]


def examine(state: Path, kind: str) -> Iterator[Finding]:
    """Findings as (ok, note or bad; of what; what)."""
    yield "ok", "python", sys.version.split()[0]
    yield "ok", "sqlite", sqlite3.sqlite_version
    yield _try("pidfd", _pidfd)
    yield _folder(state)
    yield _credentials(state)
    # Not the node's own folder: a running executor must not be taken for gone.
    with tempfile.TemporaryDirectory(prefix="antecast-doctor-") as scratch:
        yield from _abilities(Path(scratch), kind)


def _abilities(scratch: Path, kind: str) -> Iterator[Finding]:
    try:
        backends = devices.make(kind, scratch / "run")
        holders = processes.make(scratch / "placements")
    except (DeviceError, OSError) as error:
        yield "bad", "back-ends", clean(error)
        return
    observer = Observer(Node(backends.devices, backends.share, holders, Clock(), scratch))
    observer.look()
    yield from _gpus(observer)
    observer.probe()
    for item in observer.capabilities:
        verdict = "ok" if item.supported else "note"
        yield (
            verdict,
            item.name,
            clean(f"{item.enforcement}, {item.effective_at}: {item.reason}".rstrip(": ")),
        )


def _gpus(observer: Observer) -> Iterator[Finding]:
    if observer.fault:
        yield "bad", "gpus", observer.fault
    for item in observer.devices.values():
        free = item.memory_total_mib.value
        yield "bad" if item.is_lost else "ok", item.uuid, clean(f"{item.name}, {free} MiB {item.reason}")


def _pidfd() -> str:
    os.close(os.pidfd_open(os.getpid()))
    return "there"


def _try(name: str, look: Callable[[], str]) -> Finding:
    try:
        return "ok", name, look()
    except OSError as error:
        return "bad", name, str(error)


def _folder(state: Path) -> Finding:
    if not state.is_dir():
        return "bad", "state", f"{state} is no folder"
    mode = stat.S_IMODE(state.stat().st_mode)
    if mode & 0o077:
        return "bad", "state", f"{state} is open to others ({mode:o}): chmod 700 it"
    if not os.access(state, os.W_OK):
        return "bad", "state", f"{state} cannot be written"
    return "ok", "state", str(state)


def _credentials(state: Path) -> Finding:
    path = state / "credentials.json"
    if not path.exists():
        return "note", "credentials", "not enrolled yet"
    try:
        read_secret(path)
    except ConfigError as error:
        return "bad", "credentials", str(error)
    return "ok", "credentials", "enrolled"
