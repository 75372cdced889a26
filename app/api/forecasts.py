"""Forecasts: how long jobs live, and what pools will ask for."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from app.api.auth import require
from app.api.clusters import ClusterPath
from app.api.deps import ClockDep, EngineDep
from app.schemas import forecasts as schemas
from app.services import forecasts
from app.services.advising import Advisers
from app.services.forecast_words import score_of
from app.services.times import to_instant, to_s
from app.store.tables import ClusterRow

router = APIRouter(
    prefix="/v1/clusters/{cluster}/forecasts", tags=["forecasts"], dependencies=[Depends(require("read"))]
)


async def _advisers(request: Request) -> Advisers:
    advisers: Advisers = request.app.state.advisers
    return advisers


AdvisersDep = Annotated[Advisers, Depends(_advisers)]


@router.post("/lifetime", summary="How long jobs run, and when they will have ended")
def forecast_lifetimes(
    cluster: ClusterPath,
    body: schemas.LifetimesIn,
    engine: EngineDep,
    advisers: AdvisersDep,
    clock: ClockDep,
) -> schemas.LifetimesOut:
    """Quantiles of the whole and of the remaining life of each job, given how long it has run.

    Quantiles never cross, and the whole life does not fall as a job grows older. The answer says which
    model and which history it rests on, and whether that beats a plain baseline on jobs it had not seen.
    Nothing is recorded.
    """

    def request(row: ClusterRow, now_s: float) -> dict[str, Any]:
        ends_s = [to_s(row, instant) - now_s for instant in body.ends_by]
        return {
            "asked": "lifetimes",
            "now_s": now_s,
            "levels": body.levels,
            "within_s": [*body.within_s, *ends_s],
            "jobs": [one.model_dump() for one in body.jobs],
        }

    said = forecasts.ask(engine, advisers, clock, cluster, request)
    row, answer = said.cluster, said.answer
    at = to_instant(row, answer["now_s"])
    return schemas.LifetimesOut(
        at=at,
        levels=body.levels,
        ends_by=[*(at + timedelta(seconds=within_s) for within_s in body.within_s), *body.ends_by],
        items=[schemas.LifetimeOut(**one) for one in answer["items"]],
        rests_on=_rests_on(row, answer["rests_on"]),
        held_out=_score(row, answer["held_out"], "lifetime"),
    )


@router.get("/demand", summary="What pools will ask for, step by step")
def forecast_demand(
    cluster: ClusterPath,
    query: Annotated[schemas.DemandIn, Query()],
    engine: EngineDep,
    advisers: AdvisersDep,
    clock: ClockDep,
) -> schemas.DemandOut:
    """Quantiles and means of the peak GPUs and of the arrivals of each pool in each step from now on.

    A peak counts the jobs that arrive from now on, each started on arrival. The answer says whether such
    forecasts beat the same hours of the week before on days they had not seen.
    """

    def request(_row: ClusterRow, now_s: float) -> dict[str, Any]:
        return {"asked": "demand", "now_s": now_s, "pools": query.pool, **query.model_dump(exclude={"pool"})}

    said = forecasts.ask(engine, advisers, clock, cluster, request)
    row, answer = said.cluster, said.answer
    at = to_instant(row, answer["now_s"])
    return schemas.DemandOut(
        at=at,
        step_s=query.step_s,
        levels=query.levels,
        samples=answer["samples"],
        pools=[_pool(at, one) for one in answer["pools"]],
        rests_on=_rests_on(row, answer["rests_on"]),
        held_out_peak_gpus=_score(row, answer["held_out"], "peak_gpus"),
        held_out_arrivals=_score(row, answer["held_out"], "arrivals"),
    )


def _pool(at: datetime, said: Mapping[str, Any]) -> schemas.PoolDemandOut:
    steps = [
        schemas.StepOut(
            begins=at + timedelta(seconds=step["begins_s"]),
            **{name: value for name, value in step.items() if name != "begins_s"},
        )
        for step in said["steps"]
    ]
    return schemas.PoolDemandOut(pool=said["pool"], quota_gpus=said["quota_gpus"], steps=steps)


def _rests_on(cluster: ClusterRow, said: Mapping[str, Any]) -> schemas.RestsOnOut:
    return schemas.RestsOnOut(
        trained_as_of=to_instant(cluster, said["trained_as_of_s"]),
        **{name: value for name, value in said.items() if name != "trained_as_of_s"},
    )


def _score(cluster: ClusterRow, held_out: Mapping[str, Any], what: str) -> schemas.ScoreOut:
    """What is known of such forecasts, and a sentence about it."""
    said = score_of(held_out, what)
    if said["score"] is None:
        return schemas.ScoreOut(**said)
    found = dict(said["score"])
    since, until = (to_instant(cluster, found.pop(name)) for name in ("from_s", "until_s"))
    score = schemas.HeldOutOut(since=since, until=until, **found)
    return schemas.ScoreOut(state=said["state"], score=score, note=said["note"])
