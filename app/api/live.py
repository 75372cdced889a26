"""Facts in, decisions out, and what has come of them: the routes a scheduler and an operator use all day."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from sqlalchemy import Engine

from app.api import live_views as views
from app.api.auth import ApplierDep, require
from app.api.deps import ClockDep, EngineDep, RunsDep
from app.clock import Clock
from app.errors import Conflict, UnknownResource
from app.schemas import live as schemas
from app.schemas.base import MAX_NUMBER, ClusterName
from app.services import applying, epochs, observe, replan
from app.services import decide as deciding
from app.services import report as reporting
from app.services.deciding import Deciders
from app.services.facts import Fact
from app.services.times import to_s
from app.store import live
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, EnforcedBy

router = APIRouter(prefix="/v1/clusters/{cluster}")

Reads = Depends(require("read"))

Limit = Annotated[int, Query(ge=1, le=1_000)]


async def _deciders(request: Request) -> Deciders:
    deciders: Deciders = request.app.state.deciders
    return deciders


DecidersDep = Annotated[Deciders, Depends(_deciders)]


@router.post("/events", tags=["events"], summary="Tell what has happened to jobs")
def post_events(
    cluster: ClusterName,
    body: schemas.EventsIn,
    caller: ApplierDep,
    engine: EngineDep,
    clock: ClockDep,
    runs: RunsDep,
) -> schemas.EventsOut:
    """Each event is taken or rejected by itself. In a cluster that executors enforce, a replan is queued."""
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        facts = _facts(row, body.events, clock)
        result = observe.record(session, row, facts, source=caller.name, clock=clock)
        session.flush()
        if result.accepted and row.enforced_by == EnforcedBy.EXECUTORS:
            applying.stop_what_left(session, row, clock)
            replan.after_event(session, runs, row)
    return views.recorded(result)


@router.post("/decisions", tags=["decisions"], summary="Ask what to do now")
def post_decision(
    cluster: ClusterName,
    body: schemas.DecisionIn,
    caller: ApplierDep,
    engine: EngineDep,
    clock: ClockDep,
    deciders: DecidersDep,
) -> schemas.DecisionOut:
    """Tells what has happened and asks, in one call; the answer comes from the state that the events make.

    Carry the answer out in the order of its fields and tell what you did with the next call. What you did
    not do is proposed again.
    """

    def ask(row: ClusterRow) -> deciding.Question:
        return deciding.Question(
            facts=_facts(row, body.events, clock),
            at_s=None if body.at is None else to_s(row, body.at),
            idle_gpus=body.idle_gpus,
            source=caller.name,
            explain=body.explain,
        )

    return views.decision(deciding.decide(engine, deciders, clock, cluster, ask))


@router.get("/decisions/{seq}", tags=["decisions"], summary="A decision made earlier", dependencies=[Reads])
def get_decision(
    cluster: ClusterName, seq: Annotated[int, Path(ge=1, le=MAX_NUMBER)], engine: EngineDep
) -> schemas.DecisionOut:
    """With its entry in the log and its epoch, from which it can be derived again."""
    row = _cluster(engine, cluster)
    made = deciding.look_up(engine, cluster, seq)
    if made is None:
        raise UnknownResource(f"entry {seq} of cluster {cluster} is no decision")
    return views.decision(deciding.Decision(row, made, None, observe.Recorded()))


@router.get("/jobs", tags=["jobs"], summary="Live jobs", dependencies=[Reads])
def list_jobs(
    cluster: ClusterName,
    engine: EngineDep,
    state: Annotated[list[Literal["waiting", "running", "ended", "cancelled"]] | None, Query()] = None,
    after: Annotated[str, Query(max_length=255)] = "",
    limit: Limit = 100,
) -> schemas.JobsOut:
    """Pages by id: `after` is the `next_after` of the page before."""
    row = _cluster(engine, cluster)
    with reading(engine) as session:
        found = live.jobs(session, cluster, states=state or (), after=after, limit=limit)
    items = [views.job(row, job) for job in found]
    return schemas.JobsOut(items=items, next_after=items[-1].job_id if len(items) == limit else None)


@router.post(
    "/pauses",
    tags=["jobs"],
    summary="Let a running job stand still, or go on",
    status_code=HTTPStatus.NO_CONTENT,
    dependencies=[Depends(require("apply"))],
)
def post_pause(cluster: ClusterName, body: schemas.PauseIn, engine: EngineDep, clock: ClockDep) -> None:
    """On its nodes, through their executors. The job keeps its GPUs, and its time counts as running."""
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        applying.pause(session, row, body.job_id, is_paused=body.is_paused, clock=clock)


@router.get("/report", tags=["report"], summary="What sharing has done so far", dependencies=[Reads])
def get_report(cluster: ClusterName, engine: EngineDep) -> schemas.ReportOut:
    """Measured against the world without sharing, job by job."""
    return schemas.ReportOut.model_validate(reporting.report(engine, cluster))


@router.get("/epochs", tags=["epochs"], summary="Epochs of the cluster", dependencies=[Reads])
def list_epochs(cluster: ClusterName, engine: EngineDep) -> list[schemas.EpochOut]:
    """A policy's state begins anew with each: see docs/architecture.md."""
    row = _cluster(engine, cluster)
    with reading(engine) as session:
        return [views.epoch(row, epoch) for epoch in live.epochs(session, cluster)]


@router.post(
    "/epochs",
    tags=["epochs"],
    summary="Learn anew",
    status_code=HTTPStatus.CREATED,
    dependencies=[Depends(require("plan"))],
)
def begin_epoch(
    cluster: ClusterName,
    body: schemas.EpochIn,
    engine: EngineDep,
    clock: ClockDep,
    runs: RunsDep,
) -> schemas.EpochOut:
    """Forecasts learn from all that had ended by `as_of`; the policy starts from the unfinished jobs."""
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        at_s = None if body.as_of is None else to_s(row, body.as_of)
        epoch = epochs.begin(session, row, body.reason, clock, at_s=at_s)
        if epoch is None:
            raise UnknownResource(f"cluster {cluster} has no inventory yet: put its pools first")
    replan.after_change(engine, runs, cluster)
    return views.epoch(row, epoch)


def _facts(cluster: ClusterRow, events: Sequence[schemas.EventIn], clock: Clock) -> list[Fact]:
    """Events as facts. Where executors enforce, they say what runs; others tell of jobs that come and go.

    Raises:
        Conflict: if that is not theirs to tell.
    """
    if cluster.enforced_by == EnforcedBy.EXECUTORS:
        for event in events:
            if event.kind not in ("submitted", "cancelled"):
                raise Conflict(
                    f"job {event.job_id}: {event.kind!r} is told by the executors of cluster {cluster.name}; "
                    "tell submitted and cancelled only"
                )
    return [views.fact_of(cluster, event, clock.now()) for event in events]


def _cluster(engine: Engine, name: str) -> ClusterRow:
    with reading(engine) as session:
        row = session.get(ClusterRow, name)
    if row is None:
        raise UnknownResource(f"there is no cluster {name!r}")
    return row
