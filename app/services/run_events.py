"""Events of runs, looked at."""

from collections.abc import Sequence

from sqlalchemy import Engine

from app.errors import UnknownResource
from app.store import run_events as store
from app.store import runs
from app.store.engine import reading
from app.store.tables import RunEventRow


def require_run(engine: Engine, run_id: str) -> None:
    """Refuse what is no run.

    Raises:
        UnknownResource: if there is none of that id.
    """
    with reading(engine) as session:
        if runs.status_of(session, run_id) is None:
            raise UnknownResource(f"there is no run {run_id!r}")


def after(engine: Engine, run_id: str, number: int, limit: int) -> Sequence[RunEventRow]:
    """Events of a run behind a number, in their order.

    Raises:
        UnknownResource: if there is no such run.
    """
    require_run(engine, run_id)
    with reading(engine) as session:
        return store.after(session, run_id, number, limit)
