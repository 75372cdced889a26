"""Joint scenarios of the pools' need ahead. Each way to draw them is one file and one line in a registry."""

from collections.abc import Mapping
from typing import Final, Protocol

from models.scenarios.corrected import CorrectedStretches
from models.scenarios.nearest import NearestStretches
from models.scenarios.stretches import PastStretches

__all__ = ["SCENARIO_MODELS", "ScenarioModel", "scenario_model"]


class ScenarioModel(Protocol):
    """Makes a generator of scenarios; see `PastStretches` for the arguments."""

    def __call__(
        self, quotas: Mapping[str, int], seed: int, num_scenarios: int, *, since_s: float, begin_s: float
    ) -> PastStretches:
        """A generator that has been told nothing yet."""
        ...


SCENARIO_MODELS: Final[dict[str, ScenarioModel]] = {
    "bootstrap": PastStretches,
    "nearest": NearestStretches,
    "corrected": CorrectedStretches,
}


def scenario_model(name: str) -> ScenarioModel:
    """The entry of `SCENARIO_MODELS`.

    Raises:
        ValueError: if there is none of that name.
    """
    if name not in SCENARIO_MODELS:
        raise ValueError(f"scenarios is {name!r}, must be one of {', '.join(SCENARIO_MODELS)}")
    return SCENARIO_MODELS[name]
