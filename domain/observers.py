"""Who is told what happens, as it happens: forecasters that learn on the way."""

from domain.jobs import Job


class Observer:
    """Told facts in the order of their instants. Each does nothing here; take what you need.

    Nothing told at an instant lies after it, so an observer that keeps to what it was told is causal.
    """

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible."""

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate, in (0, 1]; it was 1 since `started`.

        The rate is work per second, as a share of what the job does alone on its GPUs. It may be told at the
        instant of `started`, right after it. How old a job is by its forecast life is the work it has done.
        """

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us and waits again."""

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone."""

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn, waiting or running: how long it would have run will never be known."""
