"""What a model must offer to be stored, and to learn on after that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.folder import Stored
from models.artifacts.manifest import MANIFEST_FILE
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

    def revive(self, stored: Stored) -> Any:
        """Put a stored model together.

        Raises:
            ArtifactError: if it is of another version of the program (rule `FORMAT`), or damaged.
        """
        if stored.manifest.features != self.features:
            raise ArtifactError(
                MANIFEST_FILE, Rule.FORMAT, "was stored by a program whose models see other features"
            )
        return self.from_parts(stored.parts)
