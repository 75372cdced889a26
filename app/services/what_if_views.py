"""What-ifs, looked at: one, a page of them, several side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlmodel import Session

from app.errors import Invalid, UnknownResource
from app.services.clusters import require
from app.store import what_ifs as store
from app.store.engine import reading
from app.store.tables import RunRow, WhatIfFigureRow, WhatIfRow

MAX_COMPARED = 20
HEADLINE = (
    "mean_queue_delay_s",
    "p99_queue_delay_s",
    "speedup_ratio_of_means_vs_fcfs",
    "speedup_geomean_vs_fcfs",
    "slowed_pct_vs_fcfs",
    "requeues",
    "lost_gpu_hours",
    "utilisation_pct",
    "lent_gpu_hours",
)
"""Figures that are compared unless others are asked for."""


@dataclass(frozen=True)
class Seen:
    """A what-if, and its run, if that is still there."""

    row: WhatIfRow
    run: RunRow | None


@dataclass(frozen=True)
class Comparison:
    """Several what-ifs side by side.

    Attributes:
        seen: in the order asked for.
        names: of the figures.
        figures: by what-if and name; without those that have no answer.
        is_same_base: whether all that are answered rest on the same jobs and the same cluster as it is.
    """

    seen: Sequence[Seen]
    names: Sequence[str]
    figures: Mapping[tuple[str, str], WhatIfFigureRow]
    is_same_base: bool


def get(engine: Engine, cluster: str, what_if_id: str) -> Seen:
    """A what-if.

    Raises:
        UnknownResource: if the cluster has none of that id.
    """
    with reading(engine) as session:
        return _seen(session, cluster, [what_if_id])[0]


def page(engine: Engine, cluster: str, before: str | None, limit: int) -> list[Seen]:
    """What-ifs of a cluster, the newest first; only those older than the one of id `before`.

    Raises:
        UnknownResource: if there is no such cluster, or it has no what-if `before`.
    """
    with reading(engine) as session:
        require(session, cluster)
        place = None
        if before is not None:
            last = _seen(session, cluster, [before])[0].row
            place = store.Place(last.requested_at, last.what_if_id)
        return with_runs(session, store.page(session, cluster, place, limit))


def compare(
    engine: Engine, cluster: str, ids: Sequence[str], pool: str, names: Sequence[str] | None
) -> Comparison:
    """Set what-ifs side by side.

    Args:
        engine: the database.
        cluster: whose.
        ids: which, in their order.
        pool: figures of this pool; of the cluster where empty.
        names: which figures; `HEADLINE` where None.

    Raises:
        UnknownResource: if the cluster has none of an id.
        Invalid: if fewer than one or more than `MAX_COMPARED` are named, or one twice.
    """
    if not 1 <= len(ids) <= MAX_COMPARED or len(set(ids)) != len(ids):
        raise Invalid(f"ids names {len(ids)} what-ifs: name 1 to {MAX_COMPARED}, each once")
    wanted = HEADLINE if names is None else tuple(dict.fromkeys(names))
    with reading(engine) as session:
        seen = _seen(session, cluster, ids)
        found = store.figures(session, ids, pool, wanted)
    answers = [one.row.answer for one in seen if one.row.answer is not None]
    bases = [(answer["inputs"]["jobs_sha256"], answer["worlds"]["baseline"]) for answer in answers]
    return Comparison(seen, wanted, found, all(base == bases[0] for base in bases))


def with_runs(session: Session, rows: Sequence[WhatIfRow]) -> list[Seen]:
    """What-ifs with their runs."""
    runs = store.runs_of(session, [row.what_if_id for row in rows])
    return [Seen(row, runs.get(row.what_if_id)) for row in rows]


def _seen(session: Session, cluster: str, ids: Sequence[str]) -> list[Seen]:
    require(session, cluster)
    rows = []
    for what_if_id in ids:
        row = store.get(session, what_if_id)
        if row is None or row.cluster != cluster:
            raise UnknownResource(f"cluster {cluster!r} has no what-if {what_if_id!r}")
        rows.append(row)
    return with_runs(session, rows)
