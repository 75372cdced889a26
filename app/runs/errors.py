"""How a run ends when it does not succeed."""

from domain.errors import AntecastError


class ChildFailedError(AntecastError):
    """A child process ended without an answer."""


class ChildTimeoutError(AntecastError):
    """A child process was killed because it took longer than it may."""


class ChildRefusedError(AntecastError):
    """A child process says why there can be no answer.

    Attributes:
        kind: name of the error it met.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RunStoppedError(BaseException):
    """The run is not to go on here. No `Exception`, so that nothing records it as a failure."""


class RunCancelledError(RunStoppedError):
    """Somebody has cancelled the run."""


class WorkerStoppingError(RunStoppedError):
    """The worker is about to end; another one goes on with the run."""
