"""What forecasters of an epoch learn from, out of the database: imported history and jobs that have ended."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from sqlalchemy import Engine

from app.errors import UnknownResource
from app.services.facts import job_of
from app.store import history, live
from app.store.engine import reading
from app.store.tables import EpochRow, JobRow
from data.schema import COLUMNS
from domain.jobs import Job
from models import Training
from simulator.workload import before, cut_off_before, starts_before


@dataclass(frozen=True)
class Material:
    """An epoch and what had happened before it.

    Attributes:
        epoch: its row.
        frame: imported jobs, as the table of `data.schema`.
        ended: live jobs: when each ended, the job, and how long it ran, by (end, id).
    """

    epoch: EpochRow
    frame: pd.DataFrame
    ended: Sequence[tuple[float, Job, float]]


def read(engine: Engine, cluster: str, epoch: int, *, with_history: bool = True) -> Material:
    """Read it; without its history where nothing is to be learned.

    Raises:
        UnknownResource: if there is no such epoch.
    """
    with reading(engine) as session:
        row = live.epoch(session, cluster, epoch)
        if row is None:
            raise UnknownResource(f"cluster {cluster} has no epoch {epoch}")
        frame = _history_frame(history.rows(session, cluster) if with_history else ())
        lived = live.ended_before(session, cluster, row.from_seq) if with_history else ()
        ended = [_lived(job, row.at_s) for job in lived]
    return Material(row, frame, ended)


def training_of(material: Material, quotas: Mapping[str, int], retrain_every_s: float | None) -> Training:
    """What a model learns from at the beginning of the epoch.

    Args:
        material: what is known.
        quotas: GPUs of each pool, in the order of their names.
        retrain_every_s: models are fitted anew so often; None: never.
    """
    row, frame = material.epoch, material.frame
    past, censored = before(frame, row.at_s)
    if material.ended:
        imported = [(job.submit_s + duration_s, job, duration_s) for job, duration_s in past]
        in_order = sorted([*imported, *material.ended], key=lambda one: (one[0], one[1].job_id))
        past = [(job, duration_s) for _, job, duration_s in in_order]
    return Training(
        quotas=quotas,
        past=past,
        censored=censored,
        now_s=row.at_s,
        retrain_every_s=retrain_every_s,
        seed=row.seed,
        starts=starts_before(frame, row.at_s),
        cut_off=cut_off_before(frame, row.at_s),
    )


def _history_frame(rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Imported jobs as the table of `data.schema`."""
    raw = pd.DataFrame(list(rows), columns=[column.name for column in COLUMNS])
    typed = raw.astype({column.name: column.kind.dtype for column in COLUMNS})
    return typed.sort_values(["submit_s", "job_id"], kind="stable", ignore_index=True)


def _lived(row: JobRow, as_of_s: float) -> tuple[float, Job, float]:
    """When a live job ended, the job, and how long it ran, as far as that can be true."""
    ended_s = min(row.ended_s or as_of_s, as_of_s)
    ran_s = ended_s - (row.started_s if row.started_s is not None else row.submit_s)
    ran_s = min(max(ran_s, 0.0), max(as_of_s - row.submit_s, 0.0))
    if row.submit_s + ran_s > as_of_s:  # by a rounding error
        ran_s = math.nextafter(ran_s, 0.0)
    return ended_s, job_of(row), ran_s
