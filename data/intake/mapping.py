"""Which column of a table is what, for formats that nobody has written a reader for."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ColumnMapping:
    """Names of columns."""

    def as_json(self) -> dict[str, Any]:
        """What decides what is read."""
        return {}
