"""What nodes tell. It may hold anything, such as names of processes: it is bounded and made printable."""

import math
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

MAX_TEXT: Final = 2_000
"""Longest text that is kept, characters; longer ones are cut."""

_MAX_DEPTH: Final = 10
_MAX_ENTRIES: Final = 256
_MAX_NAME: Final = 128
_MAX_WHOLE: Final = 2**53
_CUT: Final = "..."
_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"


def printable(text: str, longest: int = MAX_TEXT) -> str:
    """Text without control characters, line breaks or half surrogate pairs, cut if it is too long."""
    if len(text) > longest:
        text = text[: longest - len(_CUT)] + _CUT
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _UNPRINTABLE for letter in text)


def cleaned(value: Any, depth: int = 0) -> Any:
    """A JSON value with all its texts printable.

    Raises:
        ValueError: if it is nested too deeply, or holds a number that cannot be kept.
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("numbers have to be finite")
    if isinstance(value, int) and abs(value) > _MAX_WHOLE:
        raise ValueError(f"whole numbers have to lie within {_MAX_WHOLE}")
    if not isinstance(value, dict | list):
        return value
    if depth >= _MAX_DEPTH:
        raise ValueError(f"values may be nested {_MAX_DEPTH} deep")
    if isinstance(value, list):
        return [cleaned(item, depth + 1) for item in value]
    return {printable(str(name), _MAX_NAME): cleaned(item, depth + 1) for name, item in value.items()}


def _small(value: dict[str, Any]) -> dict[str, Any]:
    """No object or list in it has too many entries."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict | list):
            if len(one) > _MAX_ENTRIES:
                raise ValueError(f"at most {_MAX_ENTRIES} entries are taken")
            left.extend(one.values() if isinstance(one, dict) else one)
    return value


Anything = Annotated[dict[str, Any], AfterValidator(_small)]
"""A JSON object of whatever kind, within bounds."""


class Told(BaseModel):
    """Base of bodies that executors send."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _is_clean(cls, data: Any) -> Any:
        return cleaned(data)


class Part(BaseModel):
    """Base of what such bodies consist of; the whole has been cleaned before."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)
