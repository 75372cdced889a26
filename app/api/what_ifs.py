"""What-ifs: the recent past with other quotas."""

from http import HTTPStatus

from fastapi import APIRouter, Response

from app.api.auth import PlannerDep
from app.api.clusters import ClusterPath
from app.api.deps import EngineDep, RunsDep
from app.api.runs import location, run_out
from app.schemas.runs import RunOut
from app.schemas.what_ifs import WhatIfIn
from app.services import what_if

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["what-ifs"])


@router.post("/what-ifs", status_code=HTTPStatus.ACCEPTED, summary="Ask what other quotas would have done")
def ask_what_if(
    cluster: ClusterPath,
    body: WhatIfIn,
    caller: PlannerDep,
    response: Response,
    engine: EngineDep,
    runs: RunsDep,
) -> RunOut:
    """A run replays the last days twice, as the cluster is and changed; its result compares the two.

    GPUs that belong to no pool take part in neither. Jobs wider than their pool's quota in either world are
    left out of both and counted. Nothing in the cluster changes.
    """
    run = what_if.ask(engine, runs, cluster, what_if.Question(**dict(body)), caller.name)
    response.headers["Location"] = location(run)
    return run_out(run)
