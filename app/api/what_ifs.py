"""What-ifs: the recent past, or futures drawn from it, with something changed."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api.auth import PlannerDep, require
from app.api.clusters import ClusterPath
from app.api.deps import ClockDep, EngineDep, RunsDep
from app.api.runs import location, run_out
from app.schemas.runs import RunOut, RunState
from app.schemas.what_ifs import (
    AnsweredOut,
    CellOut,
    ComparisonOut,
    FigureOut,
    SweepIn,
    SweepOut,
    SweepsOut,
    WhatIfIn,
    WhatIfOut,
    WhatIfsOut,
)
from app.services import what_if, what_if_sweeps, what_if_views
from app.services.what_if_sweeps import Parameter, WantedSweep
from app.services.what_if_views import Comparison, Seen
from app.store.tables import WhatIfFigureRow

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["what-ifs"])

_READS: Final = [Depends(require("read"))]
_NOT_SHOWN: Final = {"answer", "position"}
WhatIfPath = Annotated[str, Path(max_length=64, description="the what-if's id")]
SweepPath = Annotated[str, Path(max_length=64, description="the sweep's id")]
Before = Annotated[str | None, Query(max_length=64, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=100)]


@router.post("/what-ifs", status_code=HTTPStatus.ACCEPTED, summary="Ask what changes would have done")
def ask_what_if(
    cluster: ClusterPath,
    body: WhatIfIn,
    caller: PlannerDep,
    response: Response,
    engine: EngineDep,
    runs: RunsDep,
) -> RunOut:
    """A run replays the last days, or futures drawn from them, as the cluster is and changed.

    Its result, or `GET …/what-ifs/{id}`, compares the two. Jobs that could not start in one of the worlds are
    left out of both and counted. Nothing in the cluster changes.
    """
    run = what_if.ask(engine, runs, cluster, what_if.Wanted(body.arguments(), body.name), caller.name)
    response.headers["Location"] = location(run)
    return run_out(run)


@router.get("/what-ifs", dependencies=_READS, summary="What-ifs, the newest first")
def list_what_ifs(
    cluster: ClusterPath, engine: EngineDep, before: Before = None, limit: Limit = 20
) -> WhatIfsOut:
    """A page at a time, without answers."""
    found = what_if_views.page(engine, cluster, before, limit + 1)
    items = [_out(one) for one in found[:limit]]
    return WhatIfsOut(items=items, next=items[-1].what_if_id if len(found) > limit else None)


@router.get("/what-ifs/compare", dependencies=_READS, summary="What-ifs side by side")
def compare_what_ifs(
    cluster: ClusterPath,
    engine: EngineDep,
    ids: Annotated[str, Query(max_length=2000, description="ids, with commas in between")],
    pool: Annotated[str | None, Query(min_length=1, max_length=255)] = None,
    figures: Annotated[
        str | None, Query(max_length=2000, description="names of figures, with commas in between")
    ] = None,
) -> ComparisonOut:
    """Figures of several what-ifs, each with its difference from the cluster as it is."""
    names = None if figures is None else _split(figures)
    found = what_if_views.compare(engine, cluster, _split(ids), pool or "", names)
    return _comparison(found, pool)


@router.get("/what-ifs/{what_if_id}", dependencies=_READS, summary="A what-if and its answer")
def get_what_if(cluster: ClusterPath, what_if_id: WhatIfPath, engine: EngineDep) -> AnsweredOut:
    """Ask again until `answer` is there, or `status` says that there will be none."""
    seen = what_if_views.get(engine, cluster, what_if_id)
    return AnsweredOut(**_out(seen).model_dump(), answer=seen.row.answer)


@router.post("/what-if-sweeps", status_code=HTTPStatus.ACCEPTED, summary="Ask for a grid of what-ifs")
def ask_sweep(
    cluster: ClusterPath,
    body: SweepIn,
    caller: PlannerDep,
    response: Response,
    engine: EngineDep,
    runs: RunsDep,
    clock: ClockDep,
) -> SweepOut:
    """Each point of the grid is a what-if with a run of its own; all workers share in them."""
    wanted = WantedSweep(
        what_if.Wanted(body.arguments(), body.name),
        [Parameter(one.name, one.change, one.values) for one in body.parameters],
    )
    sweep = what_if_sweeps.ask(engine, runs, cluster, wanted, caller.name, clock)
    response.headers["Location"] = f"/v1/clusters/{cluster}/what-if-sweeps/{sweep.row.sweep_id}"
    return _sweep_out(sweep)


@router.get("/what-if-sweeps", dependencies=_READS, summary="Sweeps, the newest first")
def list_sweeps(
    cluster: ClusterPath, engine: EngineDep, before: Before = None, limit: Limit = 20
) -> SweepsOut:
    """A page at a time."""
    found = what_if_sweeps.page(engine, cluster, before, limit + 1)
    items = [_sweep_out(one) for one in found[:limit]]
    return SweepsOut(items=items, next=items[-1].sweep_id if len(found) > limit else None)


@router.get("/what-if-sweeps/{sweep_id}", dependencies=_READS, summary="A sweep and its points")
def get_sweep(cluster: ClusterPath, sweep_id: SweepPath, engine: EngineDep) -> SweepOut:
    """How far it is; the answers are those of its points."""
    return _sweep_out(what_if_sweeps.get(engine, cluster, sweep_id))


@router.post(
    "/what-if-sweeps/{sweep_id}/cancel", dependencies=[Depends(require("plan"))], summary="Cancel a sweep"
)
def cancel_sweep(
    cluster: ClusterPath, sweep_id: SweepPath, engine: EngineDep, runs: RunsDep, clock: ClockDep
) -> SweepOut:
    """Points that wait never begin, those that run are stopped; those that are answered stay."""
    return _sweep_out(what_if_sweeps.cancel(engine, runs, cluster, sweep_id, clock))


def _out(seen: Seen) -> WhatIfOut:
    row, run = seen.row, seen.run
    if run is not None:
        status, error = RunState(run.status), run.error
    elif row.answered_at is not None:
        status, error = RunState.SUCCEEDED, None
    else:
        status, error = RunState.FAILED, "its run is gone; ask again"
    far = None if run is None or run.finished_at is not None else (run.result or {}).get("progress")
    shown = row.model_dump(exclude=_NOT_SHOWN)
    return WhatIfOut.model_validate({**shown, "status": status, "progress": far, "error": error})


def _sweep_out(sweep: what_if_sweeps.Sweep) -> SweepOut:
    points = [_out(one) for one in sweep.points]
    counts = {state: sum(one.status == state for one in points) for state in RunState}
    return SweepOut.model_validate(
        {
            **sweep.row.model_dump(),
            "counts": counts,
            "progress": sum(_part_done(one) for one in points) / max(1, len(points)),
            "points": points,
        }
    )


def _part_done(one: WhatIfOut) -> float:
    if one.status not in (RunState.QUEUED, RunState.RUNNING):
        return 1.0
    far = one.progress
    return min(1.0, far["done"] / far["total"]) if far and far["total"] else 0.0


def _comparison(found: Comparison, pool: str | None) -> ComparisonOut:
    ids = [one.row.what_if_id for one in found.seen]
    return ComparisonOut(
        what_ifs=[_out(one) for one in found.seen],
        pool=pool,
        is_same_base=found.is_same_base,
        figures=[
            FigureOut(
                figure=name, values=[_cell(found.figures.get((what_if_id, name))) for what_if_id in ids]
            )
            for name in found.names
        ],
    )


def _cell(row: WhatIfFigureRow | None) -> CellOut | None:
    if row is None:
        return None
    return CellOut.model_validate(row.model_dump(exclude={"what_if_id", "pool", "figure"}))


def _split(text: str) -> Sequence[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
