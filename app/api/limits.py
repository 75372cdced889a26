"""What every request has to respect before anything reads it, and headers that every answer carries."""

import re
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem

_UPLOAD: Final = re.compile(r"/v1/clusters/[^/]+/history")
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


class RequestLimits:
    """Pure ASGI middleware: bounds bodies, refuses NUL in addresses, adds headers.

    A body that says it is too long is refused unread; one that does not say is cut off where it gets so.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int, max_upload_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            refusal = problem(
                HTTPStatus.UNPROCESSABLE_ENTITY, "not-valid", "an address must not contain the NUL character"
            )
            await refusal(scope, receive, send_with_headers)
            return
        is_upload = scope["method"] == "POST" and _UPLOAD.fullmatch(scope["path"]) is not None
        limit = self._max_upload_bytes if is_upload else self._max_body_bytes
        told = Headers(scope=scope).get("content-length", "")
        if told.isdecimal() and int(told[:20]) > limit:
            refusal = problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", _too_large(limit))
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, _counting(receive, limit), send_with_headers)


def _counting(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(limit))
        return message

    return receive_counted


def _too_large(limit: int) -> str:
    return f"the body is too large, at most {limit // 1024} KiB are accepted here"
