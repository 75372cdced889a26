"""What every request leaves behind: an id, a line in the log, counts and times, an answer if it breaks."""

import re
import time
import uuid
from typing import Any, Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.limits import with_headers
from app.api.problems import unexpected
from app.metrics.process import ProcessMetrics

REQUEST_ID: Final = "X-Request-Id"
_VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST_PATH: Final = 300
_QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked all day by machines; their lines come only where everything is logged."""

_log = structlog.get_logger("access")


class Observed:
    """Pure ASGI middleware around all others.

    An id that the client gives is taken over if it is 1 to 64 letters, digits and any of `. _ -`, and is made
    otherwise; the answer, problems and all lines of the log bear it.
    """

    def __init__(self, app: ASGIApp, metrics: ProcessMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = _Seen(_id_of(Headers(scope=scope)))
        scope.setdefault("state", {})
        self._metrics.in_flight.inc()
        try:
            with structlog.contextvars.bound_contextvars(request_id=seen.request_id):
                await self._serve(scope, receive, with_headers(seen.watching(send)), seen)
        finally:
            self._metrics.in_flight.dec()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, seen: "_Seen") -> None:
        began_s = time.perf_counter()
        try:
            await self._app(scope, receive, send)
        except Exception:
            _log.exception("request failed", method=scope["method"], path=_path_of(scope))
            if seen.status is not None:
                raise  # half an answer is out: the server closes the connection
            await unexpected()(scope, receive, send)
        finally:
            took_s = time.perf_counter() - began_s
            route = route_of(scope)
            self._metrics.answered(scope["method"], route, seen.status, took_s)
            _tell(scope, seen, route, took_s)


class _Seen:
    """What is known of one request's answer so far; no status: nothing was answered, the client is gone."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self.num_bytes = 0

    def watching(self, send: Send) -> Send:
        async def send_watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = int(message["status"])
                MutableHeaders(scope=message)[REQUEST_ID] = self.request_id
            else:
                self.num_bytes += len(message.get("body", b""))
            await send(message)

        return send_watched


def route_of(scope: Scope) -> str:
    """The template of the route that served a request; `unknown` where none did, whatever was asked for."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "unknown"


def _id_of(headers: Headers) -> str:
    told = headers.get(REQUEST_ID, "")
    return told if _VALID_ID.fullmatch(told) else uuid.uuid4().hex


def _path_of(scope: Scope) -> str:
    path: str = scope["path"]
    return path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}..."


def _tell(scope: Scope, seen: _Seen, route: str, took_s: float) -> None:
    client = scope.get("client")
    said: dict[str, Any] = {
        "method": scope["method"],
        "path": _path_of(scope),
        "route": route,
        "status": seen.status,
        "took_ms": round(took_s * 1e3, 3),
        "num_bytes": seen.num_bytes,
        "peer": client[0] if client else "",
        "caller": scope["state"].get("caller", ""),
    }
    if seen.status is not None and seen.status >= 500:
        _log.warning("request", **said)
    elif route in _QUIET:
        _log.debug("request", **said)
    else:
        _log.info("request", **said)
