"""Trainings and backtests: long work on a cluster's past."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Response

from app.api.auth import PlannerDep
from app.api.clusters import ClusterPath
from app.api.deps import EngineDep, RunsDep
from app.api.runs import location, run_out
from app.schemas.runs import RunOut
from app.schemas.trainings import BacktestIn, TrainingIn
from app.services import backtests, trainings
from app.store.tables import RunRow

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["runs"])

_LOOK_AGAIN_S: Final = 5


@router.post("/trainings", status_code=HTTPStatus.ACCEPTED, summary="Train and try the forecasts")
def ask_for_training(
    cluster: ClusterPath,
    body: TrainingIn,
    caller: PlannerDep,
    response: Response,
    engine: EngineDep,
    runs: RunsDep,
) -> RunOut:
    """The run's result has the scores on the held-out days; the models are kept for processes that decide."""
    run = trainings.ask(
        engine,
        runs,
        cluster,
        holdout_days=body.holdout_days,
        begins_epoch=body.begins_epoch,
        requested_by=caller.name,
    )
    return _accepted(response, run)


@router.post("/backtests", status_code=HTTPStatus.ACCEPTED, summary="Replay the past under several policies")
def ask_for_backtest(
    cluster: ClusterPath,
    body: BacktestIn,
    caller: PlannerDep,
    response: Response,
    engine: EngineDep,
    runs: RunsDep,
) -> RunOut:
    """The run's result has a row of figures for each policy. One that is cancelled keeps those it has."""
    candidates = [backtests.Candidate(one.policy, dict(one.settings)) for one in body.policies]
    run = backtests.ask(engine, runs, cluster, candidates, days=body.days, requested_by=caller.name)
    return _accepted(response, run)


def _accepted(response: Response, run: RunRow) -> RunOut:
    response.headers["Location"] = location(run)
    response.headers["Retry-After"] = str(_LOOK_AGAIN_S)
    return run_out(run)
