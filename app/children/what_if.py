"""The child that answers a what-if: the jobs from the database, the rest is `simulator.what_if`."""

import os
from collections.abc import Sequence
from typing import Any

import pandas as pd
from sqlalchemy import Engine

from app.children import main, tell_progress
from app.store import history, live
from app.store.engine import make_engine, reading
from app.store.tables import JobRow, LiveState
from data.history import in_order
from data.schema import COLUMNS
from simulator.what_if.answer import answer as answered
from simulator.what_if.answer import with_requeueable


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a what-if.

    Args:
        request: what `app.services.what_if.load` returned.

    Returns:
        What `simulator.what_if.answer.answer` does.

    Raises:
        SettingError: if there are no jobs to replay, or a change cannot be.
    """
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        frame = jobs_of(engine, request["cluster"])
    finally:
        engine.dispose()
    return answered(with_requeueable(frame, request["requeueable_pools"]), request, tell_progress)


def jobs_of(engine: Engine, cluster: str) -> pd.DataFrame:
    """Imported jobs and live ones that have ended, as the table of `data.schema`."""
    with reading(engine) as session:
        rows: list[Sequence[Any]] = list(history.rows(session, cluster))
        known = {row[0] for row in rows}
        rows += [
            table_row(job)
            for job in live.all_jobs(session, cluster)
            if job.state == LiveState.ENDED and job.job_id not in known
        ]
    raw = pd.DataFrame(rows, columns=[column.name for column in COLUMNS])
    return in_order(raw.astype({column.name: column.kind.dtype for column in COLUMNS}))


def table_row(job: JobRow) -> list[Any]:
    """A live job's row of the table."""
    ended_s = job.ended_s if job.ended_s is not None else job.submit_s
    started_s = job.started_s if job.started_s is not None else job.submit_s
    own: dict[str, Any] = {"duration_s": max(ended_s - started_s, 0.0), "state": job.end_state}
    own["start_s"] = job.started_s
    own["checkpoint_s"] = own["restart_s"] = None  # the live service does not know of checkpoints
    return [own[column.name] if column.name in own else getattr(job, column.name) for column in COLUMNS]


if __name__ == "__main__":
    main(answer)
