"""Objects of JSON files one by one: lists inside of documents of any size, and lines of JSON."""

import codecs
import json
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import IO, Any, Final

import ijson

from data.intake.delimited import readable
from data.intake.rows import MendedObject, Unreadable, quoted
from data.intake.rules import ImportRule
from data.intake.source import MAX_LINE_BYTES, BrokenFileError, Line, lines_of

MAX_EVENTS: Final = 200_000
"""Most names and values of one object."""

MAX_DEPTH: Final = 60

_HOPELESS_DEPTH: Final = 10_000
"""What is nested deeper is not even read over: the parser keeps a place per level."""

_MOST_DIGITS: Final = 4_000
_ENDLESS: Final = re.compile(rb"\d{%d}" % _MOST_DIGITS)

_BROKEN: Final = (ijson.JSONError, ValueError, ArithmeticError)
"""Documents that are none, texts of half characters, numbers beyond any."""

Item = tuple[int, dict[str, Any] | Unreadable]
_Event = tuple[str, Any]


def json_lines(file: IO[bytes]) -> Iterator[Item]:
    """One object per line, by the line's number; `NaN` and `Infinity` are no JSON."""
    for number, line in readable(lines_of(file)):
        yield number, line if isinstance(line, Unreadable) else _from_line(line)


def json_items(file: IO[bytes], prefixes: Sequence[str], *, several: bool = False) -> Iterator[Item]:
    """Elements of lists inside one JSON document, by their place from 1 on, in constant memory.

    Bytes that are not UTF-8 are replaced, a byte order mark is left out. Of a name that an object has twice
    the later value counts.

    Args:
        file: the document.
        prefixes: where the lists' elements are, as ijson has it: `item` for a list on top, `jobs.item` for
            the list `jobs` of an object on top.
        several: whether other such documents may follow the first.

    Raises:
        BrokenFileError: where the document breaks or ends early; elements before are good.
    """
    wanted = frozenset(prefixes)
    depths = {prefix.count(".") + 1 if prefix else 0 for prefix in prefixes}
    document = _Document(file, several=several)
    events = document.events()
    path: list[str] = []
    place = 0
    try:
        for event, value in events:
            if event == "map_key":
                path[-1] = value
                continue
            if event in _ENDS:
                path.pop()
                continue
            if len(path) in depths and ".".join(path) in wanted:
                item = _item(document, events, event, value)
                place += 1
                yield place, item
            elif event in _STARTS:
                path.append("item")
                _check_depth(len(path), MAX_DEPTH)
    except _BROKEN as error:
        raise BrokenFileError(f"the JSON breaks after element {place}: {_first_line(error)}") from error


def json_documents(file: IO[bytes]) -> Iterator[Item]:
    """Objects one after the other without commas, each on any number of lines, by their place from 1 on.

    Raises:
        BrokenFileError: where one breaks or ends early; those before are good.
    """
    return json_items(file, ("",), several=True)


def json_events(file: IO[bytes]) -> Iterator[tuple[int, str, Any]]:
    """Events of a document as `ijson.basic_parse` has them, each with how many lists and maps it is in.

    Raises:
        BrokenFileError: where the document breaks or ends early.
    """
    depth = 0
    try:
        for event, value in _Document(file, several=False).events():
            depth -= event in _ENDS
            yield depth, event, value
            depth += event in _STARTS
            _check_depth(depth, MAX_DEPTH)
    except _BROKEN as error:
        raise BrokenFileError(f"the JSON breaks: {_first_line(error)}") from error


_STARTS: Final = frozenset({"start_map", "start_array"})
_ENDS: Final = frozenset({"end_map", "end_array"})


class _Document:
    """The events of a JSON document, from bytes made UTF-8.

    A text is in memory whole before there is an event of it; so bytes are counted from event to event. Of a
    whole number with more digits than Python reads the parser may end the process; it is never shown one.
    """

    def __init__(self, file: IO[bytes], *, several: bool) -> None:
        self._file = file
        self._several = several
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_first = True
        self._quiet_bytes = 0
        self._before = b""
        self._is_endless = False
        self.is_mended = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as the parser asks for them."""
        found = b""
        while size and not found:
            block = self._file.read(size)
            self._quiet_bytes += len(block)
            if self._quiet_bytes > MAX_LINE_BYTES:
                raise ValueError(f"a text has more than {MAX_LINE_BYTES} bytes")
            found = self._as_utf8(block, is_last=not block)
            if not block:
                break
        return self._up_to_an_endless_number(found)

    def events(self) -> Iterator[_Event]:
        """Events, as `ijson.basic_parse` has them."""
        for event in ijson.basic_parse(self, multiple_values=self._several):
            self._quiet_bytes = 0
            yield event

    def _up_to_an_endless_number(self, block: bytes) -> bytes:
        both = self._before + block
        run = None if self._is_endless else _ENDLESS.search(both)
        good = len(block) if run is None else run.start() - len(self._before)
        if self._is_endless or good <= 0 < len(block):
            raise ValueError(f"a number has {_MOST_DIGITS} digits or more")
        self._is_endless = run is not None
        self._before = both[-_MOST_DIGITS:]
        return block[:good]

    def _as_utf8(self, block: bytes, *, is_last: bool) -> bytes:
        text = self._decoder.decode(block, is_last)
        if text and self._is_first:
            self._is_first = False
            text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        self.is_mended = self.is_mended or "\N{REPLACEMENT CHARACTER}" in text
        return text.encode()


class _Building:
    """An element on its way: events become dictionaries and lists, as long as it is not too large."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._names: list[str] = []
        self._seen = 0
        self._bytes = 0
        self.found: Any = None
        self.fault: str | None = None

    def add(self, event: str, value: Any) -> None:
        """Take the next event."""
        self._seen += 1
        if event == "map_key":
            self._names[-1] = value
            self._bytes += len(value)
        elif event in _ENDS:
            self._open.pop()
            self._names.pop()
        elif event in _STARTS:
            inner: Any = {} if event == "start_map" else []
            self._put(inner)
            self._open.append(inner)
            self._names.append("")
        else:
            self._put(self._scalar(value))
        if self._seen > MAX_EVENTS or self._bytes > MAX_LINE_BYTES or len(self._open) > MAX_DEPTH:
            self.fault = "the object has more values, longer or deeper ones, than are read"

    def _scalar(self, value: Any) -> Any:
        if isinstance(value, str):
            self._bytes += len(value)
        elif isinstance(value, Decimal):
            number = float(value)
            if not math.isfinite(number):
                self.fault = f"the object has the number {quoted(value)}"
            return number
        return value

    def _put(self, value: Any) -> None:
        if not self._open:
            self.found = value
        elif isinstance(self._open[-1], dict):
            self._open[-1][self._names[-1]] = value
        else:
            self._open[-1].append(value)


def _item(document: _Document, events: Iterator[_Event], event: str, value: Any) -> Any:
    """The element that this event begins. One that is too large is read over, not kept."""
    building: _Building | None = _Building()
    fault: str | None = None
    depth = 0
    while True:
        depth += (event in _STARTS) - (event in _ENDS)
        if building is not None:
            building.add(event, value)
            fault = building.fault
            building = building if fault is None else None
        else:
            _check_depth(depth, _HOPELESS_DEPTH)
        if not depth:
            break
        event, value = next(events)
    if building is None:
        return Unreadable(ImportRule.LINE_TOO_LONG, str(fault))
    return _object(building.found, is_mended=document.is_mended)


def _check_depth(depth: int, most: int) -> None:
    if depth > most:
        raise ValueError(f"nested deeper than {most} levels")


def _from_line(line: Line) -> dict[str, Any] | Unreadable:
    try:
        found = json.loads(line.text, parse_constant=_no_constant, parse_float=_finite)
        if _MAY_BE_LONE.search(line.text) is not None:
            found = _without_lone_surrogates(found)
        return _object(found, is_mended=line.is_mended)
    except RecursionError:
        return Unreadable(ImportRule.NOT_AN_OBJECT, "the line is nested deeper than is read")
    except ValueError as error:
        return Unreadable(ImportRule.NOT_AN_OBJECT, f"the line is no JSON: {_first_line(error)}")


_MAY_BE_LONE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _without_lone_surrogates(found: Any) -> Any:
    """The same with U+FFFD for halves of characters, which no file can hold."""
    if isinstance(found, str):
        return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(found, list):
        return [_without_lone_surrogates(one) for one in found]
    if isinstance(found, dict):
        return {_without_lone_surrogates(name): _without_lone_surrogates(one) for name, one in found.items()}
    return found


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {quoted(text)} is beyond any")
    return number


def _first_line(error: BaseException) -> str:
    """What the parser says, without the bytes that it shows beside it."""
    if isinstance(error, UnicodeError):
        return "a text holds half of a character"
    found = error.args[0] if error.args else ""
    if isinstance(error, ArithmeticError):
        return "a number is beyond any"
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return text.strip().partition("\n")[0]


def _object(found: Any, *, is_mended: bool = False) -> dict[str, Any] | Unreadable:
    if not isinstance(found, dict):
        return Unreadable(ImportRule.NOT_AN_OBJECT, f"an object is expected, this is {_kind(found)}")
    if is_mended and _holds_replacement(found):
        return MendedObject(found)
    return found


def _kind(found: Any) -> str:
    if found is None or isinstance(found, bool | int | float | str):
        return quoted(json.dumps(found))
    return "a list"


def _holds_replacement(found: Any) -> bool:
    return "\N{REPLACEMENT CHARACTER}" in json.dumps(found, ensure_ascii=False)
