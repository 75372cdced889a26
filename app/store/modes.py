"""Reviewed actions and observed days."""

from collections.abc import Sequence
from typing import Final

from sqlmodel import Session, col, func, select

from app.store.tables import ActionRow, ActionStatus, ClusterRow, Mode, ObservationRow

OPEN: Final = (ActionStatus.PROPOSED.value, ActionStatus.ACCEPTED.value)
"""Actions that are still wanted."""


def open_actions(session: Session, cluster: str) -> Sequence[ActionRow]:
    """Actions that are still wanted, in their order."""
    query = select(ActionRow).where(ActionRow.cluster == cluster, col(ActionRow.status).in_(OPEN))
    return session.exec(query.order_by(col(ActionRow.number))).all()


def action(session: Session, cluster: str, number: int) -> ActionRow | None:
    """An action."""
    return session.get(ActionRow, (cluster, number))


def actions(
    session: Session, cluster: str, *, status: str | None, after: int, limit: int
) -> Sequence[ActionRow]:
    """A page of actions by number, those after `after`; of all states where none is given."""
    query = select(ActionRow).where(ActionRow.cluster == cluster, col(ActionRow.number) > after)
    if status is not None:
        query = query.where(ActionRow.status == status)
    return session.exec(query.order_by(col(ActionRow.number)).limit(limit)).all()


def next_action_number(session: Session, cluster: str) -> int:
    """The number after the last; the caller holds the cluster's lock."""
    query = select(func.max(ActionRow.number)).where(ActionRow.cluster == cluster)
    return int(session.exec(query).one() or 0) + 1


def observed_clusters(session: Session) -> Sequence[ClusterRow]:
    """Clusters that are only looked on, by name."""
    query = select(ClusterRow).where(ClusterRow.mode == Mode.OBSERVE.value)
    return session.exec(query.order_by(col(ClusterRow.name))).all()


def observation(session: Session, cluster: str, day: str) -> ObservationRow | None:
    """The report of a day, if it was observed."""
    return session.get(ObservationRow, (cluster, day))


def observations(session: Session, cluster: str, *, before: str, limit: int) -> Sequence[ObservationRow]:
    """Observed days, newest first, those before `before`; from the newest on where it is empty."""
    query = select(ObservationRow).where(ObservationRow.cluster == cluster)
    if before:
        query = query.where(col(ObservationRow.day) < before)
    return session.exec(query.order_by(col(ObservationRow.day).desc()).limit(limit)).all()


def keep_observation(session: Session, row: ObservationRow) -> None:
    """Keep the report of a day; it takes the place of an older one."""
    session.merge(row)
    session.flush()
