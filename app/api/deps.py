"""What routes ask for: the engine, the clock, the settings, the runs.

Coroutines, though they wait for nothing: FastAPI sends every plain function to a thread and back.
"""

from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine

from app.api.limiter import FailureLimiter
from app.clock import Clock
from app.services.durable import Runs
from app.settings import ServiceSettings


async def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


async def _clock(request: Request) -> Clock:
    clock: Clock = request.app.state.clock
    return clock


async def _settings(request: Request) -> ServiceSettings:
    settings: ServiceSettings = request.app.state.settings
    return settings


async def _runs(request: Request) -> Runs:
    runs: Runs = request.app.state.runs
    return runs


async def _limiter(request: Request) -> FailureLimiter:
    limiter: FailureLimiter = request.app.state.limiter
    return limiter


EngineDep = Annotated[Engine, Depends(_engine)]
ClockDep = Annotated[Clock, Depends(_clock)]
SettingsDep = Annotated[ServiceSettings, Depends(_settings)]
RunsDep = Annotated[Runs, Depends(_runs)]
LimiterDep = Annotated[FailureLimiter, Depends(_limiter)]
"""Counts failed authentications of each peer."""


def peer_of(request: Request) -> str:
    """Address of the other end; empty on a Unix socket."""
    return request.client.host if request.client else ""
