"""An entry of a patch, read field by field: what is missing, wrong or left over is an error that names it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MAX_TEXT: Final = 255
_MAX_LISTED: Final = 10_000


class EntryError(Exception):
    """A field that is not as it has to be.

    Attributes:
        is_missing: whether it is not there at all.
    """

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        super().__init__(message)
        self.is_missing = is_missing


class Entry:
    """One entry: a table of fields, each asked for once.

    Args:
        fields: as read from JSON or TOML.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self._asked: set[str] = {"kind"}

    def has(self, name: str) -> bool:
        """Whether a field is there, and not null."""
        self._asked.add(name)
        return self._fields.get(name) is not None

    def one_of(self, *names: str) -> str:
        """The one of several fields that is there.

        Raises:
            EntryError: unless it is exactly one.
        """
        there = [name for name in names if self.has(name)]
        if len(there) != 1:
            found = " and ".join(there) if there else "none of them"
            raise EntryError(
                f"exactly one of {', '.join(names)} has to be there, found {found}", is_missing=not there
            )
        return there[0]

    def text(self, name: str) -> str:
        """A text of 1 to 255 characters."""
        value = self._get(name)
        if not isinstance(value, str) or not 1 <= len(value) <= _MAX_TEXT:
            raise EntryError(f"{name} is {_shown(value)}, must be a text of 1 to {_MAX_TEXT} characters")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        value = self._get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not low <= value <= high:
            raise EntryError(f"{name} is {_shown(value)}, must be a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise EntryError(f"{name} is {_shown(value)}, must be a whole number from {low} to {high}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, at least one."""
        value = self._get(name)
        if isinstance(value, str) or not isinstance(value, Sequence) or not 1 <= len(value) <= _MAX_LISTED:
            raise EntryError(f"{name} is {_shown(value)}, must be a list of 1 to {_MAX_LISTED} texts")
        wrong = [one for one in value if not isinstance(one, str) or not 1 <= len(one) <= _MAX_TEXT]
        if wrong:
            raise EntryError(
                f"{name} lists {_shown(wrong[0])}, must list texts of 1 to {_MAX_TEXT} characters"
            )
        return tuple(value)

    def settings(self, name: str) -> dict[str, str]:
        """A table of settings; numbers and switches become the texts that a command line would have."""
        value = self._get(name)
        if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
            raise EntryError(f"{name} is {_shown(value)}, must be a table of settings")
        return {key: _setting_text(name, key, one) for key, one in value.items()}

    def wholes(self, name: str, low: int, high: int) -> dict[str, int]:
        """A table of whole numbers by name, at least one."""
        value = self._get(name)
        if not isinstance(value, Mapping) or not value:
            raise EntryError(f"{name} is {_shown(value)}, must be a table with at least one number")
        inner = Entry(value)
        return {key: inner.whole(key, low, high) for key in value}

    def moment(self, name: str) -> str | float:
        """An instant: seconds, or a text that says it."""
        value = self._get(name)
        return self.text(name) if isinstance(value, str) else self.number(name, -1e11, 1e11)

    def left_over(self) -> list[str]:
        """Fields that nobody has asked for."""
        return sorted(str(name) for name in self._fields if name not in self._asked)

    def known(self) -> list[str]:
        """Fields that have been asked for."""
        return sorted(self._asked)

    def _get(self, name: str) -> Any:
        if not self.has(name):
            raise EntryError(f"{name} has to be there", is_missing=True)
        return self._fields[name]


def _setting_text(name: str, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, str) and len(value) <= _MAX_TEXT:
        return value
    raise EntryError(f"{name}.{key} is {_shown(value)}, must be a text, a number or a switch")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
