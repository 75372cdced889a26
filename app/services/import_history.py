"""Files of job history in: taken in pieces, read by a child process, kept as rows."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import Engine

from app.clock import Clock
from app.errors import Invalid, TooManyRequests, UnknownResource
from app.services.clusters import require
from app.services.durable import Runs
from app.services.garbage import refuse_garbage
from app.services.times import to_s
from app.store import history as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, HistoryImportRow, ImportStatus, Json, RunRow

CSV: Final = "csv"
"""The table of jobs of `data.schema`, as `data.readers` reads it."""

FORMATS: Final = (
    CSV, "auto", "acme", "alibaba-2020", "alibaba-2023", "drac", "eagle", "google-2011", "helios",
    "kubernetes", "lumos", "parquet", "philly", "sacct", "slurmdbd-json", "squeue", "swf",
)  # fmt: skip
"""`csv`, and those of `data.formats.FORMATS` that hold histories, which take Arrow to know."""

KIND: Final = "import"
CHUNK_BYTES: Final = 2**20
MAX_UNFINISHED: Final = 8
"""Uploads of one cluster that may be under way or wait to be read: their bytes are kept until then."""

_ABANDONED_AFTER: Final = timedelta(hours=1)
_RETRY_AFTER_S: Final = 30


@dataclass(frozen=True, slots=True)
class Found:
    """Imports of a cluster, and how many jobs it has from all of them."""

    imports: Sequence[HistoryImportRow]
    num_jobs: int


@dataclass
class Upload:
    """An upload under way. Each piece is a transaction of its own: a slow sender holds nobody up.

    `options` is what the sender says of the file beside its format, for the run that reads it.
    """

    engine: Engine
    cluster: str
    import_id: str
    options: Json = field(default_factory=dict)
    file_format: str = CSV
    _digest: Any = field(default_factory=hashlib.sha256)
    _buffer: bytearray = field(default_factory=bytearray)
    _position: int = 0
    _num_bytes: int = 0

    def take(self, piece: bytes) -> None:
        """Take more bytes; full chunks are kept.

        Raises:
            Invalid: if it is no file of job history by its first bytes.
        """
        self._buffer += piece
        while len(self._buffer) >= CHUNK_BYTES:
            self._keep(bytes(self._buffer[:CHUNK_BYTES]))
            del self._buffer[:CHUNK_BYTES]

    def finish(self, runs: Runs, requested_by: str) -> tuple[HistoryImportRow, RunRow]:
        """All bytes are there: queue the run that reads them.

        Raises:
            Invalid: if there were none, or they are no file of job history.
        """
        if self._buffer:
            self._keep(bytes(self._buffer))
        if not self._num_bytes:
            raise Invalid("the body is empty, a header and rows are expected")
        with transaction(self.engine) as session:
            lock_cluster(session, self.cluster)
            row = _require_import(store.lock(session, self.import_id), self.cluster, self.import_id)
            row.status = ImportStatus.WAITING.value
            row.num_bytes = self._num_bytes
            row.sha256 = self._digest.hexdigest()
            arguments = {"import_id": self.import_id, **self.options}
            run = runs.enqueue(session, KIND, self.cluster, arguments, requested_by, None)
        return row, run

    def abandon(self) -> None:
        """Forget what was taken so far."""
        with transaction(self.engine) as session:
            store.remove(session, self.import_id)

    def _keep(self, chunk: bytes) -> None:
        if not self._num_bytes:
            refuse_garbage(chunk, self.file_format)
        self._digest.update(chunk)
        self._num_bytes += len(chunk)
        with transaction(self.engine) as session:
            store.add_chunk(session, self.import_id, self._position, chunk)
        self._position += 1


def begin(
    engine: Engine,
    cluster: str,
    *,
    file_format: str,
    is_lenient: bool,
    origin: datetime | None,
    clock: Clock,
    tz: str | None = None,
) -> Upload:
    """Begin an upload.

    Args:
        engine: the database.
        cluster: whose history it is.
        file_format: one of `FORMATS`.
        is_lenient: leave bad rows out, and list them, instead of refusing the file.
        origin: the instant of the file's second 0; the cluster's clock origin where None. Of formats whose
            times are instants it says nothing.
        clock: our clock.
        tz: zone of stamps without an offset; `csv` has none.

    Raises:
        UnknownCluster: if there is none of that name.
        Invalid: for an unknown format or zone.
        TooManyRequests: if too many uploads of the cluster are not read yet.
    """
    if file_format not in FORMATS:
        raise Invalid(f"unknown format {file_format!r}; there are: {', '.join(FORMATS)}")
    options = _options(file_format, tz, origin)
    now = clock.now()
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        for import_id in store.abandoned(session, cluster, now - _ABANDONED_AFTER):
            store.remove(session, import_id)
        if store.count_unfinished(session, cluster) >= MAX_UNFINISHED:
            raise TooManyRequests(
                f"{MAX_UNFINISHED} uploads of this cluster are not read yet; wait for them", _RETRY_AFTER_S
            )
        import_id = f"imp-{secrets.token_hex(16)}"
        shift_s = 0.0 if origin is None else to_s(row, origin)
        store.add(session, _new_row(row, import_id, file_format, is_lenient, shift_s, now))
    return Upload(engine, cluster, import_id, options, file_format)


def load(cluster: str, arguments: Json) -> Json:
    """The request for the child process that reads an upload; it gets the rest from the database."""
    told: Json = {name: arguments[name] for name in ("tz", "origin_s") if name in arguments}
    return {"cluster": cluster, "import_id": str(arguments["import_id"]), **told}


def found(engine: Engine, cluster: str, before: str | None, limit: int) -> Found:
    """Imports of a cluster, the newest first; only those older than the one of id `before`.

    Raises:
        UnknownResource: if there is no such cluster or no such import.
    """
    with reading(engine) as session:
        require(session, cluster)
        last = None if before is None else _require_import(store.get(session, before), cluster, before)
        return Found(store.page(session, cluster, last, limit), store.count_jobs(session, cluster))


def get(engine: Engine, cluster: str, import_id: str) -> HistoryImportRow:
    """An import.

    Raises:
        UnknownResource: if there is no such cluster or no such import.
    """
    with reading(engine) as session:
        require(session, cluster)
        return _require_import(store.get(session, import_id), cluster, import_id)


def _options(file_format: str, tz: str | None, origin: datetime | None) -> Json:
    """What the run that reads a file is told of it beside what its row says."""
    if file_format == CSV:
        if tz is not None:
            raise Invalid("csv counts seconds, it has no stamps: tz is for the other formats")
        return {}
    options: Json = {}
    if tz is not None:
        try:
            options["tz"] = ZoneInfo(tz).key
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise Invalid(f"there is no time zone {tz!r}; names look like Europe/Zurich") from error
    if origin is not None:
        options["origin_s"] = origin.timestamp()
    return options


def _new_row(
    cluster: ClusterRow, import_id: str, file_format: str, is_lenient: bool, shift_s: float, now: datetime
) -> HistoryImportRow:
    return HistoryImportRow(
        import_id=import_id,
        cluster=cluster.name,
        file_format=file_format,
        is_lenient=is_lenient,
        shift_s=shift_s,
        created_at=now,
    )


def _require_import(row: HistoryImportRow | None, cluster: str, import_id: str) -> HistoryImportRow:
    if row is None or row.cluster != cluster:
        raise UnknownResource(f"cluster {cluster!r} has no import {import_id!r}")
    return row
