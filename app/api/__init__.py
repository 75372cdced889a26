"""HTTP: routes, authentication, problems. The only package of the service that knows it."""

from typing import Final

from fastapi import APIRouter

from app.api import (
    clusters,
    executors,
    explanations,
    fairness,
    forecasts,
    health,
    history,
    keys,
    live,
    metrics,
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
    explanations.router,
    fairness.router,
    forecasts.router,
    health.router,
    history.router,
    keys.router,
    live.router,
    metrics.router,
    modes.router,
    plans.router,
    run_events.router,
    runs.router,
    trainings.router,
    webhooks.router,
    what_ifs.router,
)
"""All routes. One line per noun."""
