"""What goes wrong in the service, by what the caller can do about it. The API turns each into a problem."""

from domain.errors import AntecastError


class UnknownResource(AntecastError):  # noqa: N818 - named after what the caller has done wrong
    """What was asked for does not exist."""


class UnknownCluster(UnknownResource):
    """There is no cluster of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no cluster {name!r}")


class Conflict(AntecastError):  # noqa: N818
    """The request contradicts the state of what it is about; the caller has to look again."""


class VersionMissing(AntecastError):  # noqa: N818
    """A change was asked for without saying which version it is based on (If-Match)."""


class VersionClash(AntecastError):  # noqa: N818
    """The resource has changed since the version the caller has seen."""


class Invalid(AntecastError):  # noqa: N818
    """A request that is well formed and still makes no sense here."""


class TooLarge(AntecastError):  # noqa: N818
    """A body that is larger than what is accepted."""


class NotAuthenticated(AntecastError):  # noqa: N818
    """No credentials, or none that are valid."""


class NotAllowed(AntecastError):  # noqa: N818
    """Valid credentials without the scope that is needed."""


class TooManyRequests(AntecastError):  # noqa: N818
    """The caller has to wait.

    Attributes:
        retry_after_s: how long, whole seconds.
    """

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotReady(AntecastError):  # noqa: N818
    """The service cannot work right now: its database is away or not migrated."""


class DecisionUnavailable(NotReady):
    """There is no decision in time; the question is in the log, and asking again is safe."""
