"""Settings that only workers have."""

from pydantic import Field

from app.settings import ServiceSettings


class WorkerSettings(ServiceSettings):
    """The service's settings and the worker's own.

    Attributes:
        queue_poll_s: how often a worker looks for new runs, in our tables and in DBOS's queues.
        what_if_limit_s: how long the child process of a what-if may take.
    """

    queue_poll_s: float = Field(default=0.2, ge=0.01, le=60.0)
    what_if_limit_s: float = Field(default=900.0, gt=0.0, le=86_400.0)
