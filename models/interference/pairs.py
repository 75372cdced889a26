"""Interference learned from measured pairs: every model presses on others and is sensitive to them."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from data.pairs import PairTable
from domain.errors import SettingError
from domain.interference import RateForecast
from models.interference.calibration import GAUSSIAN, Novelty, best_field, widths
from models.interference.correction import Correction
from models.interference.field import NOISE_VAR, to_rate
from models.interference.memory import MemoryRule
from models.interference.profiles import Profile, family_of
from models.interference.state import packed, unpacked
from models.interference.steps import StepMemory, check_name

MOST_PAIRS: Final = 1_500
"""Measured pairs that are learned from at most: the cost is the third power of their number (a minute)."""

_MAX_CACHED: Final = 10_000

_Both = tuple[RateForecast, RateForecast]


class PairInterference:
    """Rates of two jobs on one GPU, from a table of measured pairs, profiles, and steps as they are observed.

    Without a table nothing can be said: at least one measured pair is needed. Answers are deterministic.
    """

    def __init__(
        self,
        table: PairTable,
        profiles: Mapping[str, Profile] | None = None,
        gpu_memory_gb: float | None = None,
    ) -> None:
        """Learn from `table`; profiles by model; memory of the GPU, for the memory of the profiles.

        Raises:
            SettingError: if the table has no measured pair, or too many.
        """
        if not table.rates:
            raise SettingError("interference is learned from measured pairs, the table has none")
        if len(table.rates) > MOST_PAIRS:
            found = len(table.rates)
            raise SettingError(
                f"interference is learned from at most {MOST_PAIRS} pairs, the table has {found}"
            )
        self._table: Final = table
        self._profiles: Final = dict(profiles or {})
        self._gpu_memory_gb: Final = gpu_memory_gb
        self._memory: Final = MemoryRule(table, self._profiles, gpu_memory_gb)
        self._field: Final = best_field(table, self._profiles)
        self._widths: Final = widths(self._field)
        self._models: Final = frozenset(name for pair in table.rates for name in pair)
        self._families: Final = frozenset(family_of(name) for name in self._models)
        self._steps = StepMemory()
        self._correction: Correction | None = None
        self._cache: Final[dict[tuple[str, str], _Both]] = {}

    def rates(self, model_a: str, model_b: str) -> _Both | None:
        """Rates of a job of `model_a` and one of `model_b` that share a GPU; None if known not to fit.

        A pair that has been observed running fits, whatever the table says.
        """
        if self.fit_chance(model_a, model_b) <= 0.0:
            return None
        if (model_a, model_b) not in self._cache:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[(model_a, model_b)] = self._forecast(model_a, model_b)
        return self._cache[(model_a, model_b)]

    def fit_chance(self, model_a: str, model_b: str) -> float:
        """Chance, in [0, 1], that both fit into the memory of one GPU."""
        if (model_a, model_b) in self._steps or (model_b, model_a) in self._steps:
            return 1.0
        return self._memory.chance(model_a, model_b)

    def observe(self, model: str, beside: str, step_s: float, solo_step_s: float) -> None:
        """A step of a job of `model` took `step_s` beside the other; alone its steps take `solo_step_s`.

        What counts is the median of the last 32 such steps. It corrects this pair most, and others of either
        model, or of models alike, by as much as they go together.

        Raises:
            InputError: if a name or a time is absurd; nothing has changed then.
        """
        self._steps.add(model, beside, step_s, solo_step_s)
        self._correction = None
        self._cache.clear()

    def reasons(self, model: str, beside: str) -> dict[str, float]:
        """Why `model` runs at its median rate beside the other: terms on the logit scale that sum to it.

        level: the mean of all; sensitivity: of `model`; pressure: of `beside`; joint: particular to the two;
        steps: correction by observed steps.
        """
        level, sensitivity, pressure, joint = self._field.terms(model, beside)
        move, _ = self._corrections().at([(model, beside)])
        return {
            "level": level,
            "sensitivity": sensitivity,
            "pressure": pressure,
            "joint": joint,
            "steps": float(move[0]),
        }

    def novelty(self, model_a: str, model_b: str) -> Novelty:
        """How new a pair is to the table."""
        if self._table.rate(model_a, model_b) is not None:
            return Novelty.MEASURED
        newest = Novelty.UNMEASURED
        for name in (model_a, model_b):
            if name not in self._models:
                is_kin = family_of(name) in self._families
                newest = max(newest, Novelty.NEW_BATCH if is_kin else Novelty.NEW_FAMILY)
        return newest

    def to_state(self) -> dict[str, object]:
        """All that is needed to make it again: numbers, strings, lists and tables of them, for JSON."""
        return packed(self._table, self._profiles, self._gpu_memory_gb, self._steps)

    @classmethod
    def from_state(cls, state: object) -> "PairInterference":
        """The inverse of `to_state`; learns anew, to the same answers.

        Raises:
            InputError: if the state is of another version or breaks a rule.
            SettingError: if its table cannot be learned from.
        """
        table, profiles, gpu_memory_gb, steps = unpacked(state)
        model = cls(table, profiles, gpu_memory_gb)
        model._steps = steps
        return model

    def _forecast(self, model_a: str, model_b: str) -> _Both:
        points = [(check_name(model_a), check_name(model_b)), (model_b, model_a)]
        mean, sd = self._field.posterior(points)
        move, added_var = self._corrections().at(points)
        left_var = np.maximum(sd**2 + added_var, 1e-6) + NOISE_VAR
        width = np.array([self._width_of(point) for point in points]) * np.sqrt(left_var)
        lower, median, upper = (to_rate(mean + move + k * width).tolist() for k in (-1.0, 0.0, 1.0))
        return (
            RateForecast(lower[0], median[0], upper[0]),
            RateForecast(lower[1], median[1], upper[1]),
        )

    def _width_of(self, point: tuple[str, str]) -> float:
        return GAUSSIAN if point in self._steps else self._widths[self.novelty(*point)]

    def _corrections(self) -> Correction:
        if self._correction is None:
            self._correction = Correction(self._field, self._steps.heard())
        return self._correction
