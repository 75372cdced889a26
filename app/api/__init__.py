"""HTTP: routes, authentication, problems. The only package of the service that knows it."""

from typing import Final

from fastapi import APIRouter

from app.api import (
    clusters,
    executors,
    explanations,
    forecasts,
    health,
    history,
    keys,
    live,
    runs,
    what_ifs,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    clusters.router,
    executors.router,
    explanations.router,
    forecasts.router,
    health.router,
    history.router,
    keys.router,
    live.router,
    runs.router,
    what_ifs.router,
)
"""All routes. One line per noun."""
