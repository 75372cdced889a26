"""Values of tables, text or typed, to what a record has. What cannot be read is told, never guessed."""

import json
import math
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from data.intake.fields import FIELDS, TIME_UNITS, UNITS, Unit
from data.intake.instants import Stamps, from_offset, parsed
from data.intake.mapping import ColumnRule
from data.intake.rows import Notes, RejectedError, quoted
from data.intake.rules import ImportRule
from data.records import MOST
from data.slurm.durations import parse_elapsed_s, parse_limit
from data.stamps import Doubt, Instant
from domain.attempts import UNKNOWN_LIMIT, UNLIMITED, Limit, LimitKind

NULLS: Final = frozenset({"", "null", "none", "nan", "nat", "n/a", "na", "<na>", "\\n"})
"""Words that mean that nothing is known, in lower case, where no text is expected."""

TEXT_NULLS: Final = frozenset({"", "null", "none", "n/a", "<na>", "\\n"})
"""The same for texts: people are called Na and Nan."""

_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?", re.ASCII)

Number = int | float

ReadNumber = Callable[[Any, Notes], Number | None]
ReadInstant = Callable[[Any, Notes], Instant | None]
IsNull = Callable[[Any], bool]


class NotANumberError(ValueError):
    """A value that is no finite number."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{quoted(value)} is no number")


def nulls_of(words: frozenset[str]) -> IsNull:
    """Whether a value means that nothing is known: it is one of `words`, in lower case, or not there."""
    texts = words | {""}
    numbers = frozenset(float(word) for word in words if _NUMBER.fullmatch(word))

    def is_null(value: Any) -> bool:
        if value is None:
            return True
        if isinstance(value, str):
            return value in texts or value.strip().casefold() in texts
        if isinstance(value, float):
            return math.isnan(value) or value in numbers
        if isinstance(value, int):
            return value in numbers
        return type(value).__name__ == "NaTType"  # a Parquet file of nanoseconds gives it

    return is_null


def text_of(value: Any) -> str:
    """A value as text: whole numbers without a fraction, truth values in lower case."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, sort_keys=True)
    return str(value)


def number_of(value: Any) -> Number:
    """A value as a number.

    Raises:
        NotANumberError: if it is none, or is infinite.
    """
    if isinstance(value, str):
        word = value.strip()
        if _NUMBER.fullmatch(word) is None:
            raise NotANumberError(word)
        found: Number = int(word) if word.isdecimal() else float(word)
    elif isinstance(value, Decimal):
        found = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    else:
        raise NotANumberError(value)
    if not math.isfinite(found):
        raise NotANumberError(value)
    return found


def in_unit(value: Number, unit: Unit) -> Number:
    """A value in the record's own unit; whole numbers stay exact."""
    times, by = unit
    return value * times if by == 1 else value * times / by


def amounts(rule: ColumnRule, bad: ImportRule) -> ReadNumber:
    """Reads amounts; one that is no number, negative or beyond counting is not known, with a note.

    Args:
        rule: of the column.
        bad: what is told of such a value.
    """
    unit = UNITS[FIELDS[rule.field]][rule.unit] if rule.unit else (1, 1)
    name = rule.field

    def read(value: Any, notes: Notes) -> Number | None:
        try:
            found = in_unit(number_of(value), unit)
        except ValueError as error:
            notes.add(bad, f"{name}: {error}; taken as not known")
            return None
        if not 0 <= found <= MOST:
            notes.add(bad, f"{name} is {quoted(value)}, which is no amount; taken as not known")
            return None
        return found

    return read


def lengths(rule: ColumnRule) -> ReadNumber:
    """Reads lengths, seconds; what cannot be read is not known, with a note; a negative one is rejected."""
    name = rule.field
    unit = TIME_UNITS.get(rule.unit)

    def read(value: Any, notes: Notes) -> Number | None:
        try:
            if unit is None:
                return parse_elapsed_s(text_of(value))
            found_s = in_unit(number_of(value), unit)
        except ValueError as error:
            notes.add(ImportRule.BAD_DURATION, f"{name}: {error}; taken as not known")
            return None
        if not 0 <= found_s <= MOST:
            raise RejectedError(ImportRule.IMPOSSIBLE, f"{name} is {quoted(value)}, which is no length")
        return found_s

    return read


def limits(rule: ColumnRule) -> Callable[[Any, Notes], Limit]:
    """Reads limits; one that cannot be read, and one of no length, is unknown."""
    unit = TIME_UNITS.get(rule.unit)

    def read(value: Any, notes: Notes) -> Limit:
        text = text_of(value)
        if text.casefold() in rule.unlimited:
            return UNLIMITED
        try:
            if unit is None:
                return parse_limit(text)
            limit_s = float(in_unit(number_of(value), unit))
        except ValueError as error:
            notes.add(ImportRule.BAD_LIMIT, f"{error}; taken as unknown")
            return UNKNOWN_LIMIT
        if limit_s == 0.0:
            return UNKNOWN_LIMIT
        if not 0.0 < limit_s <= MOST:
            notes.add(ImportRule.BAD_LIMIT, f"the limit {quoted(text)} is none; taken as unknown")
            return UNKNOWN_LIMIT
        return Limit(LimitKind.FINITE, limit_s)

    return read


def instants(rule: ColumnRule, stamps: Stamps, origin_s: float, *, is_relative: bool) -> ReadInstant:
    """Reads instants: stamps, instants of Parquet with and without a zone, numbers from an origin.

    Args:
        rule: of the column.
        stamps: of the cluster.
        origin_s: instant that numbers count from.
        is_relative: whether that is not the true one, so that a stamp cannot stand beside numbers.
    """
    name = rule.field
    unit = TIME_UNITS[rule.unit]

    def read(value: Any, _notes: Notes) -> Instant | None:
        if isinstance(value, datetime):
            return (
                at(from_offset(value.timestamp(), 0.0, name))
                if value.tzinfo is not None
                else stamp(value.isoformat(sep=" "))
            )
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is None:
            return stamp(value)
        try:
            offset_s = in_unit(number_of(value), unit)
        except ValueError as error:
            raise RejectedError(ImportRule.BAD_TIME, f"{name}: {error}, and no time stamp") from error
        return at(from_offset(offset_s, origin_s, name))

    def stamp(text: str) -> Instant:
        if is_relative:
            found = f"{name} {quoted(text)} is no number of seconds, and the table counts from an origin"
            raise RejectedError(ImportRule.BAD_TIME, found)
        return parsed(stamps, text.strip(), name)

    return read


def at(epoch_s: float) -> Instant:
    """An instant that nothing is doubtful about."""
    return Instant(epoch_s, Doubt.NONE, epoch_s)
