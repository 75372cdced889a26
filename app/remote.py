"""The service as the command line sees it: the client library, its errors as errors of ours."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from antecast_client import DEFAULT_URL, Client, ClientError, KeyFileError
from antecast_client import read_key as read_clients_key

from domain.errors import AntecastError, SettingError

__all__ = ["DEFAULT_URL", "Remote", "RemoteError", "read_key"]

Json = dict[str, Any]


class RemoteError(AntecastError):
    """The service refused, or cannot be reached."""


def read_key(path: Path | None) -> str | None:
    """The API key: from the environment, else from a file that nobody else may read.

    Raises:
        SettingError: if others may read the file, or it is not there although it was named.
    """
    try:
        return read_clients_key(path)
    except KeyFileError as error:
        raise SettingError(str(error)) from error


class Remote:
    """A service somewhere.

    Args:
        url: where it is.
        key: API key; None where the service asks for none.
    """

    def __init__(self, url: str, key: str | None) -> None:
        with _in_our_words():
            self._client = Client(url, key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, **params: Any) -> Json:
        """The resource at a path."""
        with _in_our_words():
            return self._client.get(path, **params)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """What comes of a POST."""
        with _in_our_words():
            return self._client.post(path, body)

    def change(
        self, method: str, path: str, body: Mapping[str, Any], seen: str, version: int | None = None
    ) -> Json:
        """Change a resource, based on a version of it; on the one that `seen` has right now where None."""
        with _in_our_words():
            return self._client.change(method, path, body, seen, version)

    def upload(self, path: str, file: Path, options: Mapping[str, str]) -> Json:
        """Send a file piece by piece."""
        with _in_our_words():
            return self._client.upload(path, file, options)

    def wait_for(self, run_id: str, tell: Callable[[Json], None]) -> Json:
        """Wait for a run; `tell` gets it each time it is looked at.

        Raises:
            RemoteError: if it does not succeed.
        """
        with _in_our_words():
            return self._client.wait_for(run_id, tell)


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise RemoteError(str(error)) from error
