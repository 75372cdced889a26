"""Objects of a file one by one, however `kubectl` wrote it: lines, a list, a watch, documents one by one."""

import io
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from data.intake.objects import json_documents, json_events, json_items, json_lines
from data.intake.rows import Unreadable
from data.intake.source import BrokenFileError, head_of, opened
from data.kubernetes.objects import Object, text

_EVENTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "SYNC"})
_NAMES: Final = frozenset({"kind", "metadata", "object"})
_LOOK_AT: Final = 20
_NOT_OF_LISTS: Final = frozenset({"spec", "status", "object", "type", "data"})


class Seen(NamedTuple):
    """An object as a file shows it.

    Attributes:
        event: what a watch says became of it; None outside of a watch.
        found: the object.
    """

    event: str | None
    found: Object


def seen_objects(path: Path, file: IO[bytes]) -> Iterator[tuple[int, Seen | Unreadable]]:
    """Objects by their line, or their place where the file is no lines.

    Args:
        path: the file, for a look at how it begins.
        file: the same, opened.
    """
    start = head_of(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    is_list, kind = _list_of(start)
    items: Iterator[tuple[int, dict[str, Any] | Unreadable]]
    if is_list:
        items = json_items(file, ("items.item",), several=True)
    elif _is_lines(start):
        items = json_lines(file)
    elif start.startswith(b"["):
        items = json_items(file, ("item",))
    else:
        items = json_documents(file)
    for place, item in items:
        yield place, item if isinstance(item, Unreadable) else _seen(item, kind)


def first_objects(path: Path, most: int = 200) -> list[Seen]:
    """The first objects of a file, for telling what it holds; those before it breaks, if it does."""
    found: list[Seen] = []
    try:
        with opened(path) as file:
            for _, item in islice(seen_objects(path, file), most):
                if not isinstance(item, Unreadable):
                    found.append(item)
    except BrokenFileError:
        return found
    return found


def _is_lines(start: bytes) -> bool:
    """Whether one of the first lines is an object by itself, or the head holds no whole line."""
    lines = start.split(b"\n")
    if start.startswith(b"["):  # an array on lines of its own has objects on lines too, with commas behind
        return _parsed(lines[0]) is not None and any(line.strip() for line in lines[1:])
    if len(lines) == 1:
        return True
    return any(
        isinstance(one := _parsed(line), dict) and _NAMES.intersection(one) for line in lines[:_LOOK_AT]
    )


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _list_of(start: bytes) -> tuple[bool, str | None]:
    """Whether a document is a list of kubectl or of the API, and the kind that its elements leave unsaid."""
    kind = name = None
    try:
        for depth, event, value in json_events(io.BytesIO(start)):
            if depth > 1:
                continue
            if event == "map_key":
                name = value
            if (depth == 0 and event != "start_map") or name in _NOT_OF_LISTS:
                return False, None
            if name == "items" and event == "start_array":
                return True, kind
            if name == "kind" and event == "string":
                kind = str(value).removesuffix("List") or None
    except BrokenFileError:
        return False, None
    return False, None


def _seen(item: dict[str, Any], kind: str | None) -> Seen:
    event = text(item.get("type"))
    if event in _EVENTS and isinstance(item.get("object"), dict):
        return Seen(event, item["object"])
    if kind is not None and "kind" not in item:
        return Seen(None, {**item, "kind": kind})
    return Seen(None, item)
