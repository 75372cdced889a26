"""Last end: whatever keeps most GPUs at work."""

from typing import Final

from domain.jobs import Job
from solver.packing.books import PackingBooks


class MakespanWorth:
    """Rate times width: what all jobs together get done per second decides when the last of them ends.

    Weights that grow with what is left, so that the longest come first, were worse (docs/benchmarks.md).

    Args:
        books: of who runs and waits.
    """

    least: Final = 0.5

    def __init__(self, books: PackingBooks) -> None:
        self._books = books

    def of(self, job: Job, rate: float, now_s: float) -> float:  # noqa: ARG002 - the same at all times
        """GPUs kept at work."""
        return rate * job.num_gpus
