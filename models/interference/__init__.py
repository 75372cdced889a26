"""How fast two jobs run that share a GPU. A forecaster is one file here and one line in the registry."""

from collections.abc import Callable, Mapping
from typing import Final

from data.pairs import PairTable
from domain.interference import InterferenceForecaster
from models.interference.mean import MeanRate
from models.interference.pairs import PairInterference
from models.interference.profiles import Profile
from models.interference.utilisation import UtilisationRule

__all__ = ["INTERFERENCE_MODELS", "PairInterference", "Profile"]

INTERFERENCE_MODELS: Final[
    Mapping[str, Callable[[PairTable, Mapping[str, Profile] | None, float | None], InterferenceForecaster]]
] = {
    "pairs": PairInterference,
    "mean": MeanRate,
    "utilisation": UtilisationRule,
}
"""From measured pairs, profiles by model and the GPU's memory in GB to a forecaster, by name."""
