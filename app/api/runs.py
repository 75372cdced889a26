"""Runs: what long work is under way, and asking for a plan."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api.auth import PlannerDep, require
from app.api.clusters import ClusterPath
from app.api.deps import EngineDep, RunsDep
from app.schemas.runs import RunName, RunOut, RunsOut
from app.services import replan, runs
from app.store.engine import transaction
from app.store.tables import RunRow

router = APIRouter(prefix="/v1", tags=["runs"])

RunPath = Annotated[str, Path(max_length=64, description="the run's id")]
_READS = [Depends(require("read"))]


@router.get("/clusters/{cluster}/runs", dependencies=_READS, summary="Runs, the newest first")
def list_runs(
    cluster: ClusterPath,
    engine: EngineDep,
    kind: Annotated[RunName | None, Query()] = None,
    before: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> RunsOut:
    """A page at a time."""
    found = runs.page(engine, cluster, kind, before, limit + 1)
    items = [run_out(run) for run in found[:limit]]
    return RunsOut(items=items, next=items[-1].run_id if len(found) > limit else None)


@router.get("/runs/{run_id}", dependencies=_READS, summary="A run")
def get_run(run_id: RunPath, engine: EngineDep) -> RunOut:
    """Ask again until `finished_at` is set."""
    return run_out(runs.get(engine, run_id))


@router.post("/runs/{run_id}/cancel", dependencies=[Depends(require("plan"))], summary="Cancel a run")
def cancel_run(run_id: RunPath, engine: EngineDep, queue: RunsDep) -> RunOut:
    """One that waits never begins, one that runs is stopped; one that is over stays as it is."""
    queue.cancel(run_id)
    return run_out(runs.get(engine, run_id))


@router.post(
    "/clusters/{cluster}/replans", status_code=HTTPStatus.ACCEPTED, summary="Ask for a plan of this moment"
)
def ask_for_replan(
    cluster: ClusterPath, caller: PlannerDep, response: Response, engine: EngineDep, queue: RunsDep
) -> RunOut:
    """`Location` names the run; it is the one that waits already, if there is one."""
    with transaction(engine) as session:
        run = replan.request(session, queue, cluster, caller.name)
    response.headers["Location"] = location(run)
    return run_out(run)


def location(run: RunRow) -> str:
    """Where a run is found."""
    return f"/v1/runs/{run.run_id}"


def run_out(run: RunRow) -> RunOut:
    """A run as it is sent."""
    kept = run.model_dump(exclude={"arguments"})
    arguments = {name: value for name, value in run.arguments.items() if name != "dedup"}
    return RunOut.model_validate({**kept, "arguments": arguments})
