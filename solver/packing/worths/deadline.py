"""Deadlines met: whoever will probably still be in time, and has least left."""

from typing import Final

from domain.jobs import Job
from solver.packing.books import PackingBooks

_LATE: Final = 0.1
"""What a job that is late already counts, where one that is sure to be in time counts 1.1."""
_LEAST_LEFT_S: Final = 60.0


class DeadlineWorth:
    """Chance to be in time at the rate, times the rate, over the expected work left.

    Nobody is taken to need more than the time to its deadline: who could not be in time alone would not have
    set it. Its expected work is at most the share of that time that jobs have needed so far, so the forecast
    life is corrected by what deadlines say.

    Args:
        books: of who runs and waits.
    """

    least: Final = 0.35

    def __init__(self, books: PackingBooks) -> None:
        self._books = books

    def of(self, job: Job, rate: float, now_s: float) -> float:
        """Jobs ended per second, as expected, each weighted by its chance to be in time."""
        left_s = self._books.left_s(job, now_s)
        if job.deadline_s is None or job.deadline_s <= now_s:
            return _LATE * rate / left_s
        allowed_s = job.deadline_s - job.submit_s
        usual_s = self._books.usual_share() * allowed_s - self._books.done_s(job, now_s)
        chance = self._books.chance_done(job, now_s, rate * (job.deadline_s - now_s), allowed_s)
        return (chance + _LATE) * rate / min(left_s, max(_LEAST_LEFT_S, usual_s))
