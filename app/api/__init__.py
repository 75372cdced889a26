"""HTTP: routes, authentication, problems. The only package of the service that knows it."""

from typing import Final

from fastapi import APIRouter

from app.api import clusters, executors, fairness, health, history, keys, live, modes, plans, runs, what_ifs

ROUTERS: Final[tuple[APIRouter, ...]] = (
    clusters.router,
    executors.router,
    fairness.router,
    health.router,
    history.router,
    keys.router,
    live.router,
    modes.router,
    plans.router,
    runs.router,
    what_ifs.router,
)
"""All routes. One line per noun."""
