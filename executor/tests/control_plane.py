"""A small control plane over real HTTP, for the agent to talk to: the protocol and its misfortunes."""

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

DEADLINE_S = 60.0
TOKEN = "join-me"  # noqa: S105 - of a control plane that lives for one test
SECRET = "s3cret"  # noqa: S105
_HASHED = ("epoch", "generation", "valid_for_s", "plan_id", "placements", "actions")
_PATH = re.compile(r"/v1/executors/(?P<who>[^/]+)/(?P<what>sessions|desired|status|events)")


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """A document with its hash."""
    content = {name: body[name] for name in _HASHED}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**body, "hash": hashlib.sha256(text.encode()).hexdigest()}


def placement(name: str, argv: list[str], gpus: list[str], **more: Any) -> dict[str, Any]:
    """A placement of a document."""
    return {
        "placement_id": name,
        "job_id": f"job-{name}",
        "rank": 0,
        "num_ranks": 1,
        "argv": argv,
        "env": {},
        "gpus": gpus,
        "share_pct": 100.0,
        "memory_mib": None,
        "priority": 0,
        "state": "running",
        "grace_s": 5.0,
        "on_disconnect": "hold",
        "role": "own",
    } | more


class ControlPlane:
    """Serves one executor. Everything it has seen is there to be waited for."""

    def __init__(
        self,
        *,
        token: str = TOKEN,
        status_every_s: float = 0.3,
        poll_wait_s: float = 5.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.token = token
        self._tls = tls
        self.settings = {"lease_s": 10.0, "poll_wait_s": poll_wait_s, "status_every_s": status_every_s}
        self.changed = threading.Condition()
        self.tokens_used: list[dict[str, Any]] = []
        self.sessions: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.deliveries: list[dict[str, Any]] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.document: dict[str, Any] | None = None
        self.cut_after: dict[str, int] = {}
        self.refuse_secret = False
        self._session = 0
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    # Life

    @contextmanager
    def running(self) -> Iterator["ControlPlane"]:
        self.up()
        try:
            yield self
        finally:
            self.down()

    def up(self) -> None:
        """Be there, again at the same address."""
        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self))
        if self._tls is not None:
            # The handshake is the handler's, so that a client that breaks it off stops nobody.
            self._server.socket = self._tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Be gone; who waits is cut off."""
        server, self._server = self._server, None
        if server is not None:
            with self.changed:
                self.changed.notify_all()
            server.shutdown()
            server.server_close()

    @property
    def is_up(self) -> bool:
        return self._server is not None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    # What tests do

    def want(self, *placements: dict[str, Any], epoch: int = 1, **more: Any) -> int:
        """Publish the next generation; its number."""
        with self.changed:
            last = 0 if self.document is None else self.document["generation"]
            body = {
                "epoch": epoch,
                "generation": last + 1,
                "valid_for_s": 600.0,
                "plan_id": None,
                "placements": list(placements),
                "actions": [],
            }
            self.document = sealed(body | more)
            self.changed.notify_all()
            return int(self.document["generation"])

    def publish(self, document: dict[str, Any]) -> None:
        """Publish exactly this."""
        with self.changed:
            self.document = document
            self.changed.notify_all()

    def cut(self, what: str, times: int = 1) -> None:
        """Carry the next calls of this kind out, and cut the connection instead of an answer."""
        with self.changed:
            self.cut_after[what] = times

    def expire_session(self) -> None:
        """Whoever has a session has a stale one."""
        with self.changed:
            self._session += 1
            self.changed.notify_all()

    def wait(self, what: str, is_there: Callable[[], Any]) -> Any:
        """Until something is there; it."""
        deadline = time.monotonic() + DEADLINE_S
        with self.changed:
            while not (found := is_there()):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    seen = json.dumps(
                        {"status": self.statuses[-1:], "events": list(self.events.values())}, indent=1
                    )
                    raise AssertionError(f"{what} did not come within {DEADLINE_S:g} s; {seen}")
                self.changed.wait(left_s)
            return found

    def wait_placement(self, name: str, **fields: Any) -> dict[str, Any]:
        """Until the newest status says this of a placement."""

        def find() -> dict[str, Any] | None:
            for item in self.statuses[-1]["placements"] if self.statuses else []:
                if item["placement_id"] == name and fields.items() <= item.items():
                    return dict(item)
            return None

        return dict(self.wait(f"{name} {fields}", find))

    def wait_condition(self, name: str, primitive: str, state: str) -> dict[str, Any]:
        """Until the newest status says this of a placement's condition."""

        def find() -> dict[str, Any] | None:
            for item in self.statuses[-1]["placements"] if self.statuses else []:
                for found in item["conditions"] if item["placement_id"] == name else []:
                    if (found["primitive"], found["state"]) == (primitive, state):
                        return dict(found)
            return None

        return dict(self.wait(f"{name}: {primitive} {state}", find))

    def wait_generation(self, generation: int, *, accepted: bool = True) -> dict[str, Any]:
        """Until the newest status speaks of this generation."""

        def find() -> dict[str, Any] | None:
            last = self.statuses[-1] if self.statuses else {}
            is_it = last.get("generation") == generation and last.get("accepted") is accepted
            return last if is_it else None

        return dict(self.wait(f"generation {generation}", find))

    def wait_event(self, kind: str, name: str | None = None) -> dict[str, Any]:
        """Until this event has come."""

        def find() -> dict[str, Any] | None:
            for event in self.events.values():
                if event["kind"] == kind and name in (None, event["placement_id"]):
                    return event
            return None

        return dict(self.wait(f"{kind} {name}", find))

    def kinds(self, name: str) -> list[str]:
        """Kinds of the events of a placement, in order."""
        with self.changed:
            return [event["kind"] for event in self.events.values() if event["placement_id"] == name]

    # What the handler calls, under the lock

    def answer(self, method: str, path: str, body: dict[str, Any], secret: str) -> tuple[int, Any]:
        parts = urlsplit(path)
        if (method, parts.path) == ("POST", "/v1/executors/enroll"):
            return self._enroll(body)
        match = _PATH.fullmatch(parts.path)
        if match is None:
            return _problem(404, "not-found")
        return self._of_executor(match["what"], parts.query, body, secret)

    def _of_executor(self, what: str, query_: str, body: dict[str, Any], secret: str) -> tuple[int, Any]:
        if secret != SECRET or self.refuse_secret:
            return _problem(401, "unauthorised")
        query = {name: values[0] for name, values in parse_qs(query_).items()}
        if what == "sessions":
            return self._open(body)
        number = int(query["session"]) if what == "desired" else body["session"]
        if number != self._session:
            return _problem(409, "stale-session")
        calls = {
            "desired": lambda: self._desired(number, int(query["after"]), float(query["wait_s"])),
            "status": lambda: self._status(body),
            "events": lambda: self._events(body),
        }
        return calls[what]()

    def _enroll(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["token"] != self.token or self.tokens_used:
            return _problem(401, "unauthorised")
        self.tokens_used.append(body)
        return 201, {"executor_id": "ex-1", "secret": SECRET}

    def _open(self, body: dict[str, Any]) -> tuple[int, Any]:
        self._session += 1
        self.sessions.append(body)
        return 201, {"session": self._session, **self.settings}

    def _desired(self, session: int, after: int, wait_s: float) -> tuple[int, Any]:
        deadline = time.monotonic() + wait_s
        while self.is_up and session == self._session:
            if self.document is not None and self.document["generation"] > after:
                return 200, self.document
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return 204, None
            self.changed.wait(left_s)
        return _problem(409, "stale-session")

    def _status(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.statuses.append(body)
        return 204, None

    def _events(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.deliveries.append(body)
        new = {item["event_id"]: item for item in body["events"] if item["event_id"] not in self.events}
        self.events |= new
        return 200, {"accepted": len(new), "duplicates": len(body["events"]) - len(new)}


def _problem(status: int, name: str) -> tuple[int, Any]:
    type_ = f"https://antecast.example/problems/{name}"
    return status, {"type": type_, "title": name, "status": status, "detail": "as the test wants it"}


def _handler(plane: ControlPlane) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            body = json.loads(self.rfile.read(length)) if length else {}
            secret = self.headers.get("Authorization", "").removeprefix("Bearer ")
            what = urlsplit(self.path).path.rpartition("/")[2]
            with plane.changed:
                status, answer = plane.answer(self.command, self.path, body, secret)
                cuts = plane.cut_after.get(what, 0)
                plane.cut_after[what] = max(0, cuts - 1)
                is_cut = cuts > 0 or not plane.is_up
                plane.changed.notify_all()
            self.close_connection = True
            if not is_cut:
                self._reply(status, answer)

        do_GET = do_POST = _serve  # noqa: N815 - the base class's names

        def _reply(self, status: int, answer: Any) -> None:
            data = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            kind = "application/problem+json" if status >= 400 else "application/json"
            self.send_header("Content-Type", kind)
            if status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                return  # the agent has gone

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the agent has gone, or does not trust us

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler
