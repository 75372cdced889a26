"""Metrics for Prometheus."""

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from app.api.auth import require
from app.api.deps import EngineDep

router = APIRouter(tags=["health"])

_EXAMPLE = 'antecast_gpus{cluster="research",pool="vision",use="own"} 24.0\n'


@router.get(
    "/metrics",
    summary="Metrics in Prometheus's text format",
    dependencies=[Depends(require("read"))],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}}}},
)
def get_metrics(request: Request, engine: EngineDep) -> Response:
    """What this process counts, and what was read from the database at most `metrics_every_s` ago.

    It is answered while the database is away too: `antecast_database_up` is 0 then.
    """
    state = request.app.state
    state.gatherer.refresh(engine)
    read = CollectorRegistry()
    read.register(state.gatherer)
    text = generate_latest(state.metrics.registry) + generate_latest(read)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
