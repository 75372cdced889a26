"""Measured pairs as they were measured; what was not measured is forecast from them."""

from typing import Final

from data.pairs import PairTable
from domain.interference import RateForecast
from models.interference.pairs import PairInterference


class MeasuredRates:
    """Rates of measured pairs: the measurement itself, with the interval that the forecast gives it.

    Args:
        table: of measured pairs.
    """

    def __init__(self, table: PairTable) -> None:
        self._table: Final = table
        self._forecast: Final = PairInterference(table)
        self._known: Final[dict[tuple[str, str], tuple[RateForecast, RateForecast] | None]] = {}

    def rates(self, model_a: str, model_b: str) -> tuple[RateForecast, RateForecast] | None:
        """Rates of a job of `model_a` and one of `model_b` that share a GPU; None if known not to fit."""
        key = (model_a, model_b)
        if key not in self._known:
            said = self._forecast.rates(*key)
            self._known[key] = said and (self._at(said[0], *key), self._at(said[1], *key[::-1]))
        return self._known[key]

    def fit_chance(self, model_a: str, model_b: str) -> float:
        """Chance that both fit into the memory of one GPU."""
        return self._forecast.fit_chance(model_a, model_b)

    def _at(self, said: RateForecast, model: str, beside: str) -> RateForecast:
        measured = self._table.rate(model, beside)
        if measured is None:
            return said
        median = min(measured, 1.0)
        return RateForecast(min(said.lower, median), median, max(said.upper, median))
