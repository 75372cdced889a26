"""Runs, looked at."""

from collections.abc import Sequence

from sqlalchemy import Engine

from app.errors import UnknownResource
from app.services.clusters import require
from app.store import runs as store
from app.store.engine import reading
from app.store.tables import RunRow


def get(engine: Engine, run_id: str) -> RunRow:
    """A run.

    Raises:
        UnknownResource: if there is none of that id.
    """
    with reading(engine) as session:
        run = store.get(session, run_id)
    if run is None:
        raise UnknownResource(f"there is no run {run_id!r}")
    return run


def page(engine: Engine, cluster: str, kind: str | None, before: str | None, limit: int) -> Sequence[RunRow]:
    """Runs of a cluster, the newest first; only those older than the one of id `before`.

    Raises:
        UnknownResource: if there is no such cluster, or it has no run `before`.
    """
    with reading(engine) as session:
        require(session, cluster)
        place = None
        if before is not None:
            last = store.get(session, before)
            if last is None or last.cluster != cluster:
                raise UnknownResource(f"cluster {cluster!r} has no run {before!r}")
            place = store.Place(last.requested_at, last.run_id)
        return store.page(session, cluster, kind, place, limit)
