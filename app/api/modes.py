"""Modes: the kill switch, actions that somebody reviews, and reports of observed days."""

from datetime import date
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api.auth import ApplierDep, PlannerDep, require
from app.api.deps import ClockDep, EngineDep, RunsDep
from app.api.etags import etag
from app.api.runs import location, run_out
from app.schemas.base import ClusterName, Day
from app.schemas.clusters import ClusterOut
from app.schemas.modes import (
    ActionOut,
    ActionsOut,
    ActionState,
    ObservationIn,
    ObservationOut,
    ObservationReport,
    ObservationsOut,
)
from app.schemas.runs import RunOut
from app.services import actions, modes, observations, replan
from app.store.tables import ActionRow, ObservationRow

router = APIRouter(prefix="/v1/clusters/{cluster}")

READS = [Depends(require("read"))]
Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="the action's number")]
Limit = Annotated[int, Query(ge=1, le=1_000)]


@router.post(
    "/stop-lending",
    tags=["modes"],
    summary="The kill switch: lend nothing any more",
    dependencies=[Depends(require("apply"))],
)
def stop_lending(
    cluster: ClusterName, response: Response, engine: EngineDep, clock: ClockDep, runs: RunsDep
) -> ClusterOut:
    """At once, for decisions and plans under way as well; whoever may start jobs may stop lending.

    Own jobs start as ever. Guests that run are left until their GPUs are wanted. It is turned on again with
    `PATCH /v1/clusters/{cluster}`. Asking twice is the same as asking once.
    """
    row = modes.stop_lending(engine, cluster, clock)
    replan.after_change(engine, runs, cluster)
    response.headers["ETag"] = etag(row.version)
    return ClusterOut.model_validate(row.model_dump())


@router.get("/actions", tags=["modes"], summary="Actions of lending", dependencies=READS)
def list_actions(
    cluster: ClusterName,
    engine: EngineDep,
    status: Annotated[ActionState | None, Query()] = None,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Limit = 100,
) -> ActionsOut:
    """Pages by number: `after` is the `next_after` of the page before."""
    found = actions.page(engine, cluster, status=status, after=after, limit=limit)
    items = [_action(row) for row in found]
    return ActionsOut(items=items, next_after=items[-1].number if len(items) == limit else None)


@router.get("/actions/{number}", tags=["modes"], summary="An action", dependencies=READS)
def get_action(cluster: ClusterName, number: Number, engine: EngineDep) -> ActionOut:
    """Who proposed it, who reviewed it, and what came of it."""
    return _action(actions.get(engine, cluster, number))


@router.post("/actions/{number}/accept", tags=["modes"], summary="Accept an action")
def accept_action(
    cluster: ClusterName,
    number: Number,
    caller: ApplierDep,
    engine: EngineDep,
    clock: ClockDep,
    runs: RunsDep,
) -> ActionOut:
    """The next decision that still proposes it gives it out; where executors enforce, one is asked for."""
    row = actions.review(engine, cluster, number, is_accepted=True, reviewer=caller.name, clock=clock)
    replan.after_change(engine, runs, cluster)
    return _action(row)


@router.post("/actions/{number}/reject", tags=["modes"], summary="Reject an action")
def reject_action(
    cluster: ClusterName, number: Number, caller: ApplierDep, engine: EngineDep, clock: ClockDep
) -> ActionOut:
    """A decision that wants it all the same proposes it again, under another number."""
    return _action(
        actions.review(engine, cluster, number, is_accepted=False, reviewer=caller.name, clock=clock)
    )


@router.post(
    "/observations",
    tags=["modes"],
    status_code=HTTPStatus.ACCEPTED,
    summary="Look back at a day: what would sharing have made of it?",
)
def ask_for_observation(
    cluster: ClusterName,
    body: ObservationIn,
    caller: PlannerDep,
    response: Response,
    engine: EngineDep,
    clock: ClockDep,
    runs: RunsDep,
) -> RunOut:
    """`Location` names the run. In a cluster that is observed a schedule asks for it after each day."""
    run = observations.ask(engine, runs, cluster, body.day, caller.name, clock)
    response.headers["Location"] = location(run)
    return run_out(run)


@router.get("/observations", tags=["modes"], summary="Observed days, newest first", dependencies=READS)
def list_observations(
    cluster: ClusterName,
    engine: EngineDep,
    before: Annotated[Day | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> ObservationsOut:
    """Pages by day: `before` is the `next_before` of the page before."""
    wanted = "" if before is None else before.isoformat()
    items = [_observation(row) for row in observations.page(engine, cluster, before=wanted, limit=limit)]
    return ObservationsOut(items=items, next_before=items[-1].day if len(items) == limit else None)


@router.get("/observations/{day}", tags=["modes"], summary="An observed day", dependencies=READS)
def get_observation(cluster: ClusterName, day: Day, engine: EngineDep) -> ObservationOut:
    """Days are in UTC."""
    return _observation(observations.get(engine, cluster, day))


def _action(row: ActionRow) -> ActionOut:
    return ActionOut.model_validate(row.model_dump(exclude={"cluster"}))


def _observation(row: ObservationRow) -> ObservationOut:
    return ObservationOut(
        day=date.fromisoformat(row.day),
        run_id=row.run_id,
        created_at=row.created_at,
        report=ObservationReport.model_validate(row.content),
    )
