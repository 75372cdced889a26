"""A CSV file as columns of trimmed text with the line of each row; nothing is interpreted yet."""

import csv
import io
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from data.rules import FaultLog, Rule, shown
from data.validation import Lines, missing_column
from domain.errors import Fault, InputError

MAX_FILE_BYTES: Final = 2**28
"""Largest file that is read into memory."""

MAX_FIELD_CHARACTERS: Final = 10_000
"""Longest field that is accepted."""

MAX_RECORD_LINES: Final = 20
"""Most lines of one record: bounds what a stray quote can cost, in rows and in time."""

MAX_COLUMNS: Final = 1_000
"""Most columns of a file."""

_BATCH_ROWS: Final = 100  # few enough to be gone before the garbage collector looks at them

_MAGIC: Final = {
    b"\x89PNG": "a PNG image",
    b"\x1f\x8b": "a gzip archive, unpack it first",
    b"PK\x03\x04": "a zip archive or a spreadsheet, export it as CSV",
    b"%PDF": "a PDF document",
    b"\xff\xfe": "UTF-16 text, save it as UTF-8",
    b"\xfe\xff": "UTF-16 text, save it as UTF-8",
}
_OTHER_FORMATS: Final = {"{": "JSON", "[": "JSON", "<": "HTML or XML"}
_OTHER_DELIMITERS: Final = {";": "';'", "\t": "tabs", "|": "'|'"}
_UNDECODED: Final = re.compile("[\ud800-\udfff]")
_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})

_Record = tuple[int, list[str]]


@dataclass(frozen=True)
class CsvTable:
    """The rows of a CSV file that have as many fields as its header.

    Attributes:
        frame: one text column per column of the file, surrounding white space trimmed;
            an empty field is missing.
        lines: line of the file on which each row begins, from 1 on.
        log: faults of the rows that are not in `frame`, one fault each.
    """

    frame: pd.DataFrame
    lines: Lines
    log: FaultLog


def read_table(path: Path, required: tuple[str, ...], aliases: Mapping[str, str] = _NO_ALIASES) -> CsvTable:
    """Read a CSV file in UTF-8, with or without a byte order mark, whose first line is a header.

    A row whose quoting is broken costs that line only: reading goes on at the next line, so that one
    stray quote cannot swallow the rest of the file.

    Args:
        path: a regular file.
        required: columns that the header must name.
        aliases: other names of columns, and what they become.

    Raises:
        InputError: if the file cannot be read, is not CSV, or its header breaks a rule.
    """
    source = str(path)
    text = _decode(_read_bytes(path, source), source)
    _check_format(text, source)
    log = FaultLog(source)
    records = _records(list(io.StringIO(text, newline="")), log)
    line, header = next(records, (1, []))
    if log:
        raise InputError(log.listed())
    names = [aliases.get(name.strip(), name.strip()) for name in header]
    _check_header(names, required, line, source)
    _check_names(names, line, source)
    columns, lines = _columns(_good_rows(records, len(names), _is_text(text), log), len(names))
    frame = pd.DataFrame(dict(zip(names, map(_text_series, columns), strict=True)))
    return CsvTable(frame, np.array(lines, dtype=np.int64), log)


def _refuse(source: str, line: int | None, rule: Rule, message: str) -> InputError:
    return InputError([Fault(source, line, rule, message)])


def _read_bytes(path: Path, source: str) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise _refuse(source, None, Rule.UNREADABLE_FILE, "this is a directory, a file is expected")
        if not stat.S_ISREG(status.st_mode):
            raise _refuse(source, None, Rule.UNREADABLE_FILE, "this is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            found = f"the file has {status.st_size} bytes, at most {MAX_FILE_BYTES} are read"
            raise _refuse(source, None, Rule.TOO_LARGE, found)
        return path.read_bytes()
    except FileNotFoundError:
        raise _refuse(source, None, Rule.UNREADABLE_FILE, "there is no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refuse(source, None, Rule.UNREADABLE_FILE, f"the file cannot be read: {reason}") from error


def _decode(content: bytes, source: str) -> str:
    """Text of the file; bytes that are not UTF-8 become lone surrogates, to be refused with their row."""
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            raise _refuse(source, 1, Rule.NOT_TEXT, f"the file looks like {what}")
    nul = content.find(b"\0")
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1
        raise _refuse(source, line, Rule.NOT_TEXT, "the file holds a NUL byte, it is not text")
    return content.decode("utf-8-sig", "surrogateescape")


def _check_format(text: str, source: str) -> None:
    start = text.lstrip()
    if not start:
        raise _refuse(source, None, Rule.EMPTY_FILE, "the file is empty, a header and rows are expected")
    other = _OTHER_FORMATS.get(start[0])
    if other is not None:
        found = f"the file looks like {other}, comma-separated values are expected"
        raise _refuse(source, 1, Rule.NOT_CSV, found)


def _records(physical_lines: list[str], log: FaultLog) -> Iterator[_Record]:
    """First line and fields of each record that is not blank."""
    begin = end = 0

    def lines_of_a_record() -> Iterator[str]:
        nonlocal end
        while end < len(physical_lines) and end - begin < MAX_RECORD_LINES:
            end += 1
            yield physical_lines[end - 1]

    while begin < len(physical_lines):
        end = begin
        try:
            for fields in csv.reader(lines_of_a_record(), strict=True, skipinitialspace=True):
                line, begin = begin + 1, end
                if len(fields) > 1 or (fields and fields[0].strip()):
                    yield line, fields
        except csv.Error as error:
            log.add(begin + 1, *_broken_record(str(error), end - begin))
            begin += 1


def _broken_record(reason: str, num_lines: int) -> tuple[Rule, str]:
    is_too_long = "field limit" in reason
    if is_too_long and num_lines == 1:
        return Rule.FIELD_TOO_LONG, _too_long()
    if is_too_long or "end of data" in reason:
        return Rule.BAD_QUOTING, f"a quoted field is not closed, at most {MAX_RECORD_LINES} lines are allowed"
    return Rule.BAD_QUOTING, f"the quoting of the record that begins on this line is broken: {reason}"


def _too_long() -> str:
    return f"a field is too long, at most {MAX_FIELD_CHARACTERS} characters are allowed"


def _check_header(names: list[str], required: tuple[str, ...], line: int, source: str) -> None:
    if len(names) > MAX_COLUMNS:
        found = f"the first line names {len(names)} columns, at most {MAX_COLUMNS} are allowed"
        raise _refuse(source, line, Rule.NOT_CSV, found)
    present = [name for name in required if name in names]
    if len(present) == len(required):
        return
    joined = ",".join(names)
    for delimiter, what in _OTHER_DELIMITERS.items():
        split = {name.strip(' "\t') for name in joined.split(delimiter)}
        if len(split.intersection(required)) > len(present):
            found = f"columns look separated by {what}, expected ','"
            raise _refuse(source, line, Rule.NOT_CSV, found)
    if not present:
        found = f"the first line names none of the columns {', '.join(required)}: {shown(joined)}"
        raise _refuse(source, line, Rule.NOT_CSV, found)
    missing = [name for name in required if name not in names]
    raise InputError(
        [Fault(source, line, Rule.MISSING_COLUMN, missing_column(name, names)) for name in missing]
    )


def _check_names(names: list[str], line: int, source: str) -> None:
    log = FaultLog(source)
    for position, name in enumerate(names, start=1):
        if not name:
            log.add(line, Rule.UNNAMED_COLUMN, f"column {position} of {len(names)} has no name")
        elif not _is_text(name):
            log.add(line, Rule.NOT_TEXT, f"the name of column {position} is not UTF-8: {shown(name)}")
    for name, times in Counter(filter(None, names)).items():
        if times > 1:
            found = f"column {shown(name)} is there {times} times, once is allowed"
            log.add(line, Rule.DUPLICATE_COLUMN, found)
    if log:
        raise InputError(log.listed())


def _good_rows(records: Iterator[_Record], width: int, is_all_text: bool, log: FaultLog) -> Iterator[_Record]:
    """Rows as wide as the header; the others are logged."""
    for line, fields in records:
        if len(fields) != width:
            log.add(line, Rule.FIELD_COUNT, _other_width(fields, width))
        elif max(map(len, fields)) > MAX_FIELD_CHARACTERS:
            log.add(line, Rule.FIELD_TOO_LONG, _too_long())
        elif not (is_all_text or all(map(_is_text, fields))):
            log.add(line, Rule.NOT_TEXT, f"the row is not UTF-8: {shown(','.join(fields))}")
        else:
            yield line, fields


def _other_width(fields: list[str], width: int) -> str:
    num_lines = 1 + sum(field.count("\n") for field in fields)
    spans = f" and spans {num_lines} lines, is a quote missing?" if num_lines > 1 else ""
    return f"the row has {len(fields)} fields, the header has {width}{spans}"


def _columns(rows: Iterator[_Record], width: int) -> tuple[list[list[str]], list[int]]:
    """Trimmed columns and the line of each row."""
    columns: list[list[str]] = [[] for _ in range(width)]
    lines: list[int] = []
    while batch := list(islice(rows, _BATCH_ROWS)):
        lines.extend(line for line, _ in batch)
        for column, values in zip(columns, zip(*(fields for _, fields in batch), strict=True), strict=True):
            column.extend(map(str.strip, values))
    return columns, lines


def _text_series(texts: list[str]) -> pd.Series:
    return pd.Series([text or None for text in texts], dtype="str")


def _is_text(text: str) -> bool:
    return text.isascii() or _UNDECODED.search(text) is None
