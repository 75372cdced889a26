"""Every error as `application/problem+json`, whoever raises it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app import errors
from app.schemas.problems import Broken, FaultOut, Problem
from domain.errors import AntecastError, InputError, SettingError

MEDIA_TYPE: Final = "application/problem+json"
MAX_LISTED: Final = 100
"""Most broken rules that one answer lists."""

_STATUS: Final[Mapping[type[AntecastError], HTTPStatus]] = {
    errors.UnknownResource: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.VersionMissing: HTTPStatus.PRECONDITION_REQUIRED,
    errors.VersionClash: HTTPStatus.PRECONDITION_FAILED,
    errors.Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.NotAuthenticated: HTTPStatus.UNAUTHORIZED,
    errors.NotAllowed: HTTPStatus.FORBIDDEN,
    errors.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    errors.NotReady: HTTPStatus.SERVICE_UNAVAILABLE,
    SettingError: HTTPStatus.UNPROCESSABLE_ENTITY,
    InputError: HTTPStatus.UNPROCESSABLE_ENTITY,
}

_HTTP_SLUGS: Final = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too-large"}
_RETRY_AFTER_S: Final = "5"
_LONGEST_PATH: Final = 200

_log = structlog.get_logger(__name__)

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    code: {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for code, text in (
        ("422", "The request breaks a rule"),
        ("4XX", "The request cannot be served"),
        ("5XX", "The service cannot serve it now"),
    )
}
"""For routers: how errors look."""


def problem(
    status: int,
    slug: str,
    detail: str,
    *,
    title: str | None = None,
    headers: Mapping[str, str] | None = None,
    broken: Sequence[Broken] | None = None,
    faults: Sequence[FaultOut] | None = None,
) -> JSONResponse:
    """An answer that says what went wrong.

    Args:
        status: of HTTP.
        slug: names the kind of problem, for programs.
        detail: what is wrong with this request, for people.
        title: the kind of problem, for people; made of the slug where None.
        headers: more headers.
        broken: rules that the request breaks.
        faults: what is wrong in a file.
    """
    body = Problem(
        type=f"/problems/{slug}",
        title=title or slug.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        errors=None if broken is None else list(broken),
        faults=None if faults is None else list(faults),
        request_id=structlog.contextvars.get_contextvars().get("request_id"),
    )
    return JSONResponse(
        body.model_dump(exclude_none=True), status, headers=dict(headers or {}), media_type=MEDIA_TYPE
    )


def install(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Answer every error of this application, which serves these routers, with a problem."""
    app.state.routes = tuple(route for router in routers for route in router.routes)
    app.add_exception_handler(AntecastError, _ours)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(DBAPIError, _of_database)
    app.add_exception_handler(PoolTimeoutError, _of_database)


def status_of(error: AntecastError) -> HTTPStatus:
    """The status of an error of ours: that of the nearest class that has one."""
    found = (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def _ours(request: Request, error: Exception) -> JSONResponse:
    del request
    if not isinstance(error, AntecastError):
        raise error
    status = status_of(error)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("request failed", exc_info=error)
        return unexpected()
    headers = {}
    if isinstance(error, errors.NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.NotReady):
        headers["Retry-After"] = _RETRY_AFTER_S
    if isinstance(error, errors.TooManyRequests):
        headers["Retry-After"] = str(error.retry_after_s)
    faults = None
    if isinstance(error, InputError):
        faults = [
            FaultOut(line=fault.line, rule=fault.rule, message=fault.message)
            for fault in error.faults[:MAX_LISTED]
        ]
    return problem(status, _slug(type(error)), str(error), headers=headers, faults=faults)


def _slug(kind: type[AntecastError]) -> str:
    """`UnknownCluster` -> `unknown-cluster`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def _not_valid(request: Request, error: Exception) -> JSONResponse:
    del request
    if not isinstance(error, RequestValidationError):
        raise error
    found = error.errors()
    if found and found[0]["type"] == "json_invalid":
        return problem(
            HTTPStatus.BAD_REQUEST, "not-json", f"the body is not JSON: {found[0]['ctx']['error']}"
        )
    listed = [Broken(where=_path(one["loc"]), message=str(one["msg"])) for one in found[:MAX_LISTED]]
    first = listed[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "not-valid", f"{first.where}: {first.message}{more}", broken=listed
    )


def _path(parts: Sequence[int | str]) -> str:
    """The place in the request; names in it are the sender's, so they are cut and made printable."""
    text = ".".join(map(str, parts)).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}..."


def _of_http(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    detail = str(error.detail)
    if detail == status.phrase:
        detail = f"{request.method} {_path([request.url.path])}: {status.description or status.phrase}"
    slug = _HTTP_SLUGS.get(status) or status.phrase.lower().replace(" ", "-")
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_at(request))
    return problem(status, slug, detail, headers=headers)


def _methods_at(request: Request) -> list[str]:
    """What the path can be asked for with; the router would name those of its first route alone."""
    found: set[str] = set()
    for route in request.app.state.routes:
        matched, _ = route.matches(request.scope)
        if matched is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found)


def _of_database(request: Request, error: Exception) -> JSONResponse:
    """Away is whatever a connection that works would not have said; the rest is a fault of ours.

    Every transaction is whole or not at all, so asking again is safe.
    """
    is_broken = isinstance(error, DBAPIError) and error.connection_invalidated
    if not isinstance(error, (OperationalError, InterfaceError, PoolTimeoutError)) and not is_broken:
        raise error
    request.app.state.metrics.database_failed("away")
    _log.warning("the database is away", error=str(getattr(error, "orig", None) or error))
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "database-away",
        "the database does not answer in time; nothing was changed, try again",
        headers={"Retry-After": _RETRY_AFTER_S},
    )


def unexpected() -> JSONResponse:
    """The answer to what nobody foresaw. What went wrong is in the log, and no business of the caller's."""
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        "something went wrong here; the log of the service has it under this request's id",
    )
