"""Server-sent events, as the HTML standard has them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    """One event of a stream.

    Attributes:
        name: `message` where the stream does not say.
        data: its text; JSON here.
        event_id: by which the stream can be taken up again; None where it has none.
    """

    name: str
    data: str
    event_id: str | None


def read_events(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Events of a stream's lines. One that was cut off in the middle is left out, as the standard says."""
    name, event_id = "message", None
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(name, "\n".join(data), event_id)
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id" and "\0" not in value:
            event_id = value
