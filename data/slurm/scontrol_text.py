"""What `scontrol show` prints: records of `Key=value`, on one line each (`-o`) or on several."""

import re
from collections.abc import Iterator
from typing import IO, Final

from data.intake.delimited import readable
from data.intake.rows import Unreadable, quoted
from data.intake.rules import ImportRule
from data.intake.source import lines_of

MAX_RECORD_LINES: Final = 200
"""Most lines of one record; the longest real ones have thirty."""

_KEY: Final = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z0-9_/]*)=")
_FREE: Final = frozenset({"Reason", "Comment", "Extra"})
"""Texts that people write, to the end of their line: what looks like a key in them is none."""

Record = dict[str, str]


def scontrol_records(file: IO[bytes], first_key: str) -> Iterator[tuple[int, Record | Unreadable]]:
    """Records by their first line; a line that cannot be read costs its record.

    Args:
        file: the output.
        first_key: the key that each record begins with, such as `NodeName`.
    """
    begins = first_key + "="
    start, lines, fault = 0, [], None  # type: int, list[str], Unreadable | None
    for number, line in readable(lines_of(file)):
        if isinstance(line, Unreadable):
            fault = fault or line
            if not lines:
                yield number, line
                fault = None
            continue
        if line.text.lstrip().startswith(begins):
            if lines:
                yield start, _record(lines, fault)
            start, lines, fault = number, [line.text], None
        elif lines:
            if len(lines) <= MAX_RECORD_LINES:
                lines.append(line.text)
        else:
            message = f"{quoted(line.text.strip())} stands before the first {begins}"
            yield number, Unreadable(ImportRule.NOT_A_JOB, message)
    if lines:
        yield start, _record(lines, fault)


def _record(lines: list[str], fault: Unreadable | None) -> Record | Unreadable:
    if fault is not None:
        return fault
    if len(lines) > MAX_RECORD_LINES:
        return Unreadable(ImportRule.LINE_TOO_LONG, f"the record has more than {MAX_RECORD_LINES} lines")
    found: Record = {}
    for line in lines:
        for key, value in _pairs(line):
            found.setdefault(key, value)
    return found


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """Keys and values of a line: a value reaches to the next key, a text to the end."""
    keys = list(_KEY.finditer(line))
    for place, key in enumerate(keys):
        if key[1] in _FREE:
            yield key[1], line[key.end() :].strip()
            return
        end = keys[place + 1].start() if place + 1 < len(keys) else len(line)
        yield key[1], line[key.end() : end].strip()
