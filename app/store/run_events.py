"""What happens to runs, in its order.

Whoever adds an event has the run's row locked, or has just changed it, in the same transaction: so numbers
have no gaps, and a reader that has seen number n has seen all before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import and_, or_
from sqlmodel import Session, col, func, select

from app.store.tables import Json, RunEventKind, RunEventRow

_RUNS_AT_ONCE: Final = 200


def append(session: Session, run_id: str, kind: RunEventKind, at: datetime, data: Json | None = None) -> None:
    """Add an event under the run's next number."""
    last = session.exec(select(func.max(RunEventRow.number)).where(RunEventRow.run_id == run_id)).one()
    session.add(
        RunEventRow(run_id=run_id, number=(last or 0) + 1, kind=kind.value, at=at, data=dict(data or {}))
    )
    session.flush()


def after(session: Session, run_id: str, number: int, limit: int) -> Sequence[RunEventRow]:
    """Events of a run behind a number, in their order."""
    query = select(RunEventRow).where(RunEventRow.run_id == run_id, RunEventRow.number > number)
    return session.exec(query.order_by(col(RunEventRow.number)).limit(limit)).all()


def after_each(session: Session, seen: Mapping[str, int]) -> Iterable[RunEventRow]:
    """Events of several runs, of each those behind the number given with it, in their order."""
    runs = list(seen.items())
    for first in range(0, len(runs), _RUNS_AT_ONCE):
        some = runs[first : first + _RUNS_AT_ONCE]
        query = select(RunEventRow).where(
            or_(
                *(
                    and_(col(RunEventRow.run_id) == run_id, col(RunEventRow.number) > number)
                    for run_id, number in some
                )
            )
        )
        yield from session.exec(query.order_by(col(RunEventRow.run_id), col(RunEventRow.number)))
