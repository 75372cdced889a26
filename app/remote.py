"""The service as the command line sees it: HTTP, a key, and problems as clear errors."""

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from domain.errors import AntecastError, SettingError

DEFAULT_URL: Final = "http://127.0.0.1:8000"
API_KEY: Final = "ANTECAST_API_KEY"

_TIMEOUT_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.5
_OVER: Final = ("succeeded", "failed", "cancelled")
_PIECE_BYTES: Final = 2**18
_SHOWN_ERRORS: Final = 10


class RemoteError(AntecastError):
    """The service refused, or cannot be reached."""


def read_key(path: Path | None) -> str | None:
    """The API key: from the environment, else from a file that nobody else may read.

    Raises:
        SettingError: if others may read the file, or it is not there although it was named.
    """
    if os.environ.get(API_KEY):
        return os.environ[API_KEY]
    file = path or Path.home() / ".config" / "antecast" / "key"
    if not file.exists():
        if path is not None:
            raise SettingError(f"there is no key file {path}")
        return None
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise SettingError(f"others may read the key in {file}: chmod 600 {file}")
    return file.read_text(encoding="utf-8").strip()


class Remote:
    """A service somewhere.

    Args:
        url: where it is.
        key: API key; None where the service asks for none.
    """

    def __init__(self, url: str, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT_S, trust_env=False)
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str) -> dict[str, Any]:
        """The resource at a path."""
        return self._body(self._ask("GET", path))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What comes of a POST."""
        return self._body(self._ask("POST", path, json=dict(body or {})))

    def change(
        self, method: str, path: str, body: Mapping[str, Any], seen: str, version: int | None = None
    ) -> dict[str, Any]:
        """Change a resource, based on a version of it; on the one that `seen` has right now where None."""
        etag = f'"{version}"' if version else self._ask("GET", seen).headers.get("etag", "*")
        return self._body(self._ask(method, path, json=dict(body), headers={"If-Match": etag}))

    def upload(self, path: str, file: Path, options: Mapping[str, str]) -> dict[str, Any]:
        """Send a file piece by piece."""
        kind = "text/csv" if options.get("format") == "csv" else "application/octet-stream"
        answer = self._ask(
            "POST", path, content=_pieces(file), params=dict(options), headers={"Content-Type": kind}
        )
        return self._body(answer)

    def wait_for(self, run_id: str, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Wait for a run; `tell` gets it each time it is looked at.

        Raises:
            RemoteError: if it does not succeed.
        """
        while True:
            run = self.get(f"/v1/runs/{run_id}")
            tell(run)
            if run["status"] == "succeeded":
                return run
            if run["status"] in _OVER:
                why = run["error"] or "somebody cancelled it"
                raise RemoteError(f"run {run_id} {run['status']}: {why}")
            time.sleep(_LOOK_EVERY_S)

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, path, **more)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise RemoteError(
                f"the service at {self._url} cannot be reached ({error}); is `antecast serve` running?"
            ) from error
        if not answer.is_success:
            raise RemoteError(_explain(answer))
        return answer

    def _body(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            body = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise RemoteError(f"{self._url} does not answer as the service would; is it the right address?")
        return body


def _explain(answer: httpx.Response) -> str:
    """A problem as text."""
    try:
        problem = answer.json()
        lines = [f"{problem['title']}: {problem['detail']}"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"the service answered {answer.status_code} {answer.reason_phrase}"
    broken = (problem.get("errors") or [])[:_SHOWN_ERRORS]
    lines += ["  " + ": ".join(str(value) for value in one.values()) for one in broken]
    return "\n".join(lines)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            yield piece
