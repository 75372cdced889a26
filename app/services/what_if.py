"""What if: the recent past again, once with the cluster as it is and once changed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.errors import Conflict, Invalid
from app.services.clusters import require
from app.services.durable import Runs
from app.services.policies import check_policy
from app.store import clusters as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, Json, RunRow
from domain.cluster import check_quotas

_KIND: Final = "what_if"


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be different.

    Attributes:
        quotas: GPUs of the pools whose quota changes.
        policy: another policy; the cluster's where None.
        settings: its settings; the cluster's own where None and the policy stays, else the defaults.
        days: how much of the past, before the newest submit, is gone through again; forecasts learn from
            what had ended by then.
    """

    quotas: Mapping[str, int] = field(default_factory=dict)
    policy: str | None = None
    settings: Mapping[str, str] | None = None
    days: float = 7.0


def ask(engine: Engine, runs: Runs, cluster: str, question: Question, requested_by: str) -> RunRow:
    """Queue the run that answers a question.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no pools yet.
        Invalid: if nothing changes, a pool is unknown, or the quotas exceed the capacity.
        SettingError: if the policy or its settings are refused.
    """
    with reading(engine) as session:
        row = require(session, cluster)
    if question.policy is not None or question.settings is not None:
        # slow at first: not in a lock
        check_policy(question.policy or row.policy, _settings(row, question), is_live=False)
    arguments = {
        "quotas": dict(question.quotas),
        "policy": question.policy,
        "settings": None if question.settings is None else dict(question.settings),
        "days": question.days,
    }
    with transaction(engine) as session:
        _worlds(session, lock_cluster(session, cluster), question)
        return runs.enqueue(session, _KIND, cluster, arguments, requested_by, None)


def load(engine: Engine, cluster: str, arguments: Mapping[str, Any]) -> Json:
    """The child's request: both worlds as of now; the jobs it reads itself.

    Raises:
        AntecastError: as `ask`; the cluster may have changed since.
    """
    question = Question(**arguments)
    with reading(engine) as session:
        row = require(session, cluster)
        request = {
            "cluster": cluster,
            "seed": row.seed,
            "days": question.days,
            **_worlds(session, row, question),
            "requeueable_pools": [pool.name for pool in store.pools(session, cluster) if pool.is_requeueable],
        }
    text = json.dumps(request, sort_keys=True, allow_nan=False)
    return {**request, "question_sha256": hashlib.sha256(text.encode()).hexdigest()}


def _worlds(session: Session, row: ClusterRow, question: Question) -> Json:
    today = {pool.name: pool.quota_gpus for pool in store.pools(session, row.name)}
    if not today:
        raise Conflict(f"cluster {row.name} has no inventory yet: put its pools first")
    unknown = sorted(set(question.quotas) - set(today))
    if unknown:
        raise Invalid(f"cluster {row.name} has no pool {unknown[0]!r}; it has: {', '.join(today)}")
    changed = {**today, **question.quotas}
    policy, settings = question.policy or row.policy, _settings(row, question)
    if (changed, policy, settings) == (today, row.policy, row.settings):
        raise Invalid("nothing is different: name a pool whose quota changes, a policy or settings")
    nodes = store.nodes(session, row.name)
    try:
        check_quotas(changed, sum(node.num_gpus for node in nodes) if nodes else sum(today.values()))
    except ValueError as error:
        raise Invalid(f"{error}; lower the quota of another pool") from error
    return {
        "baseline": _world(today, row.policy, row.settings),
        "changed": _world(changed, policy, settings),
    }


def _settings(row: ClusterRow, question: Question) -> Mapping[str, str]:
    if question.settings is not None:
        return question.settings
    return row.settings if question.policy in (None, row.policy) else {}


def _world(quotas: Mapping[str, int], policy: str, settings: Mapping[str, str]) -> Json:
    return {"quotas": [list(pair) for pair in quotas.items()], "policy": policy, "settings": dict(settings)}
