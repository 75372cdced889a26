"""A history in a folder: imports come in whole or not at all, and the same file twice changes nothing."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from data.intake.format import Clock
from data.inventory_records import NodeRecord, PoolRecord
from data.records import AttemptRecord
from data.rules import Rule
from data.shelf.arrow import SCHEMA, records_of
from data.shelf.inventory import Inventory, merged_inventory, read_inventory
from data.shelf.manifest import (
    ClusterEntry,
    ImportEntry,
    Manifest,
    folder_name,
    read_manifest,
    replace_file,
    write_manifest,
)
from data.shelf.merge import merged
from data.shelf.segments import Segments
from domain.errors import Fault, InputError

_STAGING: Final = "staging-"
_LOCK: Final = "lock"


class Arrivals:
    """What one file brings, until it is kept.

    Attributes:
        segments: its attempts.
        nodes, pools: its inventory.
    """

    def __init__(self, folder: Path) -> None:
        self.segments: Final = Segments(folder)
        self.nodes: Final[list[NodeRecord]] = []
        self.pools: Final[list[PoolRecord]] = []

    def take(self, records: Sequence[AttemptRecord | NodeRecord | PoolRecord]) -> None:
        """Take what a row of a source speaks of."""
        for record in records:
            match record:
                case AttemptRecord():
                    self.segments.add(record)
                case NodeRecord():
                    self.nodes.append(record)
                case PoolRecord():
                    self.pools.append(record)


class HistoryStore:
    """The history in a folder; whoever imports holds its lock."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made by the first import."""
        self._folder: Final = folder

    def manifest(self) -> Manifest:
        """What is there.

        Raises:
            InputError: if the contents cannot be read.
        """
        return read_manifest(self._folder)

    @contextmanager
    def importing(self) -> Iterator["Importing"]:
        """The right to import, for one process at a time.

        What an import that was killed has left behind is removed first.

        Raises:
            InputError: if another process imports, or the folder cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = (self._folder / _LOCK).open("w")
        except OSError as error:
            raise _refused(self._folder, f"the folder cannot be written: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise _refused(self._folder, "another import is running; wait for it to end") from None
            self._sweep()
            yield Importing(self._folder)

    def days(self, cluster: str) -> list[int]:
        """Days (since 1970) of which attempts of a cluster are kept."""
        entry = self.manifest().clusters.get(cluster)
        return sorted(map(int, entry.days)) if entry else []

    def table(
        self, cluster: str, days: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Attempts of a cluster, by submission and id.

        Args:
            cluster: its name.
            days: days to read; None: all.
            columns: columns to read; None: all.
        """
        names = list(columns or SCHEMA.names)
        entry = self.manifest().clusters.get(cluster, ClusterEntry())
        wanted = sorted(map(int, entry.days)) if days is None else sorted(days)
        parts = [
            _read(self._folder / entry.days[str(day)], names) for day in wanted if str(day) in entry.days
        ]
        empty = pa.schema([SCHEMA.field(name) for name in names]).empty_table()
        return pa.concat_tables(parts) if parts else empty

    def records(self, cluster: str) -> list[AttemptRecord]:
        """Attempts of a cluster as records."""
        return records_of(self.table(cluster))

    def inventory(self, cluster: str) -> Inventory:
        """Nodes and pools of a cluster."""
        entry = self.manifest().clusters.get(cluster, ClusterEntry())
        return Inventory() if entry.inventory is None else read_inventory(self._folder / entry.inventory)

    def report(self, entry: ImportEntry) -> dict[str, Any]:
        """The report of a file that was imported."""
        found: dict[str, Any] = json.loads((self._folder / entry.report).read_text(encoding="utf-8"))
        return found

    def _sweep(self) -> None:
        """Remove what no contents name: leftovers of imports that were killed, and parts replaced since."""
        for left in self._folder.glob(_STAGING + "*"):
            shutil.rmtree(left)
        named = self.manifest().files()
        for kind in ("parts", "inventory", "reports"):
            for path in sorted((self._folder / kind).rglob("*.*")):
                if path.is_file() and path.relative_to(self._folder).as_posix() not in named:
                    path.unlink()


class Importing:
    """One process's right to bring files in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, sha256: str, asked: str) -> ImportEntry | None:
        """The import of the very same file, read in the same way."""
        found = (
            one for one in read_manifest(self._folder).imports if (one.sha256, one.asked) == (sha256, asked)
        )
        return next(found, None)

    @contextmanager
    def arrivals(self) -> Iterator[Arrivals]:
        """Room for what one file brings."""
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=self._folder) as staging:
            yield Arrivals(Path(staging))

    def keep(self, arrivals: Arrivals, clock: Clock, entry: ImportEntry, report: dict[str, Any]) -> None:
        """Bring in what a file has brought; until this returns the history is as it was before.

        Fills in `new`, `updated` and `unchanged` of the report.

        Raises:
            InputError: if a cluster's instants are of another kind than those it has already.
        """
        manifest = read_manifest(self._folder)
        counts = self._keep_attempts(arrivals, clock, manifest, entry)
        names = {node.cluster for node in arrivals.nodes} | {pool.cluster for pool in arrivals.pools}
        for cluster in sorted(names):
            kept = manifest.clusters.setdefault(cluster, ClusterEntry(clock.value))
            counts = _sum(counts, self._keep_inventory(arrivals, cluster, kept, entry))
        report.update(zip(("new", "updated", "unchanged"), counts, strict=True))
        merged = report["records"] - sum(counts)
        if merged > 0 and not names:
            message = (
                f"{merged} rows have the id and submission of another row of the file, which they update"
            )
            report["warnings"].append({"warning": "rows-of-one-attempt", "message": message})
        (self._folder / "reports").mkdir(exist_ok=True)
        replace_file(self._folder / entry.report, json.dumps(report, sort_keys=True).encode())
        manifest.imports = [one for one in manifest.imports if one.report != entry.report] + [entry]
        write_manifest(self._folder, manifest)

    def _keep_attempts(
        self, arrivals: Arrivals, clock: Clock, manifest: Manifest, entry: ImportEntry
    ) -> tuple[int, int, int]:
        counts = (0, 0, 0)
        for (cluster, day), found in arrivals.segments.days():
            kept = manifest.clusters.setdefault(cluster, ClusterEntry(clock.value))
            if kept.clock != clock.value:
                message = (
                    f"cluster {cluster!r} has {kept.clock} instants already, this file {clock.value} ones: "
                    "name another --cluster, or give --origin"
                )
                raise InputError([Fault(entry.file, None, Rule.OUT_OF_RANGE, message)])
            name = kept.days.get(str(day))
            known = None if name is None else _read(self._folder / name, SCHEMA.names)
            result = merged(known, found)
            counts = _sum(counts, (result.new, result.updated, result.unchanged))
            if result.new or result.updated:
                path = f"parts/{folder_name(cluster)}/{day}-{entry.sha256[:12]}{entry.asked[:8]}.parquet"
                _write(self._folder / path, result.table)
                kept.days[str(day)] = path
        return counts

    def _keep_inventory(
        self, arrivals: Arrivals, cluster: str, kept: ClusterEntry, entry: ImportEntry
    ) -> tuple[int, int, int]:
        known = Inventory() if kept.inventory is None else read_inventory(self._folder / kept.inventory)
        nodes = [one for one in arrivals.nodes if one.cluster == cluster]
        pools = [one for one in arrivals.pools if one.cluster == cluster]
        inventory, counts = merged_inventory(known, nodes, pools)
        if counts[0] or counts[1]:
            path = f"inventory/{folder_name(cluster)}-{entry.sha256[:12]}{entry.asked[:8]}.json"
            (self._folder / "inventory").mkdir(exist_ok=True)
            content = {
                "nodes": [asdict(one) for one in inventory.nodes],
                "pools": [asdict(one) for one in inventory.pools],
            }
            replace_file(self._folder / path, json.dumps(content).encode())
            kept.inventory = path
        return counts


def _sum(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=list(columns), partitioning=None)
    except (OSError, pa.ArrowException) as error:
        message = f"this part of the history cannot be read: {error}. Remove the history and import it anew"
        raise _refused(path, message) from error


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    pq.write_table(table, temporary, compression="zstd")
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def _refused(path: Path, message: str) -> InputError:
    return InputError([Fault(str(path), None, Rule.UNREADABLE_FILE, message)])
