"""Time stamps of accounting files to instants: epoch seconds UTC, with the cluster's zone for naive ones.

A naive stamp is ambiguous in the hour that autumn repeats and impossible in the hour that spring leaves out.
Both happen in real files; what was done about them is said, row by row, and never guessed from the zone of
the process.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MIN_INSTANT_S: Final = 0.0
MAX_INSTANT_S: Final = 4_102_444_800.0
"""The year 2100: stamps in milliseconds lie far beyond it."""

_STAMP: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[T ](?P<clock>\d{2}:\d{2}:\d{2})(?P<fraction>\.\d{1,9})?"
    r"(?: ?(?P<zone>Z|UTC|GMT|[A-Z]{3,4}|[+-]\d{2}:?\d{2}))?",
    re.ASCII,
)
_EPOCH: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)

_ABBREVIATIONS: Final = {
    "PST": timedelta(hours=-8),
    "PDT": timedelta(hours=-7),
    "CET": timedelta(hours=1),
    "CEST": timedelta(hours=2),
}
"""Abbreviations that stand for one offset; others (IST, CST, EST) stand for several and are refused."""


class Doubt(StrEnum):
    """What was not certain about a naive stamp."""

    NONE = "none"
    REPEATED_HOUR = "repeated_hour"
    """Autumn: the clock showed it twice; the earlier instant was taken unless a length told."""
    MISSING_HOUR = "missing_hour"
    """Spring: no clock showed it; moved forward by the hour left out."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A stamp's instant.

    Attributes:
        epoch_s: seconds since 1970 UTC.
        doubt: what was not certain.
        later_s: the other instant of a repeated hour; otherwise the same as `epoch_s`.
    """

    epoch_s: float
    doubt: Doubt
    later_s: float


class NoZoneError(ValueError):
    """A stamp without an offset, of a cluster whose zone is not known: nothing of the file can be placed.

    Attributes:
        line: line of the file, where whoever reads it has said so.
    """

    line: int | None = None


def zone(name: str) -> ZoneInfo:
    """The zone of that name.

    Raises:
        ValueError: if there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}; names look like Europe/Zurich") from None


def parse_stamp(text: str, tz: ZoneInfo | None) -> Instant:
    """The instant of a stamp: ISO 8601 with or without offset, or epoch seconds.

    Args:
        text: the stamp; null words are the caller's business.
        tz: the cluster's zone, for stamps without an offset.

    Raises:
        NoZoneError: if the stamp has no offset and there is no zone.
        ValueError: if it is no stamp, or lies outside of 1970 to 2100.
    """
    word = text.strip()
    if _EPOCH.fullmatch(word):
        return _certain(float(word), text)
    found = _STAMP.fullmatch(word)
    if found is None:
        raise ValueError(f"{text!r} is no time stamp: 2024-05-01T12:00:00, with an offset or without")
    try:
        naive = datetime.fromisoformat(f"{found['date']}T{found['clock']}")
    except ValueError as error:
        raise ValueError(f"{text!r} is on no calendar: {error}") from None
    fraction_s = float(found["fraction"] or 0.0)
    offset = None if found["zone"] is None else _offset(found["zone"], text)
    if offset is not None:
        return _certain((naive - offset).replace(tzinfo=UTC).timestamp() + fraction_s, text)
    if tz is None:
        raise NoZoneError(f"{text!r} has no offset, and the cluster's time zone is not given")
    return _local(naive, fraction_s, tz, text)


def fold_by_length(
    begin: Instant, end: Instant, length_s: float, not_before_s: float = 0.0
) -> tuple[float, float]:
    """Begin and end, each at the one of its instants for which end - begin comes closest to a known length.

    A begin before `not_before_s` is taken only if there is no other, and of equally good ones the earlier.
    """
    pairs = [(b, e) for b in (begin.epoch_s, begin.later_s) for e in (end.epoch_s, end.later_s)]
    return min(pairs, key=lambda pair: (pair[0] < not_before_s, abs(pair[1] - pair[0] - length_s), pair))


def _local(naive: datetime, fraction_s: float, tz: ZoneInfo, text: str) -> Instant:
    first, second = (_as_utc_s(naive, tz, fold) for fold in (0, 1))
    if first == second:
        return _certain(first + fraction_s, text)
    if first < second:
        _check(first, text)
        return Instant(first + fraction_s, Doubt.REPEATED_HOUR, second + fraction_s)
    moved_s = first + fraction_s  # the offset from before the change, read as after it: an hour later
    _check(moved_s, text)
    return Instant(moved_s, Doubt.MISSING_HOUR, moved_s)


def _as_utc_s(naive: datetime, tz: ZoneInfo, fold: int) -> float:
    offset = naive.replace(tzinfo=tz, fold=fold).utcoffset() or timedelta()
    return (naive - offset).replace(tzinfo=UTC).timestamp()


def _offset(word: str, text: str) -> timedelta:
    if word in {"Z", "UTC", "GMT"}:
        return timedelta()
    if word in _ABBREVIATIONS:
        return _ABBREVIATIONS[word]
    if word[0] not in "+-":
        raise ValueError(f"{text!r}: {word} may be several time zones; give an offset such as +01:00")
    hours, minutes = int(word[1:3]), int(word[-2:])
    if hours > 14 or minutes > 59:
        raise ValueError(f"{text!r}: no place on earth is {word} from UTC")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if word[0] == "-" else offset


def _certain(epoch_s: float, text: str) -> Instant:
    _check(epoch_s, text)
    return Instant(epoch_s, Doubt.NONE, epoch_s)


def _check(epoch_s: float, text: str) -> None:
    if not MIN_INSTANT_S <= epoch_s <= MAX_INSTANT_S:
        raise ValueError(f"{text!r} lies outside of 1970 to 2100")
