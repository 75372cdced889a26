"""Text tables line by line: fields between delimiters, quoted or not, in constant memory."""

import csv
from collections.abc import Iterable, Iterator
from typing import IO, Final, NamedTuple

from data.intake.rows import Unreadable, quoted
from data.intake.rules import ImportRule
from data.intake.source import Line, lines_of

MAX_COLUMNS: Final = 1_000
MAX_RECORD_LINES: Final = 20
"""Most lines of one record: with the next, bounds what a stray quote can cost."""

MAX_RECORD_CHARACTERS: Final = 2**17
"""Most characters of a record of several lines."""

_MOST_SHOWN: Final = 4


class Fields(NamedTuple):
    """One line of a table.

    Attributes:
        values: its fields, not trimmed.
        is_mended: whether bytes that are not UTF-8 were replaced in it.
        bytes_hash: of the line's bytes as they were, where some were replaced.
    """

    values: list[str]
    is_mended: bool = False
    bytes_hash: str | None = None


def readable(lines: Iterable[Line]) -> Iterator[tuple[int, Line | Unreadable]]:
    """Lines that are not blank, and why the others cannot be read."""
    for line in lines:
        if line.fault is not None:
            yield line.number, _fault(line)
        elif line.text and not line.text.isspace():
            yield line.number, line


def split_lines(file: IO[bytes], delimiter: str) -> Iterator[tuple[int, Fields | Unreadable]]:
    """Lines split at a delimiter of one or more characters; quotes mean nothing."""
    for line in lines_of(file):
        number, text, is_mended, fault, bytes_hash = line
        if fault is not None:
            yield number, _fault(line)
        elif text and not text.isspace():
            yield number, Fields(text.split(delimiter), is_mended, bytes_hash)


def csv_lines(file: IO[bytes], delimiter: str = ",") -> Iterator[tuple[int, Fields | Unreadable]]:
    """Records of a CSV file (RFC 4180), each with its first line; broken quoting costs that line only."""
    waiting: list[Line] = []
    source = lines_of(file)
    while True:
        line = waiting.pop(0) if waiting else next(source, None)
        if line is None:
            return
        if line.fault is not None:
            yield line.number, _fault(line)
        elif '"' not in line.text:
            if line.text and not line.text.isspace():
                yield line.number, _split(line, delimiter)
        else:
            yield line.number, _quoted(line, waiting, source, delimiter)


def fit(values: list[str], columns: int) -> list[str] | None:
    """The values of a line as wide as its header; one empty field more at the end (`sacct -p`) is no field.

    Returns:
        None if there are more or fewer.
    """
    if len(values) == columns:
        return values
    if len(values) == columns + 1 and not values[-1].strip():
        return values[:-1]
    return None


def other_width(values: list[str], columns: int) -> str:
    """What is said of a line that is wider or narrower than its header."""
    shown = ", ".join(quoted(value) for value in values[:_MOST_SHOWN])
    return f"the row has {len(values)} fields, the header has {columns}; it begins {shown}"


def _quoted(first: Line, waiting: list[Line], source: Iterator[Line], delimiter: str) -> Fields | Unreadable:
    """The record that begins on a line with a quote; lines it turns out not to need go back to `waiting`."""
    try:
        return Fields(_parsed([first.text], delimiter), first.is_mended, first.bytes_hash)
    except csv.Error as error:
        broken = error
    taken = [first]
    if not _is_open_ended(broken):
        return _bad_quoting(broken)
    try:
        values = _parsed(_following(taken, waiting, source), delimiter)
    except csv.Error as error:
        waiting[:0] = taken[1:]
        return _bad_quoting(error)
    hashes = [line.bytes_hash for line in taken if line.is_mended]
    return Fields(values, bool(hashes), hashes[0] if hashes else None)


def _parsed(lines: Iterable[str], delimiter: str) -> list[str]:
    return next(csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True))


def _is_open_ended(error: csv.Error) -> bool:
    return "unexpected end of data" in str(error)


def _following(taken: list[Line], waiting: list[Line], source: Iterator[Line]) -> Iterator[str]:
    """Texts of the lines taken, and of more, as long as a record may be."""
    yield taken[0].text + "\n"
    room = MAX_RECORD_CHARACTERS - len(taken[0].text)
    while len(taken) < MAX_RECORD_LINES:
        line = waiting.pop(0) if waiting else next(source, None)
        if line is None:
            return
        room -= len(line.text)
        if line.fault is not None or room < 0:
            waiting.insert(0, line)
            return
        taken.append(line)
        yield line.text + "\n"


def _bad_quoting(error: csv.Error) -> Unreadable:
    found = "it is not closed" if _is_open_ended(error) else str(error).partition(" - ")[0]
    return Unreadable(ImportRule.BAD_QUOTING, f"the quoting is broken: {found}")


def _split(line: Line, delimiter: str) -> Fields:
    return Fields(line.text.split(delimiter), line.is_mended, line.bytes_hash)


def _fault(line: Line) -> Unreadable:
    if line.fault == "nul":
        return Unreadable(ImportRule.NUL_BYTE, "the line holds a NUL byte")
    return Unreadable(ImportRule.LINE_TOO_LONG, "the line has more bytes than are read of one")
