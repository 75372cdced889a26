"""What sharing a GPU costs: the rate of each of two jobs, with its uncertainty, and who may say so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

RATE_LEVELS: Final = (0.1, 0.5, 0.9)
"""Levels of `lower`, `median` and `upper`: the interval between the outer ones is the 80 % interval."""

PairRates = Callable[[str, str], float | None]
"""(model, beside) -> speed of a job of `model` on a GPU that it shares with one of `beside`, as a share of
its speed alone; None where the two do not fit onto one GPU."""


@dataclass(frozen=True, slots=True)
class RateForecast:
    """Speed of a job that shares its GPU, as a share of its speed alone, at `RATE_LEVELS`.

    Raises:
        ValueError: if 0 < lower <= median <= upper does not hold, or a value is not finite.
    """

    lower: float
    median: float
    upper: float

    def __post_init__(self) -> None:
        if not 0.0 < self.lower <= self.median <= self.upper < float("inf"):
            raise ValueError("a rate forecast needs 0 < lower <= median <= upper, all finite")


class InterferenceForecaster(Protocol):
    """Says how fast two jobs run beside each other on one GPU, by the names of their models.

    What is said of (a, b) is what is said of (b, a), swapped.
    """

    def rates(self, model_a: str, model_b: str) -> tuple[RateForecast, RateForecast] | None:
        """Rates of a job of `model_a` and one of `model_b` that share a GPU; None if known not to fit."""
        ...

    def fit_chance(self, model_a: str, model_b: str) -> float:
        """Chance, in [0, 1], that both fit into the memory of one GPU; 0 where `rates` is None."""
        ...
