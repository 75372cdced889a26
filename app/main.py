"""The service. Construction is inert; `antecast serve` runs it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from app.api import ROUTERS, problems
from app.api.limiter import FailureLimiter
from app.api.limits import BodyLimit, RequestLimits
from app.api.observed import Observed
from app.api.openapi import described
from app.api.rates import RateLimits
from app.clock import Clock, make_clock
from app.metrics import SOURCES
from app.metrics.gathering import Gatherer
from app.metrics.process import ProcessMetrics
from app.services.advising import Advisers
from app.services.deciding import Deciders
from app.services.durable import Runs
from app.services.key_use import KeyUse
from app.services.run_feed import RunFeed
from app.settings import ServiceSettings
from app.store.engine import make_engine

_ABOUT: Final = (
    "Lend idle GPUs between pools safely. Instants are RFC 3339 in UTC; every error is "
    "`application/problem+json` (RFC 9457)."
)


def create_app(
    settings: ServiceSettings | None = None, *, clock: Clock | None = None, runs: Runs | None = None
) -> FastAPI:
    """Make the application; nothing is opened before it starts.

    Args:
        settings: from the environment where None.
        clock: as the settings say where None.
        runs: the queue of durable work; that of the database where None.
    """
    settings = settings or ServiceSettings()
    app = FastAPI(
        title="Antecast",
        version=version("antecast"),
        summary=_ABOUT,
        lifespan=_opened(settings, runs),
        responses=problems.RESPONSES,
    )
    app.state.settings = settings
    app.state.clock = clock or make_clock(settings.clock_speed, settings.clock_origin)
    app.state.limiter = FailureLimiter(settings.max_failed_logins, app.state.clock)
    app.state.rates = RateLimits(settings)
    app.state.metrics = ProcessMetrics()
    app.state.gatherer = Gatherer(SOURCES, every_s=settings.metrics_every_s, clock=app.state.clock)
    app.state.key_use = KeyUse(app.state.clock)
    app.add_middleware(
        RequestLimits,
        body=BodyLimit(settings.max_body_kib * 1024, settings.body_limit_s),
        upload=BodyLimit(settings.max_upload_mib * 1024**2, settings.upload_limit_s),
    )
    app.add_middleware(Observed, metrics=app.state.metrics)  # the outermost
    problems.install(app, ROUTERS)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = described(app)  # type: ignore[method-assign]  # FastAPI's documented way
    return app


def _opened(settings: ServiceSettings, runs: Runs | None) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.engine = make_engine(settings.database_url, wait_s=settings.database_wait_s)
        app.state.run_feed = RunFeed(app.state.engine)
        app.state.runs = runs or _queue(settings, app)
        app.state.deciders = Deciders(
            settings.database_url, wait_s=settings.decide_limit_s, limit_s=settings.plan_limit_s
        )
        app.state.advisers = Advisers(
            settings.database_url, wait_s=settings.decide_limit_s, limit_s=settings.import_limit_s
        )
        app.state.key_use.begin(app.state.engine)
        try:
            yield
        finally:
            await app.state.run_feed.close()
            await run_in_threadpool(app.state.deciders.close)
            await run_in_threadpool(app.state.advisers.close)
            await run_in_threadpool(app.state.gatherer.close)
            await run_in_threadpool(app.state.key_use.close)
            app.state.engine.dispose()

    return lifespan


def _queue(settings: ServiceSettings, app: FastAPI) -> Runs:
    from app.runs.client import RunClient  # noqa: PLC0415 - durable work is slow to load

    return RunClient(settings, engine=app.state.engine, clock=app.state.clock)
