"""The control plane over HTTP, from the standard library: one request, one connection, one time limit."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = (1 << 20) + 1


class ControlPlaneError(Exception):
    """The control plane did not do what it was asked to."""


class Unreachable(ControlPlaneError):  # noqa: N818 - it is a state of the network
    """No answer: refused, cut off, too late, or not HTTP."""


class Problem(ControlPlaneError):  # noqa: N818 - the name of the media type
    """An answer that says no (application/problem+json)."""

    def __init__(self, status: int, type_: str, title: str, detail: str) -> None:
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        self.status = status
        self.type = type_


class StaleSession(Problem):
    """Another session has been opened since."""


class Unauthorised(Problem):
    """The secret is not, or no longer, good."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who this executor is."""

    executor_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Credentials({self.executor_id!r}, ***)"


@dataclass(frozen=True, slots=True)
class Session:
    """What the control plane answered to a new session."""

    number: int
    lease_s: float
    poll_wait_s: float
    status_every_s: float


class Client:
    """Calls of the executor protocol. Safe to be used from several threads."""

    def __init__(self, url: str, *, ca_file: Path | None = None) -> None:
        self._parts = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_file) if self._parts.scheme == "https" else None
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self._is_closed = False

    def enroll(self, token: str, *, node: str, version: str) -> Credentials:
        """Become an executor of the control plane, once, with a join token."""
        body = {"token": token, "node": node, "version": version}
        answer = _object(self._call("POST", "/v1/executors/enroll", body))
        try:
            return Credentials(str(answer["executor_id"]), str(answer["secret"]))
        except KeyError as error:
            raise Unreachable(f"enroll: no {error} in the answer") from error

    def open_session(self, who: Credentials, body: Mapping[str, Any]) -> Session:
        """Open a session; older ones of this executor are stale from now on."""
        answer = _object(self._call("POST", _path(who, "sessions"), body, who))
        try:
            return Session(
                int(answer["session"]),
                max(1.0, float(answer["lease_s"])),
                min(300.0, max(0.0, float(answer["poll_wait_s"]))),
                min(3600.0, max(0.1, float(answer["status_every_s"]))),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable(f"sessions: {error!r} in the answer") from error

    def desired(self, who: Credentials, session: int, *, after: int, wait_s: float) -> bytes | None:
        """The document that is newer than `after`; None if there is none within `wait_s`."""
        query = urlencode({"session": session, "after": after, "wait_s": f"{wait_s:g}"})
        return self._call("GET", f"{_path(who, 'desired')}?{query}", None, who, TIMEOUT_S + wait_s)

    def status(self, who: Credentials, body: Mapping[str, Any]) -> None:
        """Say how things stand."""
        self._call("POST", _path(who, "status"), body, who)

    def events(self, who: Credentials, body: Mapping[str, Any]) -> None:
        """Say what has happened."""
        self._call("POST", _path(who, "events"), body, who)

    def close(self) -> None:
        """Cut what is under way, and refuse what comes."""
        with self._lock:
            self._is_closed = True
            for connection in self._open:
                if connection.sock is not None:
                    _shut(connection.sock)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        who: Credentials | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> bytes | None:
        headers = {"Accept": "application/json", "Connection": "close"}
        if who is not None:
            headers["Authorization"] = f"Bearer {who.secret}"
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, separators=(",", ":")).encode()
        connection = self._connection(timeout_s)
        try:
            connection.connect()
            with self._lock:
                if self._is_closed:
                    raise Unreachable("closed")
                self._open.add(connection)
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            return _answer(response.status, response.reason, response.read(MAX_ANSWER_BYTES))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{method} {path.partition('?')[0]}: {error or type(error).__name__}"
            ) from error
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host = self._parts.hostname or ""
        if self._tls is None:
            return http.client.HTTPConnection(host, self._parts.port, timeout=timeout_s)
        return http.client.HTTPSConnection(host, self._parts.port, timeout=timeout_s, context=self._tls)


def _path(who: Credentials, last: str) -> str:
    return f"/v1/executors/{quote(who.executor_id, safe='')}/{last}"


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # cut off already


def _answer(status: int, reason: str, data: bytes) -> bytes | None:
    if status == http.client.NO_CONTENT:
        return None
    if status in {http.client.OK, http.client.CREATED}:
        return data
    raise _problem(status, reason, data)


def _problem(status: int, reason: str, data: bytes) -> Problem:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = {}
    fields = body if isinstance(body, dict) else {}
    texts = [str(fields.get(name, default))[:500] for name, default in (("title", reason), ("detail", ""))]
    type_ = str(fields.get("type", "about:blank"))
    if status == http.client.CONFLICT and type_.endswith("/stale-session"):
        return StaleSession(status, type_, *texts)
    if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
        return Unauthorised(status, type_, *texts)
    return Problem(status, type_, *texts)


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        body = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"the answer is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Unreachable("the answer is not a JSON object")
    return body
