"""The table of contents of a history: what is not named in it is not there. Replaced whole, or not at all."""

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from data.intake.format import Clock
from data.intake.text import hashed
from data.rules import Rule, shown
from domain.errors import Fault, InputError

VERSION: Final = 1
NAME: Final = "manifest.json"
KINDS: Final = ("parts", "inventory", "reports")
"""Folders of a history."""


@dataclass
class ClusterEntry:
    """What is kept of one cluster.

    Attributes:
        clock: `utc`, or `relative` where instants are counted from an unknown origin.
        days: file of each day (since 1970, as text), relative to the folder.
        inventory: file of its nodes and pools; None where nothing is known of them.
    """

    clock: str = "utc"
    days: dict[str, str] = field(default_factory=dict)
    inventory: str | None = None


@dataclass
class ImportEntry:
    """A file that was imported.

    Attributes:
        sha256: of its bytes.
        asked: hash of the format and options it was read with.
        file: its name.
        report: file of its report, relative to the folder.
    """

    sha256: str
    asked: str
    file: str
    report: str


@dataclass
class Manifest:
    """Contents of a history."""

    clusters: dict[str, ClusterEntry] = field(default_factory=dict)
    imports: list[ImportEntry] = field(default_factory=list)

    def files(self) -> set[str]:
        """Files that it names."""
        named = {one.report for one in self.imports}
        for cluster in self.clusters.values():
            named.update(cluster.days.values())
            if cluster.inventory is not None:
                named.add(cluster.inventory)
        return named


def read_manifest(folder: Path) -> Manifest:
    """The contents of a history; an empty one where there is none yet.

    Raises:
        InputError: if it is broken or of a newer version, or the folder cannot be read.
    """
    path = folder / NAME
    try:
        found = json.loads(path.read_bytes())
        if found["version"] != VERSION:
            raise _broken(path, f"version {found['version']!r}, this program reads {VERSION}")
        clusters = {name: _cluster(entry) for name, entry in found["clusters"].items()}
        imports = [_import(entry) for entry in found["imports"]]
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise _broken(path, f"it cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _broken(path, f"it cannot be read: {shown(error)}") from error
    return Manifest(clusters, imports)


def _cluster(entry: dict[str, Any]) -> ClusterEntry:
    made = ClusterEntry(**entry)
    Clock(made.clock)
    for day, name in made.days.items():
        int(day)
        _check_inside(name)
    if made.inventory is not None:
        _check_inside(made.inventory)
    return made


def _import(entry: dict[str, Any]) -> ImportEntry:
    made = ImportEntry(**entry)
    if not all(isinstance(value, str) for value in vars(made).values()):
        raise ValueError("an import has texts only")
    _check_inside(made.report)
    return made


def _check_inside(name: str) -> None:
    if not is_ours(name):
        raise ValueError(f"{name!r} is no file of a history")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the contents; whoever reads meanwhile sees the old ones or the new ones."""
    content: dict[str, Any] = {"version": VERSION, **asdict(manifest)}
    replace_file(folder / NAME, json.dumps(content, indent=1, sort_keys=True).encode())
    sync_folder(folder)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all (see `sync_folder`)."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def sync_folder(folder: Path) -> None:
    """Have the names of the folder's files written through, so that they outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_ours(name: str) -> bool:
    """Whether a file's name, relative to the history's folder, is one that imports give."""
    return _INSIDE.fullmatch(name) is not None


def folder_name(cluster: str) -> str:
    """Name of a cluster's folder: readable, and never a way out of it."""
    plain = re.sub(r"[^a-z0-9]+", "-", cluster.casefold()).strip("-")[:40]
    return f"{plain or 'cluster'}-{hashed(cluster)}"


_INSIDE: Final = re.compile(rf"(?:{'|'.join(KINDS)})/[a-z0-9-]+(?:/[a-z0-9-]+)?\.(?:parquet|json)")


def _broken(path: Path, message: str) -> InputError:
    return InputError([Fault(str(path), None, Rule.UNREADABLE_FILE, message)])
