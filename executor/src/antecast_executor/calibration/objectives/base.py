"""What an objective is."""

from collections.abc import Sequence
from typing import Protocol

from antecast_executor.calibration.words import Measurement, Remaining

BROKEN = 1e15
"""A value from here on means that the setting must not be kept, however it compares.

In seconds it is 30 million years. What is added to it says how far the setting is from being allowed, so
that a search finds its way out.
"""


class Objective(Protocol):
    """What a search improves; a module of this package is one.

    Both functions are pure. All tuples are in the order of the members of the packed set.
    """

    def value(self, measured: Measurement, remaining: Sequence[Remaining]) -> float:
        """What is to be as low as possible; BROKEN and above for what must not be kept."""
        ...

    def priority(self, measured: Measurement, remaining: Sequence[Remaining], place: int) -> float:
        """How much one job is to be protected; the higher, the more."""
        ...
