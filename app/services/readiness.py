"""Whether the service can work, and what it lacks."""

from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.clock import SystemClock
from app.store import figures
from app.store.engine import reading
from app.store.health import schema_version
from app.store.migrations import HEAD


@dataclass(frozen=True, slots=True)
class State:
    """What there is.

    Attributes:
        missing: of database, migrations, workers.
        what_to_do: about the first of them; empty if nothing is missing.
        schema_version: of the database's tables; None where it has none, or does not answer.
        num_workers: that are alive.
    """

    missing: tuple[str, ...]
    what_to_do: str
    schema_version: str | None
    num_workers: int

    @property
    def is_ready(self) -> bool:
        """Whether requests can be served; they can without workers."""
        return not {"database", "migrations"} & set(self.missing)


def look(engine: Engine) -> State:
    """Look at the database and the workers."""
    try:
        found = schema_version(engine)
        if found != HEAD:
            why = f"its tables are of version {found or 'none'}, {HEAD} is needed: run `antecast migrate`"
            return State(("migrations",), why, found, 0)
        with reading(engine) as session:
            alive = figures.workers_alive(session, SystemClock().now())
    except (OperationalError, InterfaceError, PoolTimeoutError) as error:
        why = f"the database does not answer ({_reason(error)}); it is tried again with each request"
        return State(("database",), why, None, 0)
    if not alive:
        return State(("workers",), "no worker is alive: run `antecast worker`", found, 0)
    return State((), "", found, alive)


def _reason(error: Exception) -> str:
    """The kind of error only: what the driver says may name hosts and users."""
    return type(getattr(error, "orig", None) or error).__name__
