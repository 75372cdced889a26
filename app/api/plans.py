"""Plans: looked at, reviewed, set beside each other."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from sqlalchemy import Engine

from app.api import live_views as views
from app.api.auth import ApplierDep, require
from app.api.deps import ClockDep, EngineDep
from app.api.etags import IfMatchDep, etag
from app.clock import Clock
from app.schemas.base import MAX_NUMBER, ClusterName
from app.schemas.plans import HoldCheckOut, HoldForecastOut, PlanDiffOut, PlanOut, PlansOut, PlanState
from app.services import hold_checks, plan_diff, plan_review, planning
from app.services.clusters import require as require_cluster
from app.services.times import to_instant, to_s
from app.store import plans
from app.store.engine import reading
from app.store.tables import ClusterRow, EnforcedBy, PlanRow

router = APIRouter(prefix="/v1/clusters/{cluster}/plans", tags=["plans"])

Reads = Depends(require("read"))
PlanId = Annotated[str, Path(max_length=64, description="the plan's id; `latest` names the newest")]
Reviewed = Annotated[str, Path(max_length=64, description="the plan's id")]

_SAME = {
    "plan_id",
    "number",
    "run_id",
    "epoch",
    "seq_seen",
    "seq",
    "version",
    "mode",
    "reviewed_by",
    "reviewed_at",
    "applied_at",
    "churn",
    "content_sha256",
    "created_at",
}


@router.get("", summary="Plans, newest first", dependencies=[Reads])
def list_plans(
    cluster: ClusterName,
    engine: EngineDep,
    clock: ClockDep,
    before: Annotated[int | None, Query(ge=1, le=MAX_NUMBER)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
) -> PlansOut:
    """Pages by number: `before` is the `next_before` of the page before."""
    row, found = plan_review.page(engine, cluster, before=before, limit=limit)
    items = [plan_out(row, plan, clock) for plan in found]
    return PlansOut(items=items, next_before=items[-1].number if len(items) == limit else None)


@router.get("/{plan_id}", summary="A plan, or the latest one", dependencies=[Reads])
def get_plan(
    cluster: ClusterName, plan_id: PlanId, response: Response, engine: EngineDep, clock: ClockDep
) -> PlanOut:
    """Of the plan in force the holds are checked as of now. Its ETag is what a review names in If-Match."""
    row, plan, checks = _look_up(engine, cluster, plan_id, clock)
    response.headers["ETag"] = etag(plan.version)
    return plan_out(row, plan, clock, checks)


@router.post("/{plan_id}/approve", summary="Approve a draft: it goes out")
def approve_plan(
    cluster: ClusterName,
    plan_id: Reviewed,
    caller: ApplierDep,
    versions: IfMatchDep,
    response: Response,
    engine: EngineDep,
    clock: ClockDep,
) -> PlanOut:
    """Executors carry it out at once, in this transaction; for a scheduler it is the plan in force.

    Of two who approve the same version one succeeds. What has expired or is of an older epoch is refused.
    """
    row, plan = plan_review.approve(engine, cluster, plan_id, versions, reviewer=caller.name, clock=clock)
    response.headers["ETag"] = etag(plan.version)
    return plan_out(row, plan, clock)


@router.post("/{plan_id}/reject", summary="Reject a draft")
def reject_plan(
    cluster: ClusterName,
    plan_id: Reviewed,
    caller: ApplierDep,
    versions: IfMatchDep,
    response: Response,
    engine: EngineDep,
    clock: ClockDep,
) -> PlanOut:
    """Nothing comes of it."""
    row, plan = plan_review.reject(engine, cluster, plan_id, versions, reviewer=caller.name, clock=clock)
    response.headers["ETag"] = etag(plan.version)
    return plan_out(row, plan, clock)


@router.get("/{plan_id}/diff", summary="A plan beside another", dependencies=[Reads])
def get_diff(
    cluster: ClusterName,
    plan_id: PlanId,
    engine: EngineDep,
    to: Annotated[
        str | None, Query(max_length=64, description="the other plan; the one before where it is left out")
    ] = None,
) -> PlanDiffOut:
    """What was added, is gone, moved, or was done meanwhile."""
    return PlanDiffOut.model_validate(plan_diff.diff(engine, cluster, plan_id, to))


def plan_out(
    cluster: ClusterRow, plan: PlanRow, clock: Clock, checks: list[dict[str, Any]] | None = None
) -> PlanOut:
    """A plan as it is sent; one that could still go out and is too old counts as expired."""
    is_over = plan.status in plans.OPEN and planning.has_expired(cluster, plan, clock)
    return PlanOut(
        **views.answer(cluster, plan.content),
        **plan.model_dump(include=_SAME),
        status=PlanState.EXPIRED if is_over else PlanState(plan.status),
        at=to_instant(cluster, plan.at_s),
        expires_at=views.instant(cluster, plan.expires_s),
        is_enforced=cluster.enforced_by == EnforcedBy.EXECUTORS,
        forecast=plan.content.get("forecast", {}),
        hold_forecasts=_forecasts(cluster, plan),
        hold_checks=[
            HoldCheckOut(**_without(check, "at_s"), at=to_instant(cluster, check["at_s"]))
            for check in (plan.hold_checks if checks is None else checks)
        ],
    )


def _look_up(
    engine: Engine, name: str, plan_id: str, clock: Clock
) -> tuple[ClusterRow, PlanRow, list[dict[str, Any]]]:
    with reading(engine) as session:
        row = require_cluster(session, name)
        plan = plan_diff.find(session, name, plan_id)
        now = plans.in_force(session, name)
        if now is None or now.plan_id != plan.plan_id:
            return row, plan, plan.hold_checks
        return row, plan, hold_checks.check(session, row, plan, to_s(row, clock.now()))


def _forecasts(cluster: ClusterRow, plan: PlanRow) -> list[HoldForecastOut]:
    holds, known = plan.content.get("holds", []), plan.content.get("feasibility", [])
    if len(holds) != len(known):
        return []  # an older plan, or one whose holds are not those that were forecast
    return [
        HoldForecastOut(
            pool=hold["pool"],
            num_gpus=hold["num_gpus"],
            **_without(one, "by_s", "likely_by_s", "bound_s"),
            by=to_instant(cluster, one["by_s"]),
            likely_by=views.instant(cluster, one["likely_by_s"]),
            bound=views.instant(cluster, one["bound_s"]),
        )
        for hold, one in zip(holds, known, strict=True)
    ]


def _without(source: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in source.items() if name not in names}
