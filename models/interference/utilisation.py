"""The baseline of summed utilisation: two jobs that together ask for more than one GPU share it.

    rate = min(1, scale / (u_a + u_b)) for both, u = what a job asks for, 0 to 1

The table holds no utilisations, so they are those that explain its rates best: least squares of the rate over
u and scale, a fit that a measured utilisation could not beat on the same table. A model that is not in it
takes the mean of its family, nearer batches counting more, or that of all models; a profile's goes first.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from data.pairs import PairTable
from domain.errors import SettingError
from domain.interference import RATE_LEVELS, RateForecast
from models.interference.calibration import ordered_pairs
from models.interference.field import LOWEST
from models.interference.memory import MemoryRule
from models.interference.profiles import Floats, Likeness, Profile, Shape, family_of

_LEAST_USE: Final = 0.01
_SHAPE: Final = Shape(reach_doublings=1.0, power=1.0)


class UtilisationRule:
    """Rates by the sum of two utilisations, fitted to measured pairs."""

    def __init__(
        self,
        table: PairTable,
        profiles: Mapping[str, Profile] | None = None,
        gpu_memory_gb: float | None = None,
    ) -> None:
        """Fit to `table`; the rest serves new models, and to tell what fits.

        Raises:
            SettingError: if the table has no measured pair.
        """
        if not table.rates:
            raise SettingError("interference is learned from measured pairs, the table has none")
        pairs, rates = ordered_pairs(table)
        self._names: Final = sorted({name for pair in pairs for name in pair})
        place = {name: k for k, name in enumerate(self._names)}
        firsts, seconds = (np.array([place[pair[side]] for pair in pairs]) for side in (0, 1))
        rates = np.minimum(rates, 1.0)

        def missed(parameters: Floats) -> Floats:
            used, scale = parameters[:-1], parameters[-1]
            return np.asarray(np.minimum(1.0, scale / (used[firsts] + used[seconds])) - rates)

        start = np.full(len(self._names) + 1, 0.75)
        bounds = (np.full(len(start), _LEAST_USE), np.append(np.ones(len(self._names)), 2.0))
        fitted = least_squares(missed, start, bounds=bounds, max_nfev=200)
        self._used: Final[dict[str, float]] = dict(zip(self._names, fitted.x[:-1].tolist(), strict=True))
        self._scale: Final = float(fitted.x[-1])
        low, _, high = (float(np.quantile(-missed(fitted.x), level)) for level in RATE_LEVELS)
        self._below: Final = min(low, 0.0)
        self._above: Final = max(high, 0.0)
        self._profiles: Final = dict(profiles or {})
        self._memory: Final = MemoryRule(table, self._profiles, gpu_memory_gb)

    def rates(self, model_a: str, model_b: str) -> tuple[RateForecast, RateForecast] | None:
        """The same for both, or None if the pair is known not to fit."""
        if self.fit_chance(model_a, model_b) <= 0.0:
            return None
        used = self.utilisation(model_a) + self.utilisation(model_b)
        median = min(1.0, max(LOWEST, self._scale / used))
        lower, upper = max(LOWEST, median + self._below), min(1.0, median + self._above)
        both = RateForecast(min(lower, median), median, max(upper, median))
        return both, both

    def fit_chance(self, model_a: str, model_b: str) -> float:
        """Chance, in [0, 1], that both fit into the memory of one GPU."""
        return self._memory.chance(model_a, model_b)

    def utilisation(self, model: str) -> float:
        """What the model asks for, as a share of a GPU."""
        if model in self._used:
            return self._used[model]
        measured = self._profiles[model].sm_utilisation if model in self._profiles else None
        if measured is not None:
            return max(_LEAST_USE, float(measured))
        weights = Likeness(_SHAPE, {}).between([model], self._names)[0]
        known = np.array([self._used[name] for name in self._names])
        is_new = all(family_of(name) != family_of(model) for name in self._names)
        return float(known.mean() if is_new else np.average(known, weights=weights))
