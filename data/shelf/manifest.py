"""The table of contents of a history: what is not named in it is not there. Replaced whole, or not at all."""

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from data.intake.text import hashed
from data.rules import Rule
from domain.errors import Fault, InputError

VERSION: Final = 1
NAME: Final = "manifest.json"


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
        InputError: if it is broken or of a newer version.
    """
    path = folder / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Manifest()
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise _broken(path, f"version {found['version']!r}, this program reads {VERSION}")
        clusters = {name: ClusterEntry(**entry) for name, entry in found["clusters"].items()}
        manifest = Manifest(clusters, [ImportEntry(**entry) for entry in found["imports"]])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _broken(path, f"it cannot be read: {error}") from error
    for name in manifest.files():
        if not _INSIDE.fullmatch(name):
            raise _broken(path, f"it names {name!r}, which is not inside the folder")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the contents; whoever reads meanwhile sees the old ones or the new ones."""
    content: dict[str, Any] = {"version": VERSION, **asdict(manifest)}
    replace_file(folder / NAME, json.dumps(content, indent=1, sort_keys=True).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def folder_name(cluster: str) -> str:
    """Name of a cluster's folder: readable, and never a way out of it."""
    plain = re.sub(r"[^a-z0-9]+", "-", cluster.casefold()).strip("-")[:40]
    return f"{plain or 'cluster'}-{hashed(cluster)[:8]}"


_INSIDE: Final = re.compile(r"[a-z]+/[a-z0-9-]+(?:/[a-z0-9-]+)?\.(?:parquet|json)")


def _broken(path: Path, message: str) -> InputError:
    return InputError([Fault(str(path), None, Rule.UNREADABLE_FILE, message)])
