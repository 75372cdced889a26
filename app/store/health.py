"""Whether the database can be used."""

from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from app.store.engine import reading


def schema_version(engine: Engine) -> str | None:
    """The newest change that was made to the tables; None where there are none yet.

    Raises:
        OperationalError: if the database does not answer.
    """
    try:
        with reading(engine) as session:
            return session.connection().execute(text("SELECT version_num FROM alembic_version")).scalar()
    except ProgrammingError:
        return None
    except OperationalError as error:
        if "no such table" in str(error.orig):
            return None
        raise
