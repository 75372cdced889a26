"""Runs, the workers that carry them out, and executors."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Engine

from app.clock import SystemClock
from app.metrics.clusters import quantiles
from app.metrics.gathering import Sample
from app.store import figures
from app.store.engine import reading

_LATELY: Final = timedelta(hours=1)


class Work:
    """Reads runs and workers; of runs that are over those of the last hour only."""

    name = "runs"
    is_slow = False

    def read(self, engine: Engine, now: datetime) -> Iterator[Sample]:
        """All figures of runs and workers."""
        with reading(engine) as session:
            counts = figures.runs(session, now - _LATELY)
            took_s = figures.run_seconds(session, now - _LATELY)
            oldest = figures.oldest_queued(session)
            # Workers' leases go by the wall clock, whatever clusters go by.
            workers = figures.workers_alive(session, SystemClock().now())
        for (cluster, kind, status), number in counts.items():
            yield Sample("antecast_runs", float(number), (cluster, kind, status))
        for kind, seconds in took_s.items():
            for label, value in quantiles(seconds):
                yield Sample("antecast_run_seconds", value, (kind, label))
        for kind, at in oldest.items():
            yield Sample("antecast_oldest_queued_run_seconds", (now - at).total_seconds(), (kind,))
        yield Sample("antecast_workers_alive", float(workers))


class Executors:
    """Reads executors that are not revoked."""

    name = "executors"
    is_slow = False

    def read(self, engine: Engine, now: datetime) -> Iterator[Sample]:
        """How many are alive and how many silent, of each cluster that has some."""
        with reading(engine) as session:
            found = figures.executors(session, now)
        for cluster, (alive, silent) in found.items():
            yield Sample("antecast_executors", float(alive), (cluster, "alive"))
            yield Sample("antecast_executors", float(silent), (cluster, "silent"))
