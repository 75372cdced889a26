"""Asking for a new plan."""

from typing import Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.services import modes
from app.services.durable import Runs
from app.store.engine import lock_cluster, transaction
from app.store.tables import ClusterRow, RunRow

_KIND: Final = "replan"
_DEDUP: Final = "replan"
_OPERATOR: Final = "operator"


def after_change(engine: Engine, runs: Runs, cluster: str) -> None:
    """Ask for a plan after an operator has changed a cluster whose plans go out by themselves.

    Args:
        engine: the database.
        runs: where to ask.
        cluster: name.
    """
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        if row.epoch > 0:
            after_event(session, runs, row, _OPERATOR)


def after_event(session: Session, runs: Runs, cluster: ClusterRow, requested_by: str = "service") -> None:
    """Something has happened to jobs or nodes: ask for a plan where plans go out by themselves.

    Args:
        session: an open transaction; the cluster is locked in it.
        runs: where to ask.
        cluster: the locked row.
        requested_by: who wants it.
    """
    if modes.follows_events(cluster):
        request(session, runs, cluster.name, requested_by)


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
