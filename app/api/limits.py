"""What every request has to respect before anything reads it, and headers that every answer carries."""

import asyncio
import re
import time
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How large a body may be, and how long its sender may take for it.

    Attributes:
        num_bytes: at most.
        seconds: from the request's headers to the end of its body.
    """

    num_bytes: int
    seconds: float


class RequestLimits:
    """Pure ASGI middleware: bounds bodies in size and time, refuses NUL in addresses.

    A body that says it is too long is refused unread; one that does not say is cut off where it gets so. One
    that does not arrive in time is answered 408, and the connection is closed.
    """

    def __init__(self, app: ASGIApp, body: BodyLimit, upload: BodyLimit) -> None:
        self._app = app
        self._body = body
        self._upload = upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            refusal = problem(
                HTTPStatus.UNPROCESSABLE_ENTITY, "not-valid", "an address must not contain the NUL character"
            )
            await refusal(scope, receive, send)
            return
        is_upload = scope["method"] == "POST" and _UPLOAD.fullmatch(scope["path"]) is not None
        limit = self._upload if is_upload else self._body
        told = Headers(scope=scope).get("content-length", "")
        if told.isdecimal() and int(told[:20]) > limit.num_bytes:
            refusal = problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", _too_large(limit))
            await refusal(scope, receive, send)
            return
        await self._app(scope, _limited(receive, limit), send)


def with_headers(send: Send) -> Send:
    """The headers that every answer carries, where it does not say otherwise."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers


def _limited(receive: Receive, limit: BodyLimit) -> Receive:
    """`receive` until the body has ended; what comes after it (the client goes away) has no limit."""
    ends_s = time.monotonic() + limit.seconds
    seen = 0
    is_complete = False

    async def receive_limited() -> Message:
        nonlocal seen, is_complete
        if is_complete:
            return await receive()
        try:
            async with asyncio.timeout(max(ends_s - time.monotonic(), 0.0)):
                message = await receive()
        except TimeoutError:
            is_complete = True  # nobody waits for the rest a second time
            raise HTTPException(
                HTTPStatus.REQUEST_TIMEOUT,
                f"the body did not arrive within {limit.seconds:g} s",
                headers={"Connection": "close"},
            ) from None
        seen += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if seen > limit.num_bytes:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(limit))
        return message

    return receive_limited


def _too_large(limit: BodyLimit) -> str:
    return f"the body is too large, at most {limit.num_bytes // 1024} KiB are accepted here"
