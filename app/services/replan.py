"""Asking for a new plan."""

from typing import Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.services.durable import Runs
from app.store.engine import lock_cluster, transaction
from app.store.tables import EnforcedBy, RunRow

_KIND: Final = "replan"
_DEDUP: Final = "replan"
_OPERATOR: Final = "operator"


def after_change(engine: Engine, runs: Runs, cluster: str) -> None:
    """Ask for a plan after an operator has changed a cluster that executors enforce; else nobody would.

    Args:
        engine: the database.
        runs: where to ask.
        cluster: name.
    """
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        if row.enforced_by == EnforcedBy.EXECUTORS and row.epoch > 0:
            request(session, runs, cluster, _OPERATOR)


def request(session: Session, runs: Runs, cluster: str, requested_by: str = "service") -> RunRow:
    """Ask for a plan of a cluster; one that waits already will see what has happened until it begins.

    Args:
        session: an open transaction: the plan is asked for if and only if it is committed.
        runs: where to ask.
        cluster: name.
        requested_by: who wants it.

    Raises:
        UnknownCluster: if there is none of that name.
    """
    return runs.enqueue(session, _KIND, cluster, {}, requested_by, _DEDUP)
