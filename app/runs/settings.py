"""Settings that only workers have."""

from typing import Self

from pydantic import Field, model_validator

from app.settings import ServiceSettings


class WorkerSettings(ServiceSettings):
    """The service's settings and the worker's own.

    Attributes:
        queue_poll_s: how often a worker looks for new runs, in our tables and in DBOS's queues.
        what_if_limit_s, train_limit_s, backtest_limit_s: how long the child process of such a run may take.
        webhook_retry_s: how long to wait after a first failed delivery; then four times as long, and so on.
    """

    queue_poll_s: float = Field(default=0.2, ge=0.01, le=60.0)
    what_if_limit_s: float = Field(default=900.0, gt=0.0, le=86_400.0)
    train_limit_s: float = Field(default=900.0, gt=0.0, le=86_400.0)
    backtest_limit_s: float = Field(default=3600.0, gt=0.0, le=86_400.0)
    webhook_retry_s: float = Field(default=5.0, ge=0.01, le=3600.0)

    @model_validator(mode="after")
    def _finds_lost_runs(self) -> Self:
        if self.queue_poll_s >= self.worker_lease_s:
            raise ValueError(
                f"queue_poll_s ({self.queue_poll_s:g}) is not shorter than worker_lease_s "
                f"({self.worker_lease_s:g}): a worker would look for lost runs less often than they get lost"
            )
        return self
