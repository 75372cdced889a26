"""Backtests as runs: the last days of a cluster's history replayed under several policies."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sqlalchemy import Engine

from app.errors import Conflict, Invalid
from app.services.clusters import require
from app.services.durable import Runs
from app.services.policies import check_policy
from app.store import clusters as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import Json, RunRow

KIND: Final = "backtest"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy to replay, and its settings; its label is as in `antecast compare`."""

    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """`name:key=value:...`."""
        return ":".join([self.policy, *(f"{key}={value}" for key, value in sorted(self.settings.items()))])


def ask(
    engine: Engine,
    runs: Runs,
    cluster: str,
    candidates: Sequence[Candidate],
    *,
    days: float,
    requested_by: str,
) -> RunRow:
    """Queue a backtest.

    Args:
        engine: the database.
        runs: where to ask.
        cluster: whose history.
        candidates: policies, in the order of the answer.
        days: how much of the past, before the newest submit, is replayed.
        requested_by: who asks.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if it has no pools yet.
        Invalid: if a policy is asked for twice.
        SettingError: if a policy or its settings are refused.
    """
    labels = [one.label for one in candidates]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise Invalid(f"policy {twice} is asked for twice")
    for one in candidates:  # slow at first: not in a lock
        check_policy(one.policy, one.settings, is_live=False)
    arguments = {"policies": [asdict(one) for one in candidates], "days": days}
    with transaction(engine) as session:
        lock_cluster(session, cluster)
        if not store.pools(session, cluster):
            raise Conflict(f"cluster {cluster} has no inventory yet: put its pools first")
        return runs.enqueue(session, KIND, cluster, arguments, requested_by, None)


def load(engine: Engine, cluster: str, arguments: Mapping[str, Any]) -> Json:
    """The child's request: the quotas as of now; the jobs it reads itself.

    Raises:
        UnknownCluster: if the cluster is gone.
    """
    candidates = [Candidate(**one) for one in arguments["policies"]]
    with reading(engine) as session:
        row = require(session, cluster)
        pools = store.pools(session, cluster)
        request = {
            "cluster": cluster,
            "seed": row.seed,
            "days": float(arguments["days"]),
            "quotas": [[pool.name, pool.quota_gpus] for pool in pools],
            "requeueable_pools": [pool.name for pool in pools if pool.is_requeueable],
            "policies": [{**asdict(one), "label": one.label} for one in candidates],
        }
    text = json.dumps(request, sort_keys=True, allow_nan=False)
    return {**request, "question_sha256": hashlib.sha256(text.encode()).hexdigest()}
