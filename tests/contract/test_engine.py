"""What the store's engine promises, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlmodel import SQLModel

from app.errors import UnknownCluster
from app.store.engine import lock_cluster, make_engine, reading, transaction, upgrade
from app.store.health import schema_version
from app.store.migrations import HEAD
from app.store.migrations.run import config_for
from app.store.tables import ClusterRow, LogRow, PoolRow
from domain.errors import SettingError


def cluster(name: str = "c") -> ClusterRow:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    return ClusterRow(
        name=name, clock_origin=now, enforced_by="scheduler", policy="fcfs", settings={}, created_at=now
    )


def test_the_migrations_make_the_tables_that_the_code_describes(database):
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, SQLModel.metadata) == []


def test_upgrading_twice_changes_nothing(empty_database):
    upgrade(empty_database.url)
    with transaction(empty_database.engine) as session:
        session.add(cluster())
    upgrade(empty_database.url)
    with reading(empty_database.engine) as session:
        assert session.get(ClusterRow, "c") is not None


def test_what_fails_leaves_nothing_behind(database):
    with pytest.raises(IntegrityError), transaction(database.engine) as session:
        session.add_all([cluster(), PoolRow(cluster="none", name="p", position=0, quota_gpus=1)])
    with reading(database.engine) as session:
        assert session.get(ClusterRow, "c") is None


def test_rows_stay_readable_after_the_transaction_and_instants_are_utc(database):
    with transaction(database.engine) as session:
        session.add(cluster())
    with transaction(database.engine) as session:
        row = lock_cluster(session, "c")
    assert row.clock_origin == datetime(2026, 1, 5, tzinfo=UTC)
    assert row.settings == {}


def test_foreign_keys_hold(database):
    with pytest.raises(IntegrityError), transaction(database.engine) as session:
        session.add(PoolRow(cluster="none", name="p", position=0, quota_gpus=1))


def test_a_reader_cannot_write_and_the_next_writer_can(database):
    with reading(database.engine) as session:
        session.add(cluster())
        with pytest.raises(DBAPIError):
            session.flush()
    with transaction(database.engine) as session:
        session.add(cluster())


def test_a_reader_sees_one_state_and_blocks_nobody(database):
    with reading(database.engine) as before:
        assert before.scalars(select(ClusterRow)).all() == []
        with transaction(database.engine) as session:
            session.add(cluster())
        assert before.scalars(select(ClusterRow)).all() == []
    with reading(database.engine) as after:
        assert len(after.scalars(select(ClusterRow)).all()) == 1


def test_locking_an_unknown_cluster_is_refused(database):
    with transaction(database.engine) as session, pytest.raises(UnknownCluster, match="'c'"):
        lock_cluster(session, "c")


def test_sqlite_keeps_a_write_ahead_log(database):
    if not database.is_sqlite:
        pytest.skip("of SQLite")
    with database.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"


def test_concurrent_writers_of_one_cluster_keep_one_order(database):
    with transaction(database.engine) as session:
        session.add(cluster())

    def write(writer: int) -> list[int]:
        engine = database.another_engine()
        mine = []
        for _ in range(20):
            with transaction(engine) as session:
                row = lock_cluster(session, "c")
                row.seq += 1
                entry = LogRow(
                    cluster="c",
                    seq=row.seq,
                    kind="submitted",
                    at_s=0.0,
                    data={"writer": writer},
                    source="test",
                    recorded_at=row.created_at,
                )
                session.add(entry)
                mine.append(row.seq)
        return mine

    with ThreadPoolExecutor(4) as threads:
        written = list(threads.map(write, range(4)))
    assert all(mine == sorted(mine) for mine in written)
    with reading(database.engine) as session:
        kept = session.scalars(select(LogRow.seq).order_by(LogRow.seq)).all()
        last = session.get(ClusterRow, "c")
    assert kept == list(range(1, 81))
    assert last.seq == 80


def test_processes_that_start_together_migrate_once(empty_database):
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(upgrade, [empty_database.url] * 3))
    assert schema_version(empty_database.engine) == HEAD


def test_the_version_the_code_needs_is_the_newest_migration():
    assert ScriptDirectory.from_config(config_for()).get_current_head() == HEAD


def test_a_database_without_tables_has_no_version(empty_database):
    assert schema_version(empty_database.engine) is None


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://u@h/d", "sqlite://", "sqlite:///:memory:"])
def test_databases_we_do_not_support_are_refused(url):
    with pytest.raises(SettingError):
        make_engine(url)
