"""Replanning: a picture of the cluster taken, a plan made of it elsewhere, and the plan applied once."""

import hashlib
import json
from typing import Any, Final

from sqlalchemy import Engine

from app.clock import Clock
from app.errors import Conflict
from app.services import applying
from app.services.placing import NOT_THERE
from app.services.times import to_s
from app.store import live, plans
from app.store.engine import lock_cluster, transaction
from app.store.tables import ClusterRow, DecisionRow, EnforcedBy, PlanRow, PlanStatus

Json = dict[str, Any]

_SOURCE: Final = "replan"


def load(engine: Engine, cluster: str, clock: Clock) -> Json:
    """What a planner needs to know to look at one instant of the log: small, the rest it reads itself.

    Where executors carry the plan out, the question is written into the log first, as any decision is, and
    a warm process can answer it. Where the plan is advice, the log is left alone.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no inventory yet.
    """
    with transaction(engine) as session:
        row = require_cluster(lock_cluster(session, cluster), cluster)
        last_s = live.last_at_s(session, row)
        now_s = to_s(row, clock.now())
        now_s = now_s if last_s is None else max(now_s, last_s)
        idle_gpus = live.idle_gpus(session, row)
        decided_seq = None
        if row.enforced_by == EnforcedBy.EXECUTORS:
            decided_seq = applying.log_decision(
                session, row, at_s=now_s, idle_gpus=idle_gpus, source=_SOURCE, clock=clock
            )
        return {
            "cluster": cluster,
            "epoch": row.epoch,
            "seq": row.seq,
            "decided_seq": decided_seq,
            "now_s": now_s,
            "idle_gpus": idle_gpus,
            "is_lending": row.is_lending,
            "wants_forecast": True,
        }


def require_cluster(row: ClusterRow | None, name: str) -> ClusterRow:
    """The cluster's row, if it can be planned for.

    Raises:
        Conflict: if it is not there or has no inventory yet.
    """
    if row is None or row.epoch == 0:
        raise Conflict(f"cluster {name} has no inventory yet: put its pools first")
    return row


def publish(engine: Engine, cluster: str, request: Json, answer: Json, run_id: str, clock: Clock) -> Json:
    """Store a plan and, where executors enforce it, carry it out: all of it once, or nothing.

    Args:
        engine: the database.
        cluster: name.
        request: what `load` returned.
        answer: what the planner made of it.
        run_id: of the run; it makes one plan, however often it comes here.
        clock: our clock.

    Returns:
        `plan_id`, `number` and counts. `is_stale` is true, and nothing else is there, where the cluster has
        begun a new epoch meanwhile, so that the plan rests on what is no longer so and has to be made again.
        It is also true where an own job did not get its GPUs because of what has happened meanwhile.
    """
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        done = plans.by_run(session, run_id)
        if done is not None:
            return _summary(done)
        if row.epoch != request["epoch"]:
            return {"is_stale": True}
        plan_id = f"plan-{run_id}"[:64]
        seq_seen, at_s = request["seq"], request["now_s"]
        content = {**answer, "dropped": []}
        has_moved_on = row.seq > seq_seen
        if row.enforced_by == EnforcedBy.EXECUTORS:
            applied = applying.apply(
                session, row, answer, seq_seen=seq_seen, at_s=at_s, clock=clock, plan_id=plan_id
            )
            content |= applied
            session.add(
                DecisionRow(
                    cluster=cluster,
                    seq=request["decided_seq"],
                    epoch=row.epoch,
                    at_s=at_s,
                    idle_gpus=request["idle_gpus"],
                    answer=applied
                    | {name: answer[name] for name in ("refused", "lending") if name in answer},
                    took_ms=float(answer.get("took_ms", 0.0)),
                    plan_id=plan_id,
                    decided_at=clock.now(),
                )
            )
        plan = PlanRow(
            plan_id=plan_id,
            cluster=cluster,
            number=0,
            run_id=run_id,
            epoch=row.epoch,
            seq_seen=seq_seen,
            seq=row.seq,
            at_s=at_s,
            status=PlanStatus.PUBLISHED.value,
            content=content,
            content_sha256=_sha256(content),
            created_at=clock.now(),
        )
        plans.add(session, plan)
        summary = _summary(plan)
        if has_moved_on and any(one["why"] == NOT_THERE for one in content["dropped"]):
            summary["is_stale"] = True
        return summary


def _summary(plan: PlanRow) -> Json:
    counted = ("starts", "riders", "send_backs", "conversions", "holds", "shares", "dropped", "refused")
    return {
        "plan_id": plan.plan_id,
        "number": plan.number,
        **{f"num_{name}": len(plan.content.get(name, ())) for name in counted},
    }


def _sha256(content: Json) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
