"""What must survive the executor: one SQLite file in WAL mode, fsynced at every commit.

Before a primitive touches a process its name is written as the record's intent; afterwards the outcome, and
the events that tell of it, are written in one transaction. A torn last write is rolled back by SQLite.
"""

import json
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from antecast_executor import record as records
from antecast_executor.record import Record

SPENT_KEPT = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS placements (placement_id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spent (placement_id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS outbox
    (seq INTEGER PRIMARY KEY, event_id TEXT UNIQUE NOT NULL, body TEXT NOT NULL);
"""

# SQL and its values.
_Statement = tuple[str, tuple[str, ...]]


class JournalError(Exception):
    """The journal cannot be used. Starting without it could run a job twice, so nobody does."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for the control plane to know exactly once."""

    kind: str
    at: str
    placement_id: str | None
    job_id: str | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The last accepted document, as it came, and the last sign of the control plane.

    Attributes:
        raw: the document's bytes as text; None if it is void (another boot) and only its version counts.
        contact_s: monotonic instant, of the boot it was written under, of the last sign.
    """

    epoch: int
    generation: int
    hash: str
    raw: str | None
    contact_s: float


class Journal:
    """The durable state of one executor. Safe to be used from several threads.

    A write that fails (a full disk) raises JournalError and is kept, to be written before the next one.
    """

    def __init__(self, path: Path | None, *, boot_id: str) -> None:
        """Open it, and void what another boot left.

        Args:
            path: the file; None keeps it in memory only.
            boot_id: of the running kernel.

        Raises:
            JournalError: if the file is damaged or cannot be written.
        """
        self._lock = threading.RLock()
        self._unwritten: dict[tuple[str, str], _Statement] = {}
        try:
            self._db = _open(":memory:" if path is None else str(path))
        except sqlite3.Error as error:
            raise JournalError(f"{path}: {error}") from error
        self.is_new_boot = self._check_boot(boot_id)

    @classmethod
    def copy_of(cls, path: Path, *, boot_id: str) -> Self:
        """A copy in memory, for a dry run."""
        journal = cls(None, boot_id=boot_id)
        if path.exists():
            with closing(_read_only(path)) as source:
                source.backup(journal._db)
            journal.is_new_boot = journal._check_boot(boot_id)
        return journal

    def _check_boot(self, boot_id: str) -> bool:
        before, accepted = self._meta("boot_id"), self.accepted()
        is_new = before is not None and before != boot_id
        if is_new and accepted is not None:
            self.accept(replace(accepted, raw=None, contact_s=0.0))
        self._write(
            {("meta", "boot_id"): ("INSERT OR REPLACE INTO meta VALUES (?, ?)", ("boot_id", boot_id))}
        )
        return is_new

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._db.close()

    def _write(self, statements: Mapping[tuple[str, str], _Statement]) -> None:
        """Carry statements out in one transaction. Of unwritten ones about one thing only the last counts."""
        with self._lock:
            self._unwritten.update(statements)
            try:
                with self._db:
                    for text, values in self._unwritten.values():
                        self._db.execute(text, values)
            except sqlite3.Error as error:
                raise JournalError(str(error)) from error
            self._unwritten.clear()

    def _read(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(text, values).fetchall()
            except sqlite3.Error as error:
                raise JournalError(str(error)) from error

    def _meta(self, name: str) -> str | None:
        rows = self._read("SELECT value FROM meta WHERE name = ?", name)
        return str(rows[0][0]) if rows else None

    def accepted(self) -> Accepted | None:
        """The last accepted document."""
        text = self._meta("accepted")
        return None if text is None else Accepted(**json.loads(text))

    def accept(self, accepted: Accepted) -> None:
        """Keep a document from now on, before anything is done about it."""
        body = json.dumps({name: getattr(accepted, name) for name in Accepted.__slots__})
        self._write({("meta", "accepted"): ("INSERT OR REPLACE INTO meta VALUES (?, ?)", ("accepted", body))})

    def save(self, record: Record, events: Iterable[Event] = ()) -> None:
        """Write a placement's record and what happened to it, both or neither."""
        name, body = record.placement_id, json.dumps(records.to_json(record))
        statements = _inserts(events)
        statements["record", name] = ("INSERT OR REPLACE INTO placements VALUES (?, ?)", (name, body))
        if record.is_over:
            statements["spent", name] = ("INSERT OR IGNORE INTO spent VALUES (?)", (name,))
        self._write(statements)

    def forget(self, placement_id: str) -> None:
        """Drop a record; if it ever ran, its id stays spent."""
        limit = f"DELETE FROM spent WHERE rowid <= (SELECT max(rowid) FROM spent) - {SPENT_KEPT}"  # noqa: S608
        delete = "DELETE FROM placements WHERE placement_id = ?"
        self._write({("record", placement_id): (delete, (placement_id,)), ("spent", ""): (limit, ())})

    def records(self) -> list[Record]:
        """All records, by placement id."""
        rows = self._read("SELECT body FROM placements ORDER BY placement_id")
        return [records.from_json(json.loads(row[0])) for row in rows]

    def spent(self) -> set[str]:
        """Ids that have run and must not be started again."""
        return {str(row[0]) for row in self._read("SELECT placement_id FROM spent")}

    def emit(self, events: Iterable[Event]) -> None:
        """Put events that belong to no placement into the outbox."""
        self._write(_inserts(events))

    def pending(self, limit: int = 100) -> list[dict[str, Any]]:
        """The oldest events that have not been delivered."""
        rows = self._read("SELECT body FROM outbox ORDER BY seq LIMIT ?", limit)
        return [json.loads(row[0]) for row in rows]

    def delivered(self, event_ids: Sequence[str]) -> None:
        """Drop events that the control plane has taken."""
        text = "DELETE FROM outbox WHERE event_id = ?"
        self._write({("delivered", name): (text, (name,)) for name in event_ids})


def _inserts(events: Iterable[Event]) -> dict[tuple[str, str], _Statement]:
    statements: dict[tuple[str, str], _Statement] = {}
    for event in events:
        event_id = str(uuid.uuid4())
        body = {"event_id": event_id} | {name: getattr(event, name) for name in Event.__slots__}
        text = "INSERT INTO outbox (event_id, body) VALUES (?, ?)"
        statements["event", event_id] = (text, (event_id, json.dumps(body)))
    return statements


def _open(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, check_same_thread=False, timeout=5.0)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA cache_size = -256")
    db.executescript(_SCHEMA)
    fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise sqlite3.DatabaseError(str(fault))
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=5.0)
