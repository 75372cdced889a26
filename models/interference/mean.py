"""The baseline that knows no models: every job that shares a GPU runs at the mean rate of all that do."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from data.pairs import PairTable
from domain.errors import SettingError
from domain.interference import RATE_LEVELS, RateForecast
from models.interference.calibration import ordered_pairs
from models.interference.memory import MemoryRule
from models.interference.profiles import Profile


class MeanRate:
    """One forecast for all pairs: the mean of the measured rates, and their outer quantiles."""

    def __init__(
        self,
        table: PairTable,
        profiles: Mapping[str, Profile] | None = None,
        gpu_memory_gb: float | None = None,
    ) -> None:
        """Take the mean over `table`; the rest serves to tell what fits.

        Raises:
            SettingError: if the table has no measured pair.
        """
        if not table.rates:
            raise SettingError("interference is learned from measured pairs, the table has none")
        _, rates = ordered_pairs(table)
        rates = np.minimum(rates, 1.0)
        lower, _, upper = (float(np.quantile(rates, level)) for level in RATE_LEVELS)
        mean = float(rates.mean())
        self._forecast: Final = RateForecast(min(lower, mean), mean, max(upper, mean))
        self._memory: Final = MemoryRule(table, profiles or {}, gpu_memory_gb)

    def rates(self, model_a: str, model_b: str) -> tuple[RateForecast, RateForecast] | None:
        """The same twice, or None if the pair is known not to fit."""
        if self.fit_chance(model_a, model_b) <= 0.0:
            return None
        return self._forecast, self._forecast

    def fit_chance(self, model_a: str, model_b: str) -> float:
        """Chance, in [0, 1], that both fit into the memory of one GPU."""
        return self._memory.chance(model_a, model_b)
