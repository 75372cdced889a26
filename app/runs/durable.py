"""DBOS as we use it: where its tables are, and that everything in them is JSON.

On SQLite they are in a second file beside the first, so that its writers and ours do not wait for each
other; on PostgreSQL in a schema of their own.
"""

import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Final

from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer

from app.store.engine import parse_url

APPLICATION: Final = "antecast"
SCHEMA: Final = "dbos"

RUNNING: Final = "PENDING"
"""DBOS's word for a workflow that an executor has begun."""

WAITING: Final = "ENQUEUED"
"""DBOS's word for a workflow that waits in a queue."""


def system_url(database_url: str) -> str:
    """Where DBOS keeps its tables, for a database of ours."""
    url = parse_url(database_url)
    if url.get_backend_name() != "sqlite":
        return url.set(drivername="postgresql").render_as_string(hide_password=False)
    path = Path(str(url.database))
    beside = path.with_name(f"{path.stem}-runs{path.suffix or '.db'}")
    return url.set(drivername="sqlite", database=str(beside)).render_as_string(hide_password=False)


def migrate(database_url: str) -> None:
    """Bring DBOS's tables to the version that the installed library wants."""
    url = system_url(database_url)
    path = parse_url(url).database
    if url.startswith("sqlite") and path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # the file remembers it
    DBOS.migrate(url, schema=SCHEMA)


def config(database_url: str, worker_id: str) -> DBOSConfig:
    """Configuration of a worker's DBOS: nothing is pickled, nothing listens, nothing is sent anywhere."""
    return DBOSConfig(
        name=APPLICATION,
        system_database_url=system_url(database_url),
        dbos_system_schema=SCHEMA,
        serializer=DBOSPortableJSONSerializer(),
        executor_id=worker_id,
        application_version=version(APPLICATION),
        run_migrations=False,
        enable_otlp=False,
        conductor_key=None,
        sys_db_pool_size=10,
        log_level="WARNING",
    )


def client(database_url: str) -> DBOSClient:
    """A connection to enqueue, resume and cancel with, apart from whatever workflow the caller is in."""
    return DBOSClient(
        system_database_url=system_url(database_url),
        dbos_system_schema=SCHEMA,
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
    )
