"""Forecasts of a live cluster, asked of a warm process that follows its log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from app.clock import Clock
from app.errors import Invalid, UnknownCluster
from app.services.advising import Advisers
from app.services.planning import require_cluster
from app.services.times import to_s
from app.store.engine import reading
from app.store.tables import ClusterRow


@dataclass(frozen=True)
class Said:
    """An answer, with the cluster whose clock its seconds are on."""

    cluster: ClusterRow
    answer: Mapping[str, Any]


def ask(
    engine: Engine,
    advisers: Advisers,
    clock: Clock,
    cluster: str,
    make: Callable[[ClusterRow, float], Mapping[str, Any]],
) -> Said:
    """Ask as of what the log holds now.

    Args:
        engine: the database.
        advisers: the warm processes.
        clock: our clock.
        cluster: name.
        make: the request, of the cluster and the instant by our clock, seconds on the cluster's: `asked`,
            `now_s` and what `app.children.listener` takes.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no inventory yet.
        Invalid: if the request makes no sense for this cluster.
        DecisionUnavailable: if there is no answer in time: the first question of an epoch trains the models.
    """
    with reading(engine) as session:
        row = session.get(ClusterRow, cluster)
        if row is None:
            raise UnknownCluster(cluster)
        require_cluster(row, cluster)
    request = {"epoch": row.epoch, "seq": row.seq, **make(row, to_s(row, clock.now()))}
    answer = advisers.forecast(cluster, request)
    if "invalid" in answer:
        raise Invalid(answer["invalid"])
    return Said(row, answer)
