"""What if: the recent past, or futures drawn from it, once with the cluster as it is and once changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, Invalid
from app.services.clusters import require
from app.services.durable import Runs
from app.services.policies import check_policy
from app.store import clusters as store
from app.store import what_ifs
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, Json, RunRow, WhatIfFigureRow, WhatIfRow
from domain.changes import Calendar, World, read_patch
from domain.cluster import Node
from domain.errors import SettingError
from domain.questions import Question, question_from, world_to_json

KIND: Final = "what_if"
_PLAIN: Final = ("quotas", "policy", "settings", "days")
"""Arguments of a question without `changes`: other quotas, policy or settings."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A what-if that is asked for.

    Attributes:
        arguments: of its run: the fields of `domain.questions.Question`, or those of `_PLAIN`.
        name: what people call it.
    """

    arguments: Mapping[str, Any]
    name: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it names quotas, policy and settings instead of changes."""
        return "changes" not in self.arguments


def ask(engine: Engine, runs: Runs, cluster: str, wanted: Wanted, requested_by: str) -> RunRow:
    """Queue the run that answers a question.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no pools yet.
        Invalid: if nothing changes.
        ChangeError: if a change cannot be; it names the entry and the rule.
        SettingError: if what is asked for is out of its range.
    """
    check = checked(engine, cluster, wanted)
    with transaction(engine) as session:
        check(session)
        return enqueue(session, runs, cluster, wanted, requested_by)


def checked(engine: Engine, cluster: str, wanted: Wanted) -> Callable[[Session], None]:
    """Refuse what cannot be; what is returned looks again, cluster locked, without what is slow.

    Raises:
        AntecastError: as `ask`.
    """
    with reading(engine) as session:
        row = require(session, cluster)
        base = base_world(session, row)
        asked = question_of(row, wanted.arguments)
    if not asked.changes:
        raise Invalid("nothing is different: name a pool whose quota changes, a policy, settings, or changes")
    changed = read_patch(asked.changes, Calendar(row.clock_origin)).on_world(base, check_world)
    if wanted.is_plain and changed == base:
        raise Invalid("nothing is different: name a pool whose quota changes, a policy or settings")

    def look_again(session: Session) -> None:
        locked = lock_cluster(session, cluster)
        patch = read_patch(asked.changes, Calendar(locked.clock_origin))
        patch.on_world(base_world(session, locked))

    return look_again


def enqueue(
    session: Session, runs: Runs, cluster: str, wanted: Wanted, requested_by: str, **more: Any
) -> RunRow:
    """Queue a run, and keep the what-if that it answers, as part of the session's transaction."""
    run = runs.enqueue(session, KIND, cluster, wanted.arguments, requested_by, None)
    row = require(session, cluster)
    what_ifs.add(
        session,
        [
            WhatIfRow(
                what_if_id=run.run_id,
                cluster=cluster,
                name=wanted.name,
                question=question_of(row, wanted.arguments).to_json(),
                requested_by=run.requested_by,
                requested_at=run.requested_at,
                **more,
            )
        ],
    )
    return run


def load(engine: Engine, cluster: str, arguments: Mapping[str, Any]) -> Json:
    """The child's request: the world as of now, and the question; the jobs it reads itself.

    Raises:
        AntecastError: as `ask`; the cluster may have changed since.
    """
    with reading(engine) as session:
        row = require(session, cluster)
        base = base_world(session, row)
        asked = question_of(row, arguments)
        pools = store.pools(session, cluster)
    read_patch(asked.changes, Calendar(row.clock_origin)).on_world(base, check_world)
    return {
        "cluster": cluster,
        "base": world_to_json(base),
        "question": asked.to_json(),
        "origin": row.clock_origin.isoformat(),
        "requeueable_pools": [pool.name for pool in pools if pool.is_requeueable],
    }


def publish(engine: Engine, clock: Clock, run_id: str, arguments: Mapping[str, Any], answer: Json) -> Json:
    """Keep an answer with its what-if, and what the run says of it.

    Returns:
        The whole answer where other quotas, another policy or settings were asked for; else its id and the
        differences in all.
    """
    with transaction(engine) as session:
        what_ifs.keep_answer(session, run_id, answer, _figures(run_id, answer), clock.now())
    if "changes" not in arguments:
        return answer
    return {"what_if_id": run_id, "difference": answer["difference"], "intervals": answer["intervals"]}


def check_world(world: World) -> None:
    """Refuse a world whose policy, settings or quiet times cannot be.

    Raises:
        SettingError: it says what.
    """
    check_policy(world.policy, world.settings, is_live=False)
    if world.quiet:
        from solver.policies import POLICIES  # noqa: PLC0415 - brings solvers along

        if not POLICIES[world.policy].has_own_lanes:
            raise SettingError(
                f"policy {world.policy} knows no guests, so there are no times without lending"
            )


def base_world(session: Session, row: ClusterRow) -> World:
    """A cluster as it is; pools and nodes by name, as files are read.

    Raises:
        Conflict: if it has no pools yet.
    """
    quotas = {pool.name: pool.quota_gpus for pool in store.pools(session, row.name)}
    if not quotas:
        raise Conflict(f"cluster {row.name} has no inventory yet: put its pools first")
    nodes = [
        Node(node.name, node.num_gpus, node.gpu_type, node.pool) for node in store.nodes(session, row.name)
    ]
    by_name = tuple(sorted(nodes, key=lambda node: node.name))
    return World(dict(sorted(quotas.items())), row.policy, dict(row.settings), by_name)


def question_of(row: ClusterRow, arguments: Mapping[str, Any]) -> Question:
    """The question that a run's arguments ask; its seed is the cluster's unless it has its own.

    Raises:
        SettingError: for what is out of its range.
    """
    if "changes" in arguments:
        return question_from({"seed": row.seed, **arguments})
    return Question(_changes_of(row, arguments), arguments["days"], warm_up_days=0.0, seed=row.seed)


def _changes_of(row: ClusterRow, plain: Mapping[str, Any]) -> list[Json]:
    changes: list[Json] = []
    if plain["quotas"]:
        changes.append({"kind": "quotas", "gpus": dict(plain["quotas"])})
    if plain["policy"] is not None or plain["settings"] is not None:
        policy = plain["policy"] or row.policy
        settings = plain["settings"]
        if settings is None:
            settings = row.settings if policy == row.policy else {}
        changes.append({"kind": "policy", "policy": policy, "set": dict(settings)})
    return changes


def _figures(what_if_id: str, answer: Mapping[str, Any]) -> list[WhatIfFigureRow]:
    """One row for each figure, of the cluster and of each pool."""
    scopes = [("", answer), *((part["pool"], part) for part in answer["pools"])]
    return [
        WhatIfFigureRow(
            what_if_id=what_if_id,
            pool=pool,
            figure=name,
            baseline=part["baseline"][name],
            changed=part["changed"][name],
            difference=part["difference"][name],
            **part["intervals"][name],
        )
        for pool, part in scopes
        for name in part["difference"]
    ]
