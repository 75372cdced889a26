"""What-ifs, sweeps of them, and their figures."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, cast

from sqlalchemy.orm import QueryableAttribute, defer
from sqlmodel import Session, and_, col, delete, or_, select

from app.store.tables import Json, RunRow, SweepRow, WhatIfFigureRow, WhatIfRow

_WITHOUT_ANSWER: Final = defer(cast("QueryableAttribute[Json | None]", WhatIfRow.answer))
"""Answers are large; who looks at many does not read them."""


class Place(NamedTuple):
    """Where a page ends: in the order newest first, then by id."""

    requested_at: datetime
    own_id: str


def add(session: Session, rows: Iterable[SweepRow | WhatIfRow]) -> None:
    """Keep new rows, a sweep before its what-ifs."""
    for row in rows:
        session.add(row)
        session.flush()


def get(session: Session, what_if_id: str) -> WhatIfRow | None:
    """A what-if."""
    return session.get(WhatIfRow, what_if_id)


def get_sweep(session: Session, sweep_id: str) -> SweepRow | None:
    """A sweep."""
    return session.get(SweepRow, sweep_id)


def page(session: Session, cluster: str, before: Place | None, limit: int) -> Sequence[WhatIfRow]:
    """What-ifs of a cluster, the newest first, those of sweeps included; their answers are not read."""
    query = select(WhatIfRow).where(WhatIfRow.cluster == cluster).options(_WITHOUT_ANSWER)
    at, own_id = col(WhatIfRow.requested_at), col(WhatIfRow.what_if_id)
    if before is not None:
        query = query.where(
            or_(at < before.requested_at, and_(at == before.requested_at, own_id < before.own_id))
        )
    return session.exec(query.order_by(at.desc(), own_id.desc()).limit(limit)).all()


def page_of_sweeps(session: Session, cluster: str, before: Place | None, limit: int) -> Sequence[SweepRow]:
    """Sweeps of a cluster, the newest first."""
    query = select(SweepRow).where(SweepRow.cluster == cluster)
    at, own_id = col(SweepRow.requested_at), col(SweepRow.sweep_id)
    if before is not None:
        query = query.where(
            or_(at < before.requested_at, and_(at == before.requested_at, own_id < before.own_id))
        )
    return session.exec(query.order_by(at.desc(), own_id.desc()).limit(limit)).all()


def points(session: Session, sweep_id: str) -> Sequence[WhatIfRow]:
    """The what-ifs of a sweep, in the order of its grid; their answers are not read."""
    query = select(WhatIfRow).where(WhatIfRow.sweep_id == sweep_id).options(_WITHOUT_ANSWER)
    return session.exec(query.order_by(col(WhatIfRow.position))).all()


def runs_of(session: Session, what_if_ids: Collection[str]) -> Mapping[str, RunRow]:
    """The runs of what-ifs, by id; of those that are gone there is none."""
    query = select(RunRow).where(col(RunRow.run_id).in_(what_if_ids))
    return {run.run_id: run for run in session.exec(query)}


def figures(
    session: Session, what_if_ids: Collection[str], pool: str, names: Collection[str] | None
) -> Mapping[tuple[str, str], WhatIfFigureRow]:
    """Figures of answers, by what-if and name; `pool` is empty for the cluster, no names mean all."""
    query = select(WhatIfFigureRow).where(
        col(WhatIfFigureRow.what_if_id).in_(what_if_ids), WhatIfFigureRow.pool == pool
    )
    if names is not None:
        query = query.where(col(WhatIfFigureRow.figure).in_(names))
    return {(row.what_if_id, row.figure): row for row in session.exec(query)}


def keep_answer(
    session: Session, what_if_id: str, answer: Json, rows: Iterable[WhatIfFigureRow], now: datetime
) -> None:
    """Put an answer down; once or twice makes no difference. Nothing where the what-if is not known."""
    row = session.get(WhatIfRow, what_if_id)
    if row is None:
        return
    session.exec(delete(WhatIfFigureRow).where(col(WhatIfFigureRow.what_if_id) == what_if_id))
    row.answer, row.answered_at = answer, now
    session.add(row)
    session.add_all(rows)
    session.flush()
