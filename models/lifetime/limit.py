"""Lifetimes by the limit the user asked for: what schedulers go by where nothing is learned."""

from typing import Final

from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job


class RequestedLimits:
    """Every level of a job's life is its requested limit."""

    is_clairvoyant: Final = False

    def quantile_s(self, job: Job, level: float) -> float:  # noqa: ARG002 - all levels are the limit
        """The job's `limit_s`.

        Raises:
            SettingError: if the job's record has no limit.
        """
        if job.limit_s is None:
            raise SettingError(
                f"job {job.job_id} has no limit_s: lives=limit needs that column; use lives=learned"
            )
        return job.limit_s

    def survival(self, job: Job) -> tuple[float, ...]:
        """1 up to the limit, 0 beyond."""
        limit_s = self.quantile_s(job, 0.5)
        return tuple(float(edge < limit_s) for edge in LIFE_EDGES_S)
