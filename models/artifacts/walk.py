"""A model's memory stored as it is: plain containers, numbers, and objects of classes that are named here.

For models whose memory is a large web of small objects. Nothing is called, and nothing is looked up by a name
that was read: an object is made empty and given the attributes that its class is declared to have. Many
alike things become columns, so that what was counted or measured lies in arrays and not in JSON.
"""

from collections.abc import Mapping
from typing import Any, Final

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.laying import Writer
from models.artifacts.parts import VALUES_FILE, Parts
from models.artifacts.picking import Picker


class Walk:
    """Takes models apart and puts them together.

    What two places share, they share again afterwards. Views of one array become arrays of their own.

    Args:
        classes: whose objects may occur, each with the names of its attributes, separated by spaces; nothing
            for named tuples. A model that remembers something else cannot be stored, and parts that speak
            of other attributes are refused: they are of another version of the program.
    """

    def __init__(self, classes: Mapping[type, str]) -> None:
        self._classes: Final = {one: tuple(names.split()) for one, names in classes.items()}
        self._table: Final = [[one.__qualname__, *names] for one, names in self._classes.items()]

    def to_parts(self, model: Any) -> Parts:
        """Take a model apart.

        Raises:
            TypeError: if it remembers something that cannot be stored.
        """
        return Writer(self._classes).parts(model, self._table)

    def from_parts(self, parts: Parts, kind: type) -> Any:
        """Put a model of a class together.

        Raises:
            ArtifactError: if a part is not what it must be.
        """
        if parts.value("classes", list) != self._table:
            raise ArtifactError(
                VALUES_FILE, Rule.FORMAT, "was stored by a program whose models remember other things"
            )
        try:
            model = Picker(parts, list(self._classes.items())).model()
        except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            message = f"is not what a model is laid down as ({type(error).__name__}: {error})"
            raise ArtifactError(VALUES_FILE, Rule.FIELD, message) from error
        if type(model) is not kind:
            raise ArtifactError(VALUES_FILE, Rule.FIELD, f"holds no {kind.__qualname__}")
        return model
