"""What sharing has done so far: the report of each cluster, which reads its whole log."""

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import Engine

from app.metrics.gathering import Sample
from app.services.report import report
from app.store import figures
from app.store.engine import reading


class Promise:
    """Slow: a report takes longer the longer the log is, so it is made in the background and seldom."""

    name = "report"
    is_slow = True

    def read(self, engine: Engine, now: datetime) -> Iterator[Sample]:
        """The figures of the report of each cluster that has an inventory."""
        del now
        with reading(engine) as session:
            names = [row.name for row in figures.begun(session)]
        for name in names:
            made = report(engine, name)
            yield Sample("antecast_requeues", made["sent_back"], (name,))
            yield Sample("antecast_repeated_gpu_hours", made["repeated_gpu_hours"], (name,))
            yield Sample("antecast_lent_gpu_hours", made["lent_gpu_hours"], (name,))
            yield Sample("antecast_started_early_jobs", made["started_early"], (name,))
            yield Sample("antecast_slowed_jobs", made["slowed"], (name,))
            measured = made["ended"] - made["unresolved"]
            yield Sample("antecast_slowed_share", made["slowed"] / max(measured, 1), (name,))
