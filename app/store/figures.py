"""Figures for metrics and for the doctor: counts and newest rows, by queries that an index serves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, text
from sqlmodel import Session, col, func, select

from app.store import live, plans
from app.store.engine import reading
from app.store.tables import (
    ClusterRow,
    DecisionRow,
    EpochRow,
    ExecutorRow,
    JobRow,
    LiveState,
    PlanRow,
    PoolRow,
    RunRow,
    RunStatus,
    WorkerRow,
)

_DECISIONS: Final = 200
_RUNS: Final = 1_000
_OPEN: Final = (RunStatus.QUEUED.value, RunStatus.RUNNING.value)


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool: jobs that wait and run, and GPUs of its jobs, own or lent to it, and held idle for it."""

    name: str
    quota_gpus: int
    num_waiting: int
    num_running: int
    own_gpus: int
    guest_gpus: int
    held_gpus: int


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """A cluster. `decisions_ms`: how long each of the last decisions took, the newest first."""

    name: str
    is_lending: bool
    seq: int
    capacity_gpus: int
    idle_gpus: int
    eps_share: float | None
    replan_every_s: float | None
    pools: Sequence[PoolFigures]
    plan_number: int | None
    planned_at: datetime | None
    decisions_ms: Sequence[float]


def begun(session: Session) -> Sequence[ClusterRow]:
    """Clusters that have an inventory, by name."""
    query = select(ClusterRow).where(col(ClusterRow.epoch) > 0).order_by(col(ClusterRow.name))
    return session.exec(query).all()


def clusters(session: Session) -> list[ClusterFigures]:
    """All clusters that have an inventory, by name."""
    return [_cluster(session, row) for row in begun(session)]


def _cluster(session: Session, row: ClusterRow) -> ClusterFigures:
    epoch = session.get(EpochRow, (row.name, row.epoch))
    plan = session.exec(
        select(PlanRow.number, PlanRow.created_at)
        .where(PlanRow.cluster == row.name)
        .order_by(col(PlanRow.number).desc())
        .limit(1)
    ).one_or_none()
    took = (
        select(DecisionRow.took_ms)
        .where(DecisionRow.cluster == row.name)
        .order_by(col(DecisionRow.seq).desc())
        .limit(_DECISIONS)
    )
    return ClusterFigures(
        name=row.name,
        is_lending=row.is_lending,
        seq=row.seq,
        capacity_gpus=0 if epoch is None else epoch.capacity_gpus,
        idle_gpus=live.idle_gpus(session, row),
        eps_share=_share(row.settings.get("eps")),
        replan_every_s=row.replan_every_s,
        pools=_pools(session, row.name),
        plan_number=None if plan is None else plan[0],
        planned_at=None if plan is None else plan[1],
        decisions_ms=session.exec(took).all(),
    )


def _pools(session: Session, cluster: str) -> list[PoolFigures]:
    counted = session.exec(
        select(JobRow.pool, JobRow.state, JobRow.is_guest, func.count(), func.sum(JobRow.num_gpus))  # type: ignore[call-overload]
        .where(JobRow.cluster == cluster, col(JobRow.state).in_(live.UNFINISHED))
        .group_by(col(JobRow.pool), col(JobRow.state), col(JobRow.is_guest))
    ).all()
    jobs = {
        (pool, state, bool(guest)): (int(number), int(gpus)) for pool, state, guest, number, gpus in counted
    }
    held = _held(session, cluster)
    wanted = select(PoolRow).where(PoolRow.cluster == cluster).order_by(col(PoolRow.position))
    waiting, running = LiveState.WAITING.value, LiveState.RUNNING.value
    none = (0, 0)
    return [
        PoolFigures(
            name=pool.name,
            quota_gpus=pool.quota_gpus,
            num_waiting=sum(jobs.get((pool.name, waiting, guest), none)[0] for guest in (False, True)),
            num_running=sum(jobs.get((pool.name, running, guest), none)[0] for guest in (False, True)),
            own_gpus=jobs.get((pool.name, running, False), none)[1],
            guest_gpus=jobs.get((pool.name, running, True), none)[1],
            held_gpus=held.get(pool.name, 0),
        )
        for pool in session.exec(wanted)
    ]


def _held(session: Session, cluster: str) -> Mapping[str, int]:
    """GPUs that the newest decision keeps idle, by pool."""
    newest = plans.latest_decision(session, cluster)
    held: dict[str, int] = {}
    for hold in () if newest is None else newest.answer.get("holds", ()):
        held[str(hold["pool"])] = held.get(str(hold["pool"]), 0) + int(hold["num_gpus"])
    return held


def _share(setting: Any) -> float | None:
    """A setting that is a share; None where it is not set, or no number: that was refused long before."""
    try:
        share = float(setting)
    except (TypeError, ValueError):
        return None
    return share if math.isfinite(share) else None


def runs(session: Session, since: datetime) -> Mapping[tuple[str, str, str], int]:
    """How many runs there are by cluster, kind and status: open ones, and others asked for since."""
    columns = (RunRow.cluster, RunRow.kind, RunRow.status)
    found: dict[tuple[str, str, str], int] = {}
    for name in session.exec(select(ClusterRow.name).order_by(col(ClusterRow.name))):
        for chosen in (
            col(RunRow.status).in_(_OPEN),
            col(RunRow.status).not_in(_OPEN) & (col(RunRow.requested_at) >= since),
        ):
            query = select(*columns, func.count()).where(RunRow.cluster == name, chosen)
            for cluster, kind, status, number in session.exec(query.group_by(*columns)):
                found[cluster, kind, status] = int(number)
    return found


def run_seconds(session: Session, since: datetime) -> Mapping[str, list[float]]:
    """From start to end, by kind, of runs asked for since that succeeded; the newest of each cluster."""
    found: dict[str, list[float]] = {}
    for name in session.exec(select(ClusterRow.name).order_by(col(ClusterRow.name))):
        query = (
            select(RunRow.kind, RunRow.started_at, RunRow.finished_at)
            .where(
                RunRow.cluster == name,
                col(RunRow.requested_at) >= since,
                RunRow.status == RunStatus.SUCCEEDED.value,
            )
            .order_by(col(RunRow.requested_at).desc())
            .limit(_RUNS)
        )
        for kind, started_at, finished_at in session.exec(query):
            if started_at is not None and finished_at is not None:
                found.setdefault(kind, []).append((finished_at - started_at).total_seconds())
    return found


def oldest_queued(session: Session) -> Mapping[str, datetime]:
    """When the oldest run that waits was asked for, by kind."""
    query = (
        select(RunRow.kind, func.min(RunRow.requested_at))
        .where(RunRow.status == RunStatus.QUEUED.value)
        .group_by(col(RunRow.kind))
    )
    return dict(session.exec(query).all())


def workers_alive(session: Session, now: datetime) -> int:
    """Workers whose lease holds; by the wall clock."""
    query = select(func.count()).select_from(WorkerRow).where(col(WorkerRow.lease_until) >= now)
    return session.exec(query).one()


def executors(session: Session, now: datetime) -> Mapping[str, tuple[int, int]]:
    """Executors that are not revoked, by cluster: alive, silent."""
    query = (
        select(ExecutorRow.cluster, ExecutorRow.lease_until, ExecutorRow.is_lost)
        .where(col(ExecutorRow.is_revoked).is_(False))
        .order_by(col(ExecutorRow.cluster))
    )
    found: dict[str, tuple[int, int]] = {}
    for cluster, until, is_lost in session.exec(query):
        alive, silent = found.get(cluster, (0, 0))
        is_alive = not is_lost and until is not None and until >= now
        found[cluster] = (alive + is_alive, silent + (not is_alive))
    return found


def silent_nodes(session: Session, now: datetime, limit: int) -> Sequence[str]:
    """Nodes whose executor is silent, as cluster/node, the first of them."""
    query = (
        select(ExecutorRow.cluster, ExecutorRow.node)
        .where(
            col(ExecutorRow.is_revoked).is_(False),
            col(ExecutorRow.is_lost).is_(True)
            | col(ExecutorRow.lease_until).is_(None)
            | (col(ExecutorRow.lease_until) < now),
        )
        .order_by(col(ExecutorRow.cluster), col(ExecutorRow.node))
    )
    return [f"{cluster}/{node}" for cluster, node in session.exec(query.limit(limit))]


def database_now(engine: Engine) -> datetime | None:
    """What time the database's machine has; None on SQLite, which has no clock of its own."""
    if engine.dialect.name == "sqlite":
        return None
    with reading(engine) as session:
        found: datetime = session.connection().execute(text("SELECT clock_timestamp()")).scalar_one()
    return found
