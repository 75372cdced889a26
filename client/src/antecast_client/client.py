"""A service somewhere, over HTTP."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from antecast_client.errors import ProblemError, RunEndedError, UnreachableError
from antecast_client.events import Event, instant
from antecast_client.sse import ServerEvent, read_events

Json = dict[str, Any]

DEFAULT_URL: Final = "http://127.0.0.1:8000"

_PIECE_BYTES: Final = 2**18
_OVER: Final = ("succeeded", "failed", "cancelled")
_BUSY: Final = (429, 503)
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class Client:
    """Asks a service. Not to be shared by threads that use it at the same time.

    Reads are repeated where there is no answer or the service says that it is busy; so are POSTs, which bear
    an `Idempotency-Key` by which the service knows them again. Nothing else is.

    Args:
        url: where it is.
        key: API key; None where the service asks for none.
        timeout_s: how long to wait for an answer.
        retries: how often a request that may be repeated is.
        transport: how requests travel; httpx's own where None.
        wait: pauses between tries.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 2,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        try:
            self._http = httpx.Client(
                base_url=url, headers=headers, timeout=timeout_s, trust_env=False, transport=transport
            )
        except httpx.InvalidURL as error:
            raise UnreachableError(f"{url!r} is no URL: {error}") from error
        self._url = url
        self._retries = retries
        self._wait = wait

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    # What a scheduler does all day

    def tell(self, cluster: str, events: Iterable[Event]) -> Json:
        """Tell what has happened; each event is accepted, known already, or rejected by itself."""
        return self.post(f"/v1/clusters/{cluster}/events", {"events": list(events)})

    def decide(
        self,
        cluster: str,
        events: Iterable[Event] = (),
        *,
        at: datetime | None = None,
        idle_gpus: int | None = None,
        within_s: float | None = None,
    ) -> Json:
        """Tell what has happened and ask what to do now.

        Args:
            cluster: name.
            events: since the last call, in order.
            at: instant of the decision; now where None.
            idle_gpus: as you count them; as the events have it where None.
            within_s: give up after so long and without a second try; by default as any request.

        Raises:
            UnreachableError: if there is no answer in time. Start jobs as you would without lending, and tell
                what you did with the next call.
        """
        body: Json = {"events": list(events)}
        if at is not None:
            body["at"] = instant(at)
        if idle_gpus is not None:
            body["idle_gpus"] = idle_gpus
        path = f"/v1/clusters/{cluster}/decisions"
        if within_s is None:
            return self.post(path, body)
        return self._json(self.ask("POST", path, json=body, timeout_s=within_s, retries=0))

    # Anything else

    def get(self, path: str, **params: Any) -> Json:
        """The resource at a path."""
        more: dict[str, Any] = (
            {"params": params} if params else {}
        )  # none at all would take away those of the path
        return self._json(self.ask("GET", path, **more))

    def pages(self, path: str, cursor: str = "after", **params: Any) -> Iterator[Json]:
        """The items of a list, page after page.

        Args:
            path: of the list.
            cursor: the parameter that takes the end of the page before; `before` where the newest come first.
            params: of each page (query).
        """
        while True:
            page = self.get(path, **params)
            yield from page["items"]
            ends = (page.get(name) for name in ("next", f"next_{cursor}"))
            following = next((end for end in ends if end is not None), None)
            if following is None:
                return
            params[cursor] = following

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """What comes of a POST."""
        key = {"Idempotency-Key": secrets.token_hex(16)}
        return self._json(self.ask("POST", path, json=dict(body or {}), headers=key))

    def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        seen: str | None = None,
        version: int | None = None,
    ) -> Json:
        """Change a resource, based on a version of it.

        Args:
            method: PUT, PATCH or POST.
            path: of the change.
            body: of the change.
            seen: whose ETag it is based on; the path itself where None.
            version: what it is based on; the one that `seen` has right now where None.
        """
        etag = f'"{version}"' if version else self.ask("GET", seen or path).headers.get("etag", "*")
        return self._json(self.ask(method, path, json=dict(body), headers={"If-Match": etag}))

    def delete(self, path: str) -> None:
        """Remove a resource."""
        self.ask("DELETE", path)

    def upload(self, path: str, file: Path, options: Mapping[str, str]) -> Json:
        """Send a file piece by piece."""
        kind = "text/csv" if options.get("format") == "csv" else "application/octet-stream"
        headers = {"Content-Type": kind}
        answer = self.ask("POST", path, content=_pieces(file), params=dict(options), headers=headers)
        return self._json(answer)

    # Long work

    def wait_for(self, run_id: str, tell: Callable[[Json], None] = lambda _run: None) -> Json:
        """Wait for a run; `tell` gets it each time it is looked at.

        Raises:
            RunEndedError: if it does not succeed.
        """
        while True:
            run = self.get(f"/v1/runs/{run_id}")
            tell(run)
            if run["status"] == "succeeded":
                return run
            if run["status"] in _OVER:
                raise RunEndedError(run)
            self._wait(0.5)

    def follow(self, path: str, last_id: str | None = None) -> Iterator[ServerEvent]:
        """Events of a stream as they come, until it ends; a connection that breaks is taken up where it was.

        Raises:
            UnreachableError: if it breaks and nothing comes of trying again.
        """
        tries = 0
        while True:
            headers = {"Accept": "text/event-stream"} | (
                {} if last_id is None else {"Last-Event-ID": last_id}
            )
            try:
                with self._http.stream("GET", path, headers=headers) as answer:
                    if not answer.is_success:
                        answer.read()
                        raise ProblemError.of(answer)
                    for event in read_events(answer.iter_lines()):
                        last_id, tries = event.event_id or last_id, 0
                        yield event
                    return
            except httpx.TransportError as error:
                tries += 1
                if tries > self._retries:
                    raise self._unreachable(error) from error
                self._wait(_pause_s(tries))

    def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        retries: int | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Any request; the answer if it is a success.

        Args:
            method: such as GET.
            path: with its leading slash.
            headers: on top of the usual ones.
            timeout_s: as the client's where None.
            retries: as the client's where None.
            more: for httpx: json, params, content.

        Raises:
            ProblemError: if the service refuses.
            UnreachableError: if there is no answer.
        """
        if timeout_s is not None:
            more["timeout"] = timeout_s
        sent = dict(headers or {})
        may_repeat = method in ("GET", "HEAD") or "Idempotency-Key" in sent
        left = (self._retries if retries is None else retries) if may_repeat else 0
        tries = 0
        while True:
            try:
                answer = self._http.request(method, path, headers=sent, **more)
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if tries >= left:
                    raise self._unreachable(error) from error
                pause_s = _pause_s(tries + 1)
            else:
                if answer.is_success:
                    return answer
                problem = ProblemError.of(answer)
                if answer.status_code not in _BUSY or tries >= left:
                    raise problem
                pause_s = min(problem.retry_after_s or _pause_s(tries + 1), _LONGEST_PAUSE_S)
            tries += 1
            self._wait(pause_s)

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(
            f"the service at {self._url} cannot be reached ({error}); is `antecast serve` running?"
        )

    def _json(self, answer: httpx.Response) -> Json:
        try:
            body = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise UnreachableError(
                f"{self._url} does not answer as the service would; is it the right address?"
            )
        return body


def _pause_s(tries: int) -> float:
    return min(_FIRST_PAUSE_S * 2.0 ** (tries - 1), _LONGEST_PAUSE_S)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            yield piece
