"""Who asks, and whether they may."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.api.deps import ClockDep, EngineDep, LimiterDep, SettingsDep, peer_of
from app.api.limiter import FailureLimiter
from app.errors import NotAllowed, NotAuthenticated, TooManyRequests
from app.services import keys
from app.services.keys import Caller, Scope
from app.settings import AuthMode, is_loopback

__all__ = [
    "AdminDep",
    "ApplierDep",
    "Caller",
    "CallerDep",
    "PlannerDep",
    "ReaderDep",
    "Scope",
    "count_failure",
    "require",
]

_BEARER: Final = HTTPBearer(auto_error=False, description="An API key: `ak_...`")
LOCAL: Final = Caller("local", frozenset(Scope))
"""Everyone on this machine, where authentication is off."""

BearerDep = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


def _caller(
    request: Request,
    engine: EngineDep,
    settings: SettingsDep,
    limiter: LimiterDep,
    clock: ClockDep,
    bearer: BearerDep,
) -> Caller:
    if settings.auth is AuthMode.OFF:
        _require_local(request)
        request.state.caller = LOCAL.name
        return LOCAL
    if bearer is None:
        raise NotAuthenticated("an API key is needed: Authorization: Bearer ak_...")
    caller = keys.find(engine, bearer.credentials, clock)
    if caller is None:
        count_failure(request, limiter)
        raise NotAuthenticated("the API key is unknown, revoked or has expired")
    state = request.app.state
    request.state.caller = caller.name
    state.key_use.note(caller.key_id)
    state.rates.require(caller.key_id, is_heavy=_is_heavy(request), refused=state.metrics.refused)
    return caller


def count_failure(request: Request, limiter: FailureLimiter) -> None:
    """Somebody has failed to authenticate.

    Raises:
        TooManyRequests: if their address has failed too often.
    """
    try:
        limiter.failed(peer_of(request))
    except TooManyRequests:
        request.app.state.metrics.refused("login")
        raise


def _is_heavy(request: Request) -> bool:
    """Whether a run is asked for: what answers 202 is work for a worker, or for a solver."""
    return getattr(request.scope.get("route"), "status_code", None) == HTTPStatus.ACCEPTED


CallerDep = Annotated[Caller, Depends(_caller)]


def require(scope: str) -> Callable[..., Awaitable[Caller]]:
    """A dependency that lets through who has the scope, and says who that is."""
    needed = Scope(scope)

    async def check(caller: CallerDep) -> Caller:
        if not caller.may(needed):
            raise NotAllowed(
                f"this needs the scope {needed.value!r}, the key has: {', '.join(sorted(caller.scopes))}"
            )
        return caller

    return check


ReaderDep = Annotated[Caller, Depends(require("read"))]
PlannerDep = Annotated[Caller, Depends(require("plan"))]
ApplierDep = Annotated[Caller, Depends(require("apply"))]
AdminDep = Annotated[Caller, Depends(require("admin"))]


def _require_local(request: Request) -> None:
    """Without keys only this machine may ask, and no web page that was loaded from elsewhere."""
    origin = request.headers.get("origin")
    hosts = [peer_of(request), request.url.hostname or ""]
    if origin is not None:
        hosts.append(_host_of(origin))
    if not all(map(is_loopback, hosts)):
        raise NotAllowed("without API keys (auth off) only this machine itself is served")


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""
