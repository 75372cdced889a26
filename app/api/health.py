"""For supervisors and load balancers; no key is needed."""

from fastapi import APIRouter, Request

from app.api.deps import EngineDep
from app.errors import NotReady
from app.schemas.health import Health, Readiness
from app.store.health import schema_version
from app.store.migrations import HEAD

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the service answers")
def healthz(request: Request) -> Health:
    """It touches nothing but the process itself."""
    return Health(status="ok", version=request.app.version)


@router.get("/readyz", summary="Whether the service can work")
def readyz(engine: EngineDep) -> Readiness:
    """The database answers and has the tables of this version; 503 otherwise."""
    found = schema_version(engine)
    if found != HEAD:
        raise NotReady(
            f"the database has tables of version {found or 'none'}, {HEAD} is needed: run `antecast migrate`"
        )
    return Readiness(status="ready", database=engine.dialect.name, schema_version=found)
