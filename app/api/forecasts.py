"""Forecasts of lives and demand, and why jobs wait."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request

from app.api.auth import require
from app.api.clusters import ClusterPath
from app.api.deps import ClockDep, EngineDep
from app.schemas import forecasts as schemas
from app.services import asking
from app.services.asking import Asked, Askers, Explanations
from app.services.times import to_instant, to_s
from app.store.tables import ClusterRow, JobRow

router = APIRouter(prefix="/v1/clusters/{cluster}", dependencies=[Depends(require("read"))])

MAX_HORIZON_S = 14 * 86_400.0
_LEVELS = (0.5, 0.9)


async def _askers(request: Request) -> Askers:
    askers: Askers = request.app.state.askers
    return askers


AskersDep = Annotated[Askers, Depends(_askers)]


@router.post("/forecasts/lifetime", tags=["forecasts"], summary="How long will these jobs run?")
def forecast_lifetimes(
    cluster: ClusterPath,
    body: schemas.LifetimesIn,
    engine: EngineDep,
    clock: ClockDep,
    askers: AskersDep,
) -> schemas.LifetimesOut:
    """Quantiles of each job's length, given how long it has run already. Nothing is changed or kept."""
    row = asking.require(engine, cluster)
    jobs = [Asked(one.job_id, _fields(row, one), one.elapsed_s) for one in body.jobs]
    row, answer = asking.lifetimes(engine, askers, clock, cluster, jobs, body.levels, body.within_s)
    return schemas.LifetimesOut(
        levels=body.levels,
        within_s=body.within_s,
        jobs=[schemas.LifetimeOut(**one) for one in answer["jobs"]],
        **_rests_on(row, answer),
    )


@router.get("/forecasts/demand", tags=["forecasts"], summary="What will pools ask for?")
def forecast_demand(
    cluster: ClusterPath,
    engine: EngineDep,
    clock: ClockDep,
    askers: AskersDep,
    pool: Annotated[str | None, Query(max_length=255, description="all pools where left out")] = None,
    horizon_s: Annotated[float, Query(gt=0.0, le=MAX_HORIZON_S)] = 86_400.0,
    level: Annotated[list[Annotated[float, Query(gt=0.0, lt=1.0)]] | None, Query(max_length=99)] = None,
) -> schemas.DemandOut:
    """GPUs and jobs that are still to come, step by step, by level (`level` may be repeated)."""
    levels = sorted(set(level or _LEVELS))
    row, at_s, answer = asking.demand(
        engine, askers, clock, cluster, pool=pool, horizon_s=horizon_s, levels=levels
    )
    return schemas.DemandOut(
        at=to_instant(row, at_s),
        levels=levels,
        pools=[schemas.PoolDemandOut.model_validate(one) for one in answer["pools"]],
        **_rests_on(row, answer),
    )


@router.get("/explanations", tags=["explanations"], summary="Why do jobs wait?")
def explain_waiting(
    cluster: ClusterPath,
    engine: EngineDep,
    clock: ClockDep,
    askers: AskersDep,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> schemas.WaitsOut:
    """The first in line first; as of now, right after the last decision."""
    found = asking.waits(engine, askers, clock, cluster, None)
    return schemas.WaitsOut(
        at=to_instant(found.cluster, found.at_s),
        num_waiting=found.num_waiting,
        decision=None if found.decision is None else found.decision.seq,
        items=[_wait(found.cluster, one) for one in found.jobs[:limit]],
    )


@router.get("/jobs/{job_id}/explanation", tags=["explanations"], summary="Why does this job wait?")
def explain_job(
    cluster: ClusterPath,
    job_id: Annotated[str, Path(min_length=1, max_length=255, description="the job's id")],
    engine: EngineDep,
    clock: ClockDep,
    askers: AskersDep,
) -> schemas.ExplanationOut:
    """The reason that binds, its numbers, what would let it start now, and when it is expected to."""
    job, found = asking.explain_job(engine, askers, clock, cluster, job_id)
    wait = _wait(found.cluster, found.jobs[0]) if found is not None and found.jobs else None
    return schemas.ExplanationOut(
        job_id=job.job_id,
        state=job.state,
        text=_standing(job) if wait is None else wait.text,
        decision=_decision(found),
        wait=wait,
    )


def _fields(cluster: ClusterRow, asked: schemas.AskedJob) -> Mapping[str, Any] | None:
    if asked.job is None:
        return None
    fields = asked.job.model_dump(exclude={"deadline", "spec", "is_requeueable"})
    deadline = asked.job.deadline
    return fields | {"deadline_s": None if deadline is None else to_s(cluster, deadline)}


def _rests_on(cluster: ClusterRow, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "models": answer["models"],
        "as_of": to_instant(cluster, answer["as_of_s"]),
        "jobs_learned_from": answer["jobs_learned_from"],
    }


def _decision(found: Explanations | None) -> int | None:
    return None if found is None or found.decision is None else found.decision.seq


def _standing(job: JobRow) -> str:
    match job.state:
        case "running" if job.own_from_s is None:
            return "it runs on GPUs lent to it; it becomes its pool's own when its turn comes"
        case "running":
            return "it runs as its pool's own"
        case "waiting":
            return "it starts with the next decision, or has only just been submitted"
        case _:
            return f"it is over: {job.end_state or job.state}"


def _wait(cluster: ClusterRow, one: Mapping[str, Any]) -> schemas.WaitOut:
    instants = {
        name: None if one[f"{name}_s"] is None else to_instant(cluster, one[f"{name}_s"])
        for name in ("earliest", "latest")
    }
    return schemas.WaitOut(
        job_id=one["job_id"],
        pool=one["pool"],
        num_gpus=one["num_gpus"],
        submitted_at=to_instant(cluster, one["submit_s"]),
        why=one["why"],
        text=one["text"],
        evidence=one["evidence"],
        changes=[schemas.ChangeOut(**change) for change in one["changes"]],
        earliest_at=instants["earliest"],
        latest_at=instants["latest"],
    )
