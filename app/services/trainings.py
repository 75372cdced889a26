"""Training as a run: a cluster's forecasters trained beside the service, tried, and kept for who decides."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Engine

from app.clock import Clock
from app.errors import Conflict
from app.services import epochs, replan
from app.services.durable import Runs
from app.services.times import to_s
from app.store import live
from app.store.engine import lock_cluster, transaction
from app.store.tables import EnforcedBy, Json, RunRow

KIND: Final = "train"


def ask(
    engine: Engine, runs: Runs, cluster: str, *, holdout_days: float, begins_epoch: bool, requested_by: str
) -> RunRow:
    """Queue a training; one that waits already and is the same does instead.

    Args:
        engine: the database.
        runs: where to ask.
        cluster: name.
        holdout_days: the last days before the epoch's instant, that models are tried on.
        begins_epoch: begin a new epoch first, so that forecasts learn from what has ended since the last.
        requested_by: who asks.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no inventory yet.
    """
    arguments = {"holdout_days": holdout_days, "begins_epoch": begins_epoch}
    with transaction(engine) as session:
        if lock_cluster(session, cluster).epoch == 0:
            raise Conflict(f"cluster {cluster} has no inventory yet: put its pools first")
        dedup = f"{KIND} {holdout_days:g} {begins_epoch}"
        return runs.enqueue(session, KIND, cluster, arguments, requested_by, dedup)


def load(engine: Engine, cluster: str, arguments: Mapping[str, Any], run_id: str, clock: Clock) -> Json:
    """The child's request: which epoch to train for. A new one is begun once, however often this is called.

    Raises:
        Conflict: if the cluster has no inventory.
    """
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        if arguments["begins_epoch"]:
            reason = f"training {run_id}"
            begun = next((one for one in live.epochs(session, cluster) if one.reason == reason), None)
            if begun is None:
                last_s = live.last_at_s(session, row)
                now_s = to_s(row, clock.now())
                is_ahead = last_s is not None and last_s > now_s  # of our clock: then it is the log's instant
                epochs.begin(session, row, reason, clock, at_s=None if is_ahead else now_s)
        if row.epoch == 0:
            raise Conflict(f"cluster {cluster} has no inventory yet: put its pools first")
        return {
            "cluster": cluster,
            "epoch": row.epoch,
            "holdout_days": float(arguments["holdout_days"]),
            "begins_epoch": bool(arguments["begins_epoch"]),
        }


def publish(engine: Engine, runs: Runs, cluster: str, request: Json, answer: Json) -> Json:
    """The run's result. Where executors enforce, a plan is asked for that goes by the new epoch."""
    if request["begins_epoch"]:
        with transaction(engine) as session:
            if lock_cluster(session, cluster).enforced_by == EnforcedBy.EXECUTORS:
                replan.request(session, runs, cluster)
    return answer
