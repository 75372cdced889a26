"""What an objective says of a job that runs at some rate."""

from typing import Protocol

from domain.jobs import Job
from solver.packing.books import PackingBooks


class Worth(Protocol):
    """How much it is worth to an objective that a job runs at a rate, from now on.

    Packing pays where what the newcomer is worth at its rate exceeds what those that it joins lose. Waiting
    is worth nothing.
    """

    def of(self, job: Job, rate: float, now_s: float) -> float:
        """Worth of a job at a rate in (0, 1]; does not fall as the rate grows."""
        ...


WorthRule = type["Worth"]
"""Built from the books alone: `rule(books: PackingBooks)`."""

__all__ = ["PackingBooks", "Worth", "WorthRule"]
