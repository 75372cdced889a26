"""Replanning: a picture of the cluster taken, a plan made of it elsewhere, and the plan applied once."""

import hashlib
import json
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict
from app.services import actions, applying, hold_checks, modes, plan_diff
from app.services.placing import NOT_THERE
from app.services.times import to_s
from app.store import live, plans
from app.store.engine import lock_cluster, transaction
from app.store.tables import ClusterRow, DecisionRow, PlanRow, PlanStatus

Json = dict[str, Any]

_SOURCE: Final = "replan"
_OF_ANSWERS: Final = (
    "starts",
    "riders",
    "send_backs",
    "conversions",
    "holds",
    "shares",
    "dropped",
    "refused",
    "lending",
    "proposed",
)


def load(engine: Engine, cluster: str, clock: Clock) -> Json:
    """What a planner needs to know to look at one instant of the log: small, the rest it reads itself.

    Where executors carry the plan out, the question is written into the log first, as any decision is, and
    a warm process can answer it. Where nothing comes of the plan by itself, the log is left alone.

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
        if modes.is_pushed(row):
            decided_seq = applying.log_decision(
                session, row, at_s=now_s, idle_gpus=idle_gpus, source=_SOURCE, clock=clock
            )
        return {
            "cluster": cluster,
            "epoch": row.epoch,
            "mode": row.mode,
            "seq": row.seq,
            "decided_seq": decided_seq,
            "now_s": now_s,
            "idle_gpus": idle_gpus,
            "is_lending": row.is_lending,  # also where it is only observed: what would it do?
            "accepted": actions.accepted(session, row),
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
    """Store a plan and, where executors enforce it and nobody has to approve it, carry it out: once, or not.

    Args:
        engine: the database.
        cluster: name.
        request: what `load` returned.
        answer: what the planner made of it.
        run_id: of the run; it makes one plan, however often it comes here.
        clock: our clock.

    Returns:
        `plan_id`, `number` and counts. `is_stale` is true, and nothing else is there, where the cluster has
        begun a new epoch meanwhile, or changed its mode, so that the plan rests on what is no longer so and
        has to be made again. It is also true where an own job did not get its GPUs because of what has
        happened meanwhile, and where the plan was too old to be carried out when it came.
    """
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        done = plans.by_run(session, run_id)
        if done is not None:
            return _summary(done)
        if row.epoch != request["epoch"] or row.mode != request["mode"]:
            return {"is_stale": True}
        plan = _draft(row, request, answer, run_id, clock)
        has_moved_on = row.seq > plan.seq_seen
        hold_checks.note(session, row, clock)
        if "proposed" in answer:
            actions.note(session, row, answer["proposed"], request["decided_seq"] or plan.seq_seen, clock)
        if has_expired(row, plan, clock):
            plan.status = PlanStatus.EXPIRED.value
        elif not modes.waits_for_approval(row):
            go_out(session, row, plan, clock)
        if plan.decided_seq is not None:
            session.add(_decision(plan, request, answer, clock))
        before = plans.latest(session, cluster)
        plan.churn = None if before is None else plan_diff.between(session, before, plan)["churn"]
        plans.add(session, plan)
        summary = _summary(plan)
        was_late = any(one["why"] == NOT_THERE for one in plan.content["dropped"])
        if plan.status == PlanStatus.EXPIRED or (has_moved_on and was_late):
            summary["is_stale"] = True
        return summary


def has_expired(cluster: ClusterRow, plan: PlanRow, clock: Clock) -> bool:
    """Whether a plan is too old to be carried out."""
    return plan.expires_s is not None and to_s(cluster, clock.now()) > plan.expires_s


def go_out(session: Session, cluster: ClusterRow, plan: PlanRow, clock: Clock) -> None:
    """Carry a plan out, or, where a scheduler does, make it the one in force. The cluster is locked.

    The caller has looked at epoch, mode and age.
    """
    if not modes.is_pushed(cluster):
        plan.status = PlanStatus.APPROVED.value
        if not modes.lends(cluster):  # the kill switch may have been thrown since it was begun
            plan.content = modes.without_guests(plan.content)
    else:
        applied = applying.apply(
            session,
            cluster,
            plan.content,
            seq_seen=plan.seq_seen,
            at_s=plan.at_s,
            clock=clock,
            plan_id=plan.plan_id,
        )
        dropped = [*plan.content["dropped"], *applied["dropped"]]
        plan.content = {**plan.content, **applied, "dropped": dropped}
        plan.status = PlanStatus.APPLIED.value
        plan.applied_at = clock.now()
    plan.content = {**plan.content, "idle_after": live.idle_gpus(session, cluster)}
    plan.content_sha256 = _sha256(plan.content)
    plan.seq = cluster.seq


def _draft(row: ClusterRow, request: Json, answer: Json, run_id: str, clock: Clock) -> PlanRow:
    content = {**answer, "dropped": []}
    if not row.is_lending:
        content = modes.without_guests(content)
    return PlanRow(
        plan_id=f"plan-{run_id}"[:64],
        cluster=row.name,
        number=0,
        run_id=run_id,
        epoch=row.epoch,
        seq_seen=request["seq"],
        seq=row.seq,
        at_s=request["now_s"],
        status=PlanStatus.DRAFT.value,
        mode=row.mode,
        decided_seq=request["decided_seq"],
        expires_s=request["now_s"] + row.plan_valid_s,
        hold_checks=[],
        content=content,
        content_sha256=_sha256(content),
        created_at=clock.now(),
    )


def _decision(plan: PlanRow, request: Json, answer: Json, clock: Clock) -> DecisionRow:
    """The decision that the plan's entry in the log stands for."""
    return DecisionRow(
        cluster=plan.cluster,
        seq=request["decided_seq"],
        epoch=plan.epoch,
        at_s=plan.at_s,
        idle_gpus=request["idle_gpus"],
        answer=decided_answer(plan),
        took_ms=float(answer.get("took_ms", 0.0)),
        plan_id=plan.plan_id,
        decided_at=clock.now(),
    )


def decided_answer(plan: PlanRow) -> Json:
    """A plan as the answer of its decision: without what only plans have."""
    return {name: plan.content[name] for name in _OF_ANSWERS if name in plan.content}


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
