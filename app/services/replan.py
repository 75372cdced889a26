"""Asking for a new plan."""

from typing import Final

from sqlmodel import Session

from app.services.durable import Runs
from app.store.tables import RunRow

_KIND: Final = "replan"
_DEDUP: Final = "replan"


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
