"""`HazardLifetimes` without its slow correction, to measure what that one is worth."""

from domain.jobs import Job
from models.lifetime.hazard import HazardLifetimes


class UncorrectedLifetimes(HazardLifetimes):
    """The hazard model as it says at first: how earlier forecasts turned out changes nothing.

    Its life tables go on following what ends, as those of `HazardLifetimes` do; only the recalibration of
    what is said (`models.lifetime.recalibration`) never learns, so it stays the identity.
    """

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone; its forecast is not held against that."""
        self._raw.pop(job.job_id, None)
        super().ended(job, now_s, duration_s)
