"""What an objective says of a job that runs at some rate."""

from typing import Protocol

from domain.jobs import Job


class Worth(Protocol):
    """How much it is worth to an objective that a job runs at a rate, from now on.

    Packing pays where what the newcomer is worth at its rate exceeds what those that it joins lose. Waiting
    is worth nothing.
    """

    @property
    def least(self) -> float:
        """Least that sharing has to bring, as a share of what the newcomer would bring alone, in [0, 1]."""
        ...

    def of(self, job: Job, rate: float, now_s: float) -> float:
        """Worth of a job at a rate in (0, 1]; does not fall as the rate grows."""
        ...
