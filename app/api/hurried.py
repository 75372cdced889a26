"""Connections whose client does not get to the point: closed, so that they cannot use up all descriptors."""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def hurried(head_limit_s: float) -> type[H11Protocol]:
    """The server's protocol of HTTP/1.1 with a limit for a request's headers, which it has none for.

    Args:
        head_limit_s: from connecting, or from the first byte of a further request, until its headers end;
            then the answer is 408 and the connection is closed. Between requests that of the server holds.
    """

    class Hurried(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait_for_head()

        def data_received(self, data: bytes) -> None:
            if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
                self._wait_for_head()
            before: Any = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _wait_for_head(self) -> None:
            self._head_timer = self.loop.call_later(head_limit_s, self._give_up)

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _give_up(self) -> None:
            self._head_timer = None
            status = HTTPStatus.REQUEST_TIMEOUT
            head = [
                f"HTTP/1.1 {status.value} {status.phrase}",
                "connection: close",
                "content-length: 0",
                "",
                "",
            ]
            self.transport.write("\r\n".join(head).encode("ascii"))
            self.transport.close()

    return Hurried
