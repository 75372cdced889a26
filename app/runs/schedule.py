"""Batch replanning: clusters that want a plan every so often get one."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Engine

from app.clock import Clock
from app.runs.client import RunClient
from app.runs.kinds import RunKind
from app.services import replan
from app.store import runs as store
from app.store.engine import lock_cluster, reading, transaction

SCHEDULE: Final = "schedule"


def ask_for_due_replans(engine: Engine, runs: RunClient, clock: Clock) -> int:
    """Ask for the replans whose time has come; several missed ticks are one. Returns how many there were.

    A replan asked for by anyone counts as the last one. A scheduled one bears the instant of its tick, so
    that looking late does not put the schedule off.
    """
    now = clock.now()
    with reading(engine) as session:
        due = [
            row.name
            for row in store.scheduled_clusters(session)
            if row.epoch > 0
            and row.replan_every_s is not None
            and _tick(store.newest_request(session, row.name, RunKind.REPLAN), row.replan_every_s, now)
        ]
    return sum(_ask(engine, runs, name, now) for name in due)


def _ask(engine: Engine, runs: RunClient, cluster: str, now: datetime) -> bool:
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)  # from here on no other worker asks for the same tick
        every_s = row.replan_every_s
        tick = every_s and _tick(store.newest_request(session, cluster, RunKind.REPLAN), every_s, now)
        if not tick:
            return False
        run = replan.request(session, runs, cluster, SCHEDULE)
        if run.requested_by == SCHEDULE and run.requested_at > tick:
            run.requested_at = tick
        return True


def _tick(last: datetime | None, every_s: float, now: datetime) -> datetime | None:
    """The instant of the newest tick that has passed since the last replan was asked for."""
    if last is None:
        return now
    passed = int((now - last).total_seconds() // every_s)
    return last + timedelta(seconds=passed * every_s) if passed >= 1 else None
