"""Text tables line by line: fields between delimiters, quoted or not, in constant memory."""

import csv
from collections.abc import Iterable, Iterator
from typing import IO, Final, NamedTuple

from data.intake.rows import Unreadable, quoted
from data.intake.rules import ImportRule
from data.intake.source import Line, lines_of

MAX_COLUMNS: Final = 1_000
MAX_RECORD_LINES: Final = 20
"""Most lines of one record: bounds what a stray quote can cost."""

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
    taken = [first]

    def texts() -> Iterator[str]:
        yield first.text + "\n"
        while len(taken) < MAX_RECORD_LINES:
            line = waiting.pop(0) if waiting else next(source, None)
            if line is None or line.fault is not None:
                if line is not None:
                    waiting.insert(0, line)
                return
            taken.append(line)
            yield line.text + "\n"

    try:
        values = next(csv.reader(texts(), delimiter=delimiter, strict=True, skipinitialspace=True))
    except (csv.Error, StopIteration) as error:
        waiting[:0] = taken[1:]
        return Unreadable(ImportRule.BAD_QUOTING, f"the quoting is broken: {error}")
    mended = next((line for line in taken if line.is_mended), first)
    return Fields(values, mended.is_mended, mended.bytes_hash)


def _split(line: Line, delimiter: str) -> Fields:
    return Fields(line.text.split(delimiter), line.is_mended, line.bytes_hash)


def _fault(line: Line) -> Unreadable:
    if line.fault == "nul":
        return Unreadable(ImportRule.NUL_BYTE, "the line holds a NUL byte")
    return Unreadable(ImportRule.LINE_TOO_LONG, "the line has more bytes than are read of one")
