"""Replans whose time has come: those wanted every so often, and those a plan itself asks for."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.runs.client import RunClient
from app.runs.kinds import RunKind
from app.services import modes, replan
from app.services.times import to_instant
from app.store import plans
from app.store import runs as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow

SCHEDULE: Final = "schedule"


def ask_for_due_replans(engine: Engine, runs: RunClient, clock: Clock) -> int:
    """Ask for the replans whose time has come; several missed ticks are one. Returns how many there were.

    A replan asked for by anyone counts as the last one. A scheduled one bears the instant of its tick, so
    that looking late does not put the schedule off.

    Where executors carry plans out, nobody but us looks at the clock: a plan that leaves jobs waiting says
    when to ask again, because what may be lent changes with time though nothing happens.
    """
    now = clock.now()
    with reading(engine) as session:
        due = [row.name for row in store.replanned_clusters(session) if _due(session, row, now)]
    return sum(_ask(engine, runs, name, now) for name in due)


def _ask(engine: Engine, runs: RunClient, cluster: str, now: datetime) -> bool:
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)  # from here on no other worker asks for the same tick
        tick = _due(session, row, now)
        if not tick:
            return False
        run = replan.request(session, runs, cluster, SCHEDULE)
        if run.requested_by == SCHEDULE and run.requested_at > tick:
            run.requested_at = tick
        return True


def _due(session: Session, row: ClusterRow, now: datetime) -> datetime | None:
    """The instant at which a replan was due for which nobody has asked; None where none is."""
    last = store.newest_request(session, row.name, RunKind.REPLAN, now)
    tick = None if row.replan_every_s is None else _tick(last, row.replan_every_s, now)
    return tick or (_asked_again(session, row, last, now) if modes.follows_events(row) else None)


def _tick(last: datetime | None, every_s: float, now: datetime) -> datetime | None:
    """The instant of the newest tick that has passed since the last replan was asked for."""
    if last is None:
        return now
    passed = int((now - last).total_seconds() // every_s)
    return last + timedelta(seconds=passed * every_s) if passed >= 1 else None


def _asked_again(session: Session, row: ClusterRow, last: datetime | None, now: datetime) -> datetime | None:
    """The instant at which the newest plan wants to be asked again, if it has passed and nobody has since."""
    again_s = plans.ask_again_s(session, row.name, row.epoch)
    if again_s is None:
        return None
    again = to_instant(row, again_s)
    return again if again <= now and (last is None or last < again) else None
