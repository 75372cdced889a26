"""Observed days: what sharing would have made of a day, asked for by a schedule or by hand, and kept."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, UnknownResource
from app.services.clusters import require
from app.services.durable import Runs
from app.services.planning import require_cluster
from app.services.times import to_s
from app.store import clusters as inventories
from app.store import modes as store
from app.store import runs as all_runs
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, Mode, ObservationRow, RunRow

Json = dict[str, Any]

KIND: Final = "observe"
SCHEDULE: Final = "schedule"

_DAY: Final = timedelta(days=1)


def ask(
    engine: Engine, runs: Runs, cluster: str, day: date | None, requested_by: str, clock: Clock
) -> RunRow:
    """Ask for the report of a day, the newest that is over where None.

    Raises:
        UnknownCluster: if there is no cluster of that name.
        Conflict: if the day is not over yet, or the cluster has no inventory.
    """
    newest = last_day(clock)
    wanted = newest if day is None else day
    if wanted > newest:
        raise Conflict(f"{wanted} is not over yet (days are in UTC); the newest that is: {newest}")
    with transaction(engine) as session:
        require_cluster(lock_cluster(session, cluster), cluster)
        return _enqueue(session, runs, cluster, wanted, requested_by)


def ask_for_due(engine: Engine, runs: Runs, clock: Clock) -> int:
    """Ask for the report of the day that is over, in each cluster that is observed, once. Says how many.

    Days that were missed are left out: the newest one is what an operator wants to see. Others can be asked
    for by hand.
    """
    now, day = clock.now(), last_day(clock)
    with reading(engine) as session:
        due = [row.name for row in store.observed_clusters(session) if _is_due(session, row, day, now)]
    return sum(_ask_once(engine, runs, name, day, now) for name in due)


def _ask_once(engine: Engine, runs: Runs, cluster: str, day: date, now: datetime) -> bool:
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)  # from here on no other worker asks for the same day
        if not _is_due(session, row, day, now):
            return False
        _enqueue(session, runs, cluster, day, SCHEDULE)
        return True


def _is_due(session: Session, row: ClusterRow, day: date, now: datetime) -> bool:
    if row.mode != Mode.OBSERVE or row.epoch == 0 or row.created_at >= _begin(day + _DAY):
        return False
    if store.observation(session, row.name, day.isoformat()) is not None:
        return False
    last = all_runs.newest_request(session, row.name, KIND, now)
    return last is None or last < _begin(day + _DAY)  # one that failed is not asked for again by itself


def _enqueue(session: Session, runs: Runs, cluster: str, day: date, requested_by: str) -> RunRow:
    name = day.isoformat()
    return runs.enqueue(session, KIND, cluster, {"day": name}, requested_by, f"{KIND} {name}")


def load(engine: Engine, cluster: str, arguments: Mapping[str, Any], clock: Clock) -> Json:
    """The child's request: the day, and the policy and quotas as they are now; the jobs it reads itself.

    Raises:
        Conflict: if the cluster has no inventory.
    """
    day = date.fromisoformat(str(arguments["day"]))
    with reading(engine) as session:
        row = require_cluster(require(session, cluster), cluster)
        pools = inventories.pools(session, cluster)
    request = {
        "cluster": cluster,
        "day": day.isoformat(),
        "from_s": to_s(row, _begin(day)),
        "to_s": to_s(row, _begin(day + _DAY)),
        "now_s": to_s(row, clock.now()),
        "quotas": [[pool.name, pool.quota_gpus] for pool in pools],
        "requeueable_pools": [pool.name for pool in pools if pool.is_requeueable],
        "policy": row.policy,
        "settings": dict(row.settings),
        "seed": row.seed,
    }
    text = json.dumps(request, sort_keys=True, allow_nan=False)
    return {**request, "question_sha256": hashlib.sha256(text.encode()).hexdigest()}


def publish(engine: Engine, cluster: str, request: Json, answer: Json, run_id: str, clock: Clock) -> Json:
    """Keep the report of a day, in the place of an older one. Returns what the run says of it."""
    content = {
        **{name: request[name] for name in ("policy", "settings", "quotas")},
        **answer,
    }
    with transaction(engine) as session:
        lock_cluster(session, cluster)
        store.keep_observation(
            session,
            ObservationRow(
                cluster=cluster,
                day=request["day"],
                run_id=run_id,
                content=content,
                created_at=clock.now(),
            ),
        )
    return {"day": request["day"], "jobs": answer["jobs"], "slowed": answer["slowed"]}


def page(engine: Engine, cluster: str, *, before: str, limit: int) -> Sequence[ObservationRow]:
    """Reports, newest day first, those of days before `before`.

    Raises:
        UnknownCluster: if there is no cluster of that name.
    """
    with reading(engine) as session:
        require(session, cluster)
        return store.observations(session, cluster, before=before, limit=limit)


def get(engine: Engine, cluster: str, day: date) -> ObservationRow:
    """The report of a day.

    Raises:
        UnknownResource: if there is none.
    """
    with reading(engine) as session:
        require(session, cluster)
        row = store.observation(session, cluster, day.isoformat())
    if row is None:
        raise UnknownResource(f"cluster {cluster} has no report of {day}; ask for it: POST .../observations")
    return row


def last_day(clock: Clock) -> date:
    """The newest day in UTC that is over."""
    return (clock.now().astimezone(UTC) - _DAY).date()


def _begin(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)
