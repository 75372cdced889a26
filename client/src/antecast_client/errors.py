"""What can go wrong when the service is asked."""

from collections.abc import Mapping
from typing import Any, Final, Self

import httpx

_SHOWN_ERRORS: Final = 10


class ClientError(Exception):
    """Any error of this library."""


class KeyFileError(ClientError):
    """The file with the API key is not there, or others may read it."""


class UnreachableError(ClientError):
    """There was no answer in time, or none of the service's. Whether it took the request is not known."""


class RunEndedError(ClientError):
    """A run that was waited for did not succeed.

    Attributes:
        run: the run as the service says it is.
    """

    def __init__(self, run: Mapping[str, Any]) -> None:
        why = run.get("error") or "somebody cancelled it"
        super().__init__(f"run {run.get('run_id')} {run.get('status')}: {why}")
        self.run = dict(run)


class ProblemError(ClientError):
    """The service refused, in the words of RFC 9457.

    Attributes:
        status: of the answer.
        kind: `type` of the problem, such as `/problems/version-clash`: for programs to act on.
        title: short, the same for all problems of a kind.
        detail: what is wrong here, for people.
        errors: one entry for each thing that is wrong, where there are several.
        retry_after_s: when to ask again; None where the service does not say.
        request_id: names the request in the service's log; None where it has none.
    """

    def __init__(
        self, status: int, body: Mapping[str, Any], *, retry_after_s: float | None, request_id: str | None
    ) -> None:
        self.status = status
        self.kind = str(body.get("type", "about:blank"))
        self.title = str(body.get("title", f"the service answered {status}"))
        self.detail = str(body.get("detail", ""))
        found = body.get("errors")
        self.errors: list[dict[str, Any]] = [dict(one) for one in found] if isinstance(found, list) else []
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        super().__init__(self._text())

    @classmethod
    def of(cls, answer: httpx.Response) -> Self:
        """The problem that an answer tells of; one made up from its status where it does not."""
        try:
            body = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, Mapping):
            body = {"title": f"the service answered {answer.status_code} {answer.reason_phrase}"}
        return cls(
            answer.status_code,
            body,
            retry_after_s=_seconds(answer.headers.get("retry-after")),
            request_id=answer.headers.get("x-request-id"),
        )

    def _text(self) -> str:
        first = f"{self.title}: {self.detail}" if self.detail else self.title
        lines = [first]
        lines += ["  " + ": ".join(map(str, one.values())) for one in self.errors[:_SHOWN_ERRORS]]
        return "\n".join(lines)


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(float(text), 0.0)
    except ValueError:  # a date: nothing of ours sends one
        return None
