"""Stored models in and out of folders: written whole or not at all, read only where every hash is right."""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.manifest import MANIFEST_FILE, Manifest
from models.artifacts.parts import Parts, decode, encode, split_name

MAX_FILE_BYTES: Final = 2**30
MAX_TOTAL_BYTES: Final = 2**31
MAX_FILES: Final = 256
MAX_MANIFEST_BYTES: Final = 2**20

TEMPORARY: Final = ".tmp-"
"""Begins the names of folders that are being written; one that a crash left behind is never read."""

_CHUNK: Final = 2**20


class Stored(NamedTuple):
    """A stored model, read."""

    manifest: Manifest
    parts: Parts


def write(folder: Path, manifest: Manifest, parts: Parts) -> None:
    """Store a model in a new folder: all of it, on the disk, before the folder has its name.

    Files can be read by their owner only (0600, in a folder of 0700).

    Args:
        folder: must not exist; the one it lies in must.
        manifest: what the model is; the hashes are added here.
        parts: the model.

    Raises:
        ArtifactError: if the folder exists or a part may not be stored.
    """
    if os.path.lexists(folder):
        raise ArtifactError(folder, Rule.EXISTS, "stored models are never overwritten")
    files = encode(parts)
    _check_sizes({name: len(content) for name, content in files.items()})
    hashes = {name: (hashlib.sha256(content).hexdigest(), len(content)) for name, content in files.items()}
    about = manifest.to_bytes(hashes)
    unfinished = folder.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    unfinished.mkdir(mode=0o700)
    try:
        for name, content in files.items():
            write_file(unfinished / name, content)
        write_file(unfinished / MANIFEST_FILE, about)
        sync_folder(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def read(folder: Path) -> Stored:
    """Read a stored model and check all of it.

    Nothing in the folder is trusted: links are not followed, only files that the manifest names are opened,
    each is read once, and what is parsed are the very bytes whose hash was checked.

    Raises:
        ArtifactError: naming the file and the rule it breaks.
    """
    with _opened_folder(folder) as handle:
        manifest, listed = Manifest.of_bytes(_read_file(handle, MANIFEST_FILE, MAX_MANIFEST_BYTES))
        if len(listed) > MAX_FILES:
            raise ArtifactError(MANIFEST_FILE, Rule.TOO_LARGE, f"lists more than {MAX_FILES} files")
        for name in listed:
            split_name(name)
        _check_sizes({name: size for name, (_, size) in listed.items()})
        for name in sorted(os.listdir(handle)):  # noqa: PTH208 - a handle has no path
            if name not in listed and name != MANIFEST_FILE:
                raise ArtifactError(name, Rule.UNLISTED, "the manifest does not name it")
        files = {name: _checked_file(handle, name, *expected) for name, expected in listed.items()}
    return Stored(manifest, decode(files))


def read_manifest(folder: Path) -> Manifest:
    """Read what a stored model is, without the model.

    Raises:
        ArtifactError: if it cannot be read.
    """
    with _opened_folder(folder) as handle:
        return Manifest.of_bytes(_read_file(handle, MANIFEST_FILE, MAX_MANIFEST_BYTES))[0]


def write_file(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, and wait until it is on the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_sizes(sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        if size > MAX_FILE_BYTES:
            raise ArtifactError(name, Rule.TOO_LARGE, f"{size} bytes, at most {MAX_FILE_BYTES}")
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        raise ArtifactError(MANIFEST_FILE, Rule.TOO_LARGE, f"more than {MAX_TOTAL_BYTES} bytes in all")


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(folder, error, Rule.NOT_A_FOLDER) from error
    try:
        yield handle
    except ArtifactError as error:
        inside = folder / error.fault.source
        raise ArtifactError(inside, Rule(error.fault.rule), error.fault.message) from error
    finally:
        os.close(handle)


def _checked_file(folder: int, name: str, digest: str, size: int) -> bytes:
    content = _read_file(folder, name, size)
    if len(content) != size:
        raise ArtifactError(name, Rule.SIZE, f"{len(content)} bytes, the manifest says {size}")
    if hashlib.sha256(content).hexdigest() != digest:
        raise ArtifactError(name, Rule.HASH, "the content is not what the manifest says it is")
    return content


def _read_file(folder: int, name: str, most: int) -> bytes:
    """The bytes of a regular file, never more than `most`; links, pipes and devices are refused."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise _refused(name, error, Rule.NOT_REGULAR) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ArtifactError(name, Rule.NOT_REGULAR, "only regular files are read")
        if found.st_size > most:
            raise ArtifactError(name, Rule.TOO_LARGE, f"{found.st_size} bytes, expected at most {most}")
        content = bytearray()
        while chunk := file.read(min(_CHUNK, most + 1 - len(content))):
            content += chunk
        return bytes(content)


def _refused(file: Path | str, error: OSError, rule_of_links: Rule) -> ArtifactError:
    if error.errno == errno.ENOENT:
        return ArtifactError(file, Rule.MISSING, "there is no such file or folder")
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        return ArtifactError(file, rule_of_links, "links are not followed")
    return ArtifactError(file, Rule.UNREADABLE, os.strerror(error.errno or 0))


def remove(folder: Path) -> None:
    """Delete a stored model: its name goes first, so that nobody reads half of it."""
    doomed = folder.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    with suppress(FileNotFoundError):
        folder.rename(doomed)
        sync_folder(folder.parent)
        shutil.rmtree(doomed)
