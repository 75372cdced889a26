"""What a model must offer to be stored, and to learn on after that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.artifacts.parts import Parts


def no_retraining(model: Any, now_s: float) -> None:
    """For models that learn from each fact as they are told it."""


@dataclass(frozen=True)
class Store:
    """How models of one name are taken apart and put together again.

    A model put together forecasts and goes on learning bit for bit like the one that was taken apart.

    Attributes:
        to_parts: takes a model apart and leaves it as it is.
        from_parts: puts one together; raises `ArtifactError` where a part is not what it must be.
        retrain: trains a model anew at an instant, seconds, on what it has been told by then.
        features: names of what it sees.
    """

    to_parts: Callable[[Any], Parts]
    from_parts: Callable[[Parts], Any]
    retrain: Callable[[Any, float], None]
    features: tuple[str, ...]
