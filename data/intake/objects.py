"""Objects of JSON files one by one: lists inside of documents of any size, and lines of JSON."""

import codecs
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import IO, Any, Final

import ijson

from data.intake.delimited import readable
from data.intake.rows import Unreadable, quoted
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError, lines_of

MAX_EVENTS: Final = 200_000
"""Most names and values of one object."""

MAX_DEPTH: Final = 60

Item = tuple[int, dict[str, Any] | Unreadable]


def json_lines(file: IO[bytes]) -> Iterator[Item]:
    """One object per line, by the line's number."""
    for number, line in readable(lines_of(file)):
        if isinstance(line, Unreadable):
            yield number, line
            continue
        try:
            found = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            yield number, Unreadable(ImportRule.NOT_AN_OBJECT, f"the line is no JSON: {error}")
            continue
        yield number, _object(found)


def json_items(file: IO[bytes], prefixes: Sequence[str], *, several: bool = False) -> Iterator[Item]:
    """Elements of lists inside one JSON document, by their place from 1 on, in constant memory.

    Args:
        file: the document.
        prefixes: where the lists' elements are, as ijson has it: `item` for a list on top, `jobs.item` for
            the list `jobs` of an object on top.
        several: whether other such documents may follow the first.

    Raises:
        BrokenFileError: where the document breaks or ends early; elements before are good.
    """
    wanted = frozenset(prefixes)
    events = _numbers_as_floats(ijson.parse(_Utf8(file), multiple_values=several))
    place = 0
    try:
        for prefix, event, value in events:
            if prefix in wanted and not event.startswith("end_"):
                item = _item(events, event, value)
                place += 1
                yield place, item
    except (ijson.JSONError, ValueError, UnicodeError) as error:
        raise BrokenFileError(f"the JSON breaks after element {place}: {error}") from error


def json_documents(file: IO[bytes]) -> Iterator[Item]:
    """Objects one after the other without commas, each on any number of lines, by their place from 1 on.

    Raises:
        BrokenFileError: where one breaks or ends early; those before are good.
    """
    events = _numbers_as_floats(ijson.parse(_Utf8(file), multiple_values=True))
    place = 0
    try:
        for _, event, value in events:
            place += 1
            yield place, _item(events, event, value)
    except (ijson.JSONError, ValueError, UnicodeError) as error:
        raise BrokenFileError(f"the JSON breaks after object {place}: {error}") from error


class _Utf8:
    """A file whose bytes that are not UTF-8 are replaced: a bad name does not cost the rest of a document."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")

    def read(self, size: int = -1) -> bytes:
        """Some bytes, at most a few more than asked for; none at the end."""
        while size:
            block = self._file.read(size)
            text = self._decoder.decode(block, final=not block)
            if text or not block:
                return text.encode()
        return b""


def _numbers_as_floats(events: Iterator[tuple[str, str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Events with whole numbers as they are, of any size, and floats for all others.

    The parser's own mode for that breaks off at whole numbers of 64 bits without a sign: Slurm has them.
    """
    for prefix, event, value in events:
        yield prefix, event, float(value) if isinstance(value, Decimal) else value


def _item(events: Iterator[tuple[str, str, Any]], event: str, value: Any) -> dict[str, Any] | Unreadable:
    """The element that this event begins. One that is too large is read over, not kept."""
    if event not in {"start_map", "start_array"}:
        return _object(value)
    builder: Any = ijson.ObjectBuilder()
    builder.event(event, value)
    depth = seen = 1
    is_too_large = False
    while depth:
        _, event, value = next(events)
        depth += event.startswith("start_") - event.startswith("end_")
        seen += 1
        if seen > MAX_EVENTS or depth > MAX_DEPTH:
            is_too_large, builder = True, None
        if builder is not None:
            builder.event(event, value)
    if is_too_large:
        return Unreadable(
            ImportRule.LINE_TOO_LONG, "the object has more values, or deeper ones, than are read"
        )
    return _object(builder.value)


def _object(found: Any) -> dict[str, Any] | Unreadable:
    if isinstance(found, dict):
        return found
    return Unreadable(
        ImportRule.NOT_AN_OBJECT, f"an object is expected, this is {quoted(json.dumps(found)[:80])}"
    )
