"""Deadlines met: the chance that a job ends in time at its rate."""

from typing import Final

from domain.jobs import Job
from solver.packing.books import PackingBooks

_REST: Final = 0.02
"""Worth of a job that is late already or has no deadline, in deadlines met: they run where nobody is hurt."""
_HOUR_S: Final = 3600.0


class DeadlineWorth:
    """P(work left <= rate x time to the deadline), by the forecast life given what is done.

    Args:
        books: of who runs and waits.
    """

    def __init__(self, books: PackingBooks) -> None:
        self._books = books

    def of(self, job: Job, rate: float, now_s: float) -> float:
        """Deadlines met, as expected; a little for the speed itself, which decides between equals."""
        rest = _REST * rate * _HOUR_S / (_HOUR_S + self._books.left_s(job, now_s))
        if job.deadline_s is None or job.deadline_s <= now_s:
            return rest
        allowed_s = job.deadline_s - job.submit_s
        return self._books.chance_done(job, now_s, rate * (job.deadline_s - now_s), allowed_s) + rest
