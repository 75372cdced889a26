"""Clusters as they are: jobs, GPUs, plans, decisions."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Engine

from app.metrics.gathering import Sample
from app.store import figures
from app.store.engine import reading

QUANTILES: Final = (0.5, 0.99)


def quantiles(values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Label and value of each quantile that is shown: the smallest value that so many are not above."""
    ordered = sorted(values)
    for share in QUANTILES if ordered else ():
        yield f"{share:g}", ordered[math.ceil(share * len(ordered)) - 1]


class Clusters:
    """Reads all clusters in one transaction; nothing in it grows with the length of a log."""

    name = "clusters"
    is_slow = False

    def read(self, engine: Engine, now: datetime) -> Iterator[Sample]:
        """All figures of all clusters."""
        with reading(engine) as session:
            for cluster in figures.clusters(session):
                yield from _of(cluster, now)


def _of(cluster: figures.ClusterFigures, now: datetime) -> Iterator[Sample]:
    name = cluster.name
    yield Sample("antecast_cluster_is_lending", float(cluster.is_lending), (name,))
    yield Sample("antecast_log_entries_total", float(cluster.seq), (name,))
    yield Sample("antecast_capacity_gpus", float(cluster.capacity_gpus), (name,))
    yield Sample("antecast_idle_gpus", float(cluster.idle_gpus), (name,))
    for pool in cluster.pools:
        yield Sample("antecast_quota_gpus", float(pool.quota_gpus), (name, pool.name))
        yield Sample("antecast_jobs", float(pool.num_waiting), (name, pool.name, "pending"))
        yield Sample("antecast_jobs", float(pool.num_running), (name, pool.name, "running"))
        yield Sample("antecast_gpus", float(pool.own_gpus), (name, pool.name, "own"))
        yield Sample("antecast_gpus", float(pool.guest_gpus), (name, pool.name, "guest"))
        yield Sample("antecast_gpus", float(pool.held_gpus), (name, pool.name, "held_idle"))
    if cluster.eps_share is not None:
        yield Sample("antecast_eps_share", cluster.eps_share, (name,))
    if cluster.replan_every_s is not None:
        yield Sample("antecast_replan_every_seconds", cluster.replan_every_s, (name,))
    if cluster.plan_number is not None and cluster.planned_at is not None:
        yield Sample("antecast_plans_total", float(cluster.plan_number), (name,))
        yield Sample("antecast_plan_age_seconds", (now - cluster.planned_at).total_seconds(), (name,))
    for label, took_ms in quantiles(cluster.decisions_ms):
        yield Sample("antecast_decision_seconds", took_ms / 1e3, (name, label))
