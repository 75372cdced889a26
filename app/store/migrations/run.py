"""Running the migrations, and which version the code needs."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

_LOCK: Final = 0x616E7465  # any number that nobody else locks in this database


def config_for() -> Config:
    """Alembic's configuration; no file is needed."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def run_migrations(engine: Engine, revision: str = "head") -> None:
    """Upgrade in one transaction: either all changes are made or none."""
    config = config_for()
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
