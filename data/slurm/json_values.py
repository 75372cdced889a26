"""Values in Slurm's JSON: a number is one, or an object of `set`, `infinite` and `number`, by version."""

import math
from typing import Any, Final

from data.intake.rows import RejectedError, quoted
from data.intake.rules import ImportRule
from data.slurm.durations import is_null
from data.stamps import Instant, parse_stamp

_UNSET: Final = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 0xFFFE, 0xFFFF})
"""Slurm's numbers that stand for none, in 16, 32 and 64 bits."""


def as_object(value: object) -> dict[str, Any]:
    """An object; an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """A word, or a whole number as one; empty for everything else."""
    if isinstance(value, str):
        return value
    number = as_number(value)
    return "" if number is None or not number.is_integer() else str(int(number))


def as_number(value: object) -> float | None:
    """A number in any shape; infinite where it is so, None where it is not set."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return math.inf
        return None if value.get("set") is False else as_number(value.get("number"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in _UNSET else float(value)


def as_amount(value: object) -> float | None:
    """A finite number that is not negative; None for everything else."""
    number = as_number(value)
    return number if number is not None and 0 <= number < math.inf else None


def as_instant(value: object, name: str) -> Instant | None:
    """An instant; 0 has not come yet.

    Raises:
        RejectedError: if it is none.
    """
    text = as_text(value)
    if is_null(text) or text == "0":
        return None
    try:
        return parse_stamp(text, None)
    except ValueError as error:
        raise RejectedError(ImportRule.BAD_TIME, f"{name} {quoted(text)} is no instant") from error


def limit_word(value: object) -> str:
    """A limit as `sacct` would print it; one that is not set is the partition's."""
    if isinstance(value, dict) and value.get("set") is False and not value.get("infinite"):
        return "Partition_Limit"
    if isinstance(value, int) and value in _UNSET:
        return str(value)
    number = as_number(value)
    return "UNLIMITED" if number == math.inf else as_text(value)
