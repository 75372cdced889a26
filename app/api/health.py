"""For supervisors and load balancers; no key is needed."""

from fastapi import APIRouter, Request

from app.api.deps import EngineDep
from app.errors import NotReady
from app.schemas.health import Health, Readiness
from app.services.readiness import look

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the service answers")
def healthz(request: Request) -> Health:
    """It touches nothing but the process itself."""
    return Health(status="ok", version=request.app.version)


@router.get("/readyz", summary="Whether the service can work")
def readyz(engine: EngineDep) -> Readiness:
    """503 while the database does not answer or lacks the tables of this version; `missing` says what.

    Without a live worker it is ready all the same, as decisions need none; `missing` has `workers` then, and
    nothing that a run does happens.
    """
    found = look(engine)
    if not found.is_ready:
        raise NotReady(f"missing: {', '.join(found.missing)}: {found.what_to_do}")
    return Readiness(
        status="degraded" if found.missing else "ready",
        database=engine.dialect.name,
        schema_version=found.schema_version or "",
        num_workers=found.num_workers,
        missing=list(found.missing),
    )
