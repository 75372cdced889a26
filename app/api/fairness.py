"""Who uses whose quota."""

from fastapi import APIRouter, Depends

from app.api.auth import require
from app.api.deps import ClockDep, EngineDep
from app.schemas.base import ClusterName
from app.schemas.fairness import FairnessOut
from app.services import fairness

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["fairness"])


@router.get(
    "/fairness", summary="Who is over quota, borrowing, starved", dependencies=[Depends(require("read"))]
)
def get_fairness(cluster: ClusterName, engine: EngineDep, clock: ClockDep) -> FairnessOut:
    """Each pool as the log has it now, and what of its quota it could have back at once."""
    return FairnessOut.model_validate(fairness.fairness(engine, cluster, clock))
