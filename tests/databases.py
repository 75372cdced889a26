"""Databases for tests: a fresh, migrated one per test, on SQLite and on PostgreSQL.

One temporary PostgreSQL server is started per test session, in a folder of its own and on a Unix socket
only. Where its programs are absent the tests that need it are skipped.
"""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from app.store.engine import make_engine, upgrade

_START_LIMIT_S = 60


@dataclass(frozen=True)
class Database:
    """A database of a test's own."""

    url: str
    _made: list[Engine] = field(default_factory=list)
    _connected: list[Any] = field(default_factory=list)

    @cached_property
    def engine(self) -> Engine:
        """An engine, disposed of after the test."""
        return self.another_engine()

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def another_engine(self) -> Engine:
        """One more, as another process would have it."""
        engine = make_engine(self.url)
        self._made.append(engine)
        self.watch(engine)
        return engine

    def watch(self, engine: Engine) -> None:
        """Have an engine's connections closed after the test, also those that a thread gives back late."""
        if not self.is_sqlite:
            event.listen(engine, "connect", lambda connection, _record: self._connected.append(connection))

    def dispose(self) -> None:
        for engine in self._made:
            engine.dispose()
        for connection in self._connected:
            connection.close()  # one that a thread gives back only now goes to a pool that is gone


@dataclass(frozen=True)
class PostgresServer:
    """A running server; `url_of` names its databases."""

    socket_folder: Path

    def url_of(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@/{name}?host={self.socket_folder}"

    def create(self, name: str, template: str = "template0") -> str:
        self._run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url_of(name)

    def drop(self, name: str) -> None:
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        engine = make_engine(self.url_of("postgres"))
        try:
            with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                connection.execute(text(statement))
        finally:
            engine.dispose()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database file, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL, with the database `antecast_template` migrated."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's programs initdb and pg_ctl are not installed")
    folder = Path(tempfile.mkdtemp(prefix="antecast-pg-"))  # short: a socket's path has at most 107 bytes
    owner = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    if owner:
        shutil.chown(folder, **owner)
    initdb, pg_ctl = programs
    settings = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=300"
    data = folder / "data"

    def run(*command: str) -> None:
        subprocess.run(
            command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=_START_LIMIT_S, **owner
        )

    try:
        run(
            initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "--no-locale"
        )
        run(pg_ctl, "-D", str(data), "-l", str(folder / "log"), "-o", settings, "-w", "start")
        try:
            server = PostgresServer(folder)
            upgrade(server.create("antecast_template"))
            yield server
        finally:
            run(pg_ctl, "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A fresh, migrated database."""
    if request.param == "sqlite":
        path = tmp_path / "antecast.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        made = Database(f"sqlite:///{path}")
        yield made
        made.dispose()
    else:
        yield from _postgres_database(request, "antecast_template")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without any table."""
    if request.param == "sqlite":
        made = Database(f"sqlite:///{tmp_path / 'empty.db'}")
        yield made
        made.dispose()
    else:
        yield from _postgres_database(request, "template0")


def _postgres_database(request: pytest.FixtureRequest, template: str) -> Iterator[Database]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"t{uuid.uuid4().hex}"
    made = Database(server.create(name, template))
    yield made
    made.dispose()
    server.drop(name)


def _programs() -> tuple[str, str] | None:
    places = [None, *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))]
    for place in places:
        initdb, pg_ctl = (shutil.which(name, path=place) for name in ("initdb", "pg_ctl"))
        if initdb and pg_ctl:
            return initdb, pg_ctl
    return None
