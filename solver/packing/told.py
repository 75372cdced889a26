"""The facts of a policy that packs: all of them go into its books."""

from domain.jobs import Job
from solver.packing.books import PackingBooks
from solver.packing.floor import Floor
from solver.policies.base import PolicyContext


class BooksTold:
    """The fact methods of a policy that packs; what it decides is its own business.

    Args:
        context: nodes whose GPUs may be shared, and who says how long jobs live.
    """

    def __init__(self, context: PolicyContext) -> None:
        self._floor = Floor(context.hosts)
        self._books = PackingBooks(self._floor, context.lives)

    def submitted(self, job: Job, now_s: float) -> None:  # noqa: ARG002
        """A job waits."""
        self._books.submitted(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs where it was put."""
        self._books.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._books.rate_changed(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A running job was stopped with its work kept."""
        self._books.sent_back(job, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._books.ended(job, now_s)
