"""Connections and transactions, so that SQLite and PostgreSQL behave alike where we depend on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlmodel import Session, create_engine, select

from app.errors import UnknownCluster
from app.store.tables import ClusterRow
from domain.errors import SettingError

BUSY_TIMEOUT_S: Final = 30
"""How long a writer waits for its turn on SQLite, and anyone for a connection."""

_READING: Final = "antecast_reading"
_SQLITE: Final = "sqlite"
_POSTGRESQL: Final = "postgresql"


def make_engine(url: str, *, wait_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Make the engine of a database; nothing is connected yet.

    Args:
        url: `sqlite:///path/to/file` or `postgresql://user@host/name`.
        wait_s: how long a writer waits for its turn on SQLite, and anyone for a connection.

    Raises:
        SettingError: for a database we do not support.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == _POSTGRESQL:
        return create_engine(
            parsed,
            isolation_level="READ COMMITTED",
            pool_size=5,
            max_overflow=20,
            pool_timeout=wait_s,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10, "application_name": "antecast"},
        )
    Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        parsed,
        pool_size=5,
        max_overflow=40,
        pool_timeout=wait_s,
        connect_args={"timeout": wait_s},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def parse_url(url: str) -> URL:
    """The URL with the driver we use.

    Raises:
        SettingError: for what is no URL, or of a database we do not support.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise SettingError("the database's URL cannot be read") from error
    backend = parsed.get_backend_name()
    if backend == _POSTGRESQL:
        return parsed.set(drivername="postgresql+psycopg")
    if backend == _SQLITE and parsed.database not in (None, "", ":memory:"):
        return parsed.set(drivername="sqlite+pysqlite")
    raise SettingError(
        f"{backend} in this form cannot be used: sqlite:///path/to/file or postgresql://user@host/name"
    )


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """A session whose work is committed as a whole at the end, or not at all.

    On SQLite writers come one after the other from the start on, so that none has to give up midway.
    Rows stay readable after the end.
    """
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A session that sees one state of the database, and cannot change it."""
    options: dict[str, Any] = {_READING: True}
    if engine.dialect.name == _POSTGRESQL:
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with Session(engine.execution_options(**options), expire_on_commit=False) as session:
        yield session


def lock_cluster(session: Session, name: str) -> ClusterRow:
    """The cluster's row as it is now; whoever else asks for it waits until the transaction ends.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    wanted = select(ClusterRow).where(ClusterRow.name == name).with_for_update()
    row = session.exec(wanted.execution_options(populate_existing=True)).one_or_none()
    if row is None:
        raise UnknownCluster(name)
    return row


def upgrade(url: str) -> None:
    """Bring the database's tables to the newest version; does nothing if they are.

    Several processes may do so at once.
    """
    from app.store.migrations.run import run_migrations  # noqa: PLC0415 - Alembic is slow to load

    engine = make_engine(url)
    try:
        run_migrations(engine)
    finally:
        engine.dispose()


def _prepare_sqlite(connection: Any, record: Any) -> None:
    del record
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    cursor = connection.cursor()
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    is_reading = bool(connection.get_execution_options().get(_READING))
    if connection.info.get(_READING) != is_reading:
        connection.exec_driver_sql(f"PRAGMA query_only = {int(is_reading)}")
        connection.info[_READING] = is_reading
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")
