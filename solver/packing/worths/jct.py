"""Mean time to completion: whoever has least left is worth most."""

from typing import Final

from domain.jobs import Job
from solver.packing.books import PackingBooks


class JctWorth:
    """Rate over the expected work left: the c-mu rule, which minimises the mean where lives have no memory.

    Args:
        books: of who runs and waits.
    """

    least: Final = 0.35

    def __init__(self, books: PackingBooks) -> None:
        self._books = books

    def of(self, job: Job, rate: float, now_s: float) -> float:
        """Jobs ended per second, as expected."""
        return rate / self._books.left_s(job, now_s)
