"""Asking for runs and cancelling them. A run is a row of ours; workers find it there."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock, make_clock
from app.errors import TooManyRequests, UnknownResource
from app.settings import ServiceSettings
from app.store import runs as store
from app.store.engine import lock_cluster, make_engine, transaction
from app.store.tables import RunRow, RunStatus

MAX_QUEUED_RUNS: Final = 100
"""Runs of one kind that may wait in one cluster."""


class RunClient:
    """What the API and services hold to have long work done.

    Asking is one row in the caller's own transaction: the run is there if and only if what it was asked for
    with is. Workers look for such rows several times a second and hand them to DBOS under the run's id,
    which makes handing over twice the same as once.
    """

    def __init__(
        self, settings: ServiceSettings, *, engine: Engine | None = None, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._clock = clock or make_clock(settings.clock_speed, settings.clock_origin)

    def enqueue(
        self,
        session: Session,
        kind: str,
        cluster: str,
        arguments: Mapping[str, Any],
        requested_by: str,
        dedup: str | None = None,
    ) -> RunRow:
        """Ask for a run, as part of the session's transaction.

        Args:
            session: an open transaction; the cluster is locked in it.
            kind: what to do: `app.runs.kinds.RunKind`.
            cluster: for which cluster.
            arguments: what the kind needs to know; small.
            requested_by: who asks.
            dedup: name under which a run that still waits does instead of a new one.

        Returns:
            The run, or the one that waits already.

        Raises:
            UnknownCluster: if there is none of that name.
            TooManyRequests: if too many such runs wait already.
        """
        lock_cluster(session, cluster)
        if dedup is not None:
            waiting = store.queued_like(session, cluster, kind, dedup)
            if waiting is not None:
                return waiting
        if store.count_queued(session, cluster, kind) >= MAX_QUEUED_RUNS:
            raise TooManyRequests(
                f"{MAX_QUEUED_RUNS} runs of this kind wait already; wait for them or cancel some", 30
            )
        now = self._clock.now()
        return store.add(
            session,
            RunRow(
                run_id=_make_id(now),
                cluster=cluster,
                kind=kind,
                status=RunStatus.QUEUED.value,
                arguments=dict(arguments) | ({} if dedup is None else {"dedup": dedup}),
                requested_by=requested_by[:63],
                requested_at=now,
            ),
        )

    def cancel(self, run_id: str) -> None:
        """Cancel a run: one that waits never begins; of one that runs the child is killed within a second.

        The latter is over, and has `finished_at`, once its worker has kept what can be kept of it. Nothing
        happens to a run that is over.

        Raises:
            UnknownResource: if there is none of that id.
        """
        if self._engine is None:
            self._engine = make_engine(self._settings.database_url)
        with transaction(self._engine) as session:
            run = store.lock(session, run_id)
            if run is None:
                raise UnknownResource(f"there is no run {run_id!r}")
            store.cancel(session, run, self._clock.now())


def _make_id(now: datetime) -> str:
    """Unique, and later ones sort behind earlier ones: those that wait keep their order everywhere."""
    return f"run-{round(now.timestamp() * 1000):012x}{secrets.token_hex(10)}"
