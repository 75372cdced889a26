"""HTTP: routes, authentication, problems. The only package of the service that knows it."""

from typing import Final

from fastapi import APIRouter

from app.api import (
    clusters,
    executors,
    fairness,
    health,
    history,
    keys,
    live,
    modes,
    plans,
    run_events,
    runs,
    trainings,
    webhooks,
    what_ifs,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    clusters.router,
    executors.router,
    fairness.router,
    health.router,
    history.router,
    keys.router,
    live.router,
    run_events.router,
    modes.router,
    plans.router,
    runs.router,
    trainings.router,
    webhooks.router,
    what_ifs.router,
)
"""All routes. One line per noun."""
