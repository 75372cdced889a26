"""A history's folder: that it is one, who may write to it, and what is swept out of it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from data.rules import Rule
from data.shelf.manifest import KINDS, NAME, Manifest, is_ours, read_manifest, write_manifest
from domain.errors import Fault, InputError

STAGING: Final = "staging-"
_LOCK: Final = "lock"


def refused(path: Path, message: str) -> InputError:
    """The error of a history that cannot be read or written."""
    return InputError([Fault(str(path), None, Rule.UNREADABLE_FILE, message)])


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say of a full disk, or one that must not be written to, what it means.

    Raises:
        InputError: instead of the error of the operating system or of Arrow.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refused(folder, f"the history cannot be written: {reason}; it is as it was before") from error


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """A folder that is a history, or becomes one, for one writer at a time, and swept.

    Raises:
        InputError: if another process imports, the folder cannot be written or holds something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise refused(folder, f"the folder cannot be written: {error.strerror}") from error
    try:
        with writing(folder):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise refused(folder, "another import is running; wait for it to end") from None
            _claim(folder)
            _sweep(folder, read_manifest(folder))
        yield
    finally:
        os.close(lock)


def _claim(folder: Path) -> None:
    """Make an empty folder a history; one that holds anything else is left alone, and never swept."""
    if not (folder / NAME).exists():
        others = [
            path.name for path in folder.iterdir() if path.name != _LOCK and not path.name.startswith(NAME)
        ]
        if others:
            found = f"the folder is no history and is not empty ({min(others)!r}); name a new or an empty one"
            raise refused(folder, found)
        write_manifest(folder, Manifest())
    for kind in KINDS:
        if (folder / kind).is_symlink():
            raise refused(folder / kind, "this is a link; all of a history lies in its folder")


def _sweep(folder: Path, manifest: Manifest) -> None:
    """Remove what no contents name: leftovers of imports that were killed, and parts replaced since."""
    for left in folder.glob(STAGING + "*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
    named = manifest.files()
    for kind in KINDS:
        for path in sorted((folder / kind).rglob("*")):
            name = path.relative_to(folder).as_posix()
            if name not in named and is_ours(name.removesuffix(".new")) and path.is_file():
                path.unlink()
