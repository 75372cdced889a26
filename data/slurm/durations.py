"""Durations in Slurm's words. The same text means different things as a limit and as elapsed time.

As a limit `30` is minutes and `4:00` four minutes; `30:00` is half an hour in both. A slip between the two is
silent and sixtyfold, so there are two functions and no default (sbatch(1), --time; sacct(1), Elapsed).
"""

import re
from typing import Final

from domain.attempts import INHERITED_LIMIT, UNKNOWN_LIMIT, UNLIMITED, Limit, LimitKind

NULLS: Final = frozenset({"", "none", "unknown", "n/a", "na", "null", "(null)", "invalid", "not_set", "nan"})
"""What stands for nothing, in lower case, in any version's output."""

_UNLIMITED: Final = frozenset({"unlimited", "infinite", "4294967295", "-1"})
_INHERITED: Final = frozenset({"partition_limit", "partitionlimit", "4294967294"})

_LIMIT: Final = re.compile(
    r"(?:(?P<days>\d{1,6})-(?P<day_hours>\d{1,2})(?::(?P<day_minutes>\d{1,2})(?::(?P<day_seconds>\d{1,2}))?)?"
    r"|(?P<hours>\d{1,7}):(?P<hour_minutes>\d{1,2}):(?P<hour_seconds>\d{1,2})"
    r"|(?P<minutes>\d{1,9})(?::(?P<seconds>\d{1,2}))?)",
    re.ASCII,
)
_ELAPSED: Final = re.compile(
    r"(?:(?P<days>\d{1,6})-(?=\d+:\d+:))?(?:(?P<hours>\d{1,7}):(?=\d+:))?(?P<minutes>\d{1,9}):(?P<seconds>\d{1,2}(?:\.\d{1,9})?)",
    re.ASCII,
)
_SECONDS_OF: Final = {
    "days": 86_400.0,
    "day_hours": 3600.0,
    "day_minutes": 60.0,
    "day_seconds": 1.0,
    "hours": 3600.0,
    "hour_minutes": 60.0,
    "hour_seconds": 1.0,
    "minutes": 60.0,
    "seconds": 1.0,
}


def is_null(text: str) -> bool:
    """Whether `text` stands for nothing."""
    return text.strip().casefold() in NULLS


def parse_limit(text: str) -> Limit:
    """A limit as the column Timelimit, `--time` or TimelimitRaw has it; a bare number is minutes.

    Raises:
        ValueError: if it is none of them, or a field is beyond its clock.
    """
    word = text.strip().casefold()
    if word in NULLS:
        return UNKNOWN_LIMIT
    if word in _UNLIMITED:
        return UNLIMITED
    if word in _INHERITED:
        return INHERITED_LIMIT
    found = _LIMIT.fullmatch(word)
    if found is None:
        raise ValueError(f"{text!r} is no time limit: minutes, [days-]hours:minutes:seconds, days-hours")
    return Limit(LimitKind.FINITE, _seconds(found, text))


def parse_elapsed_s(text: str) -> float | None:
    """Elapsed seconds as the columns Elapsed, TotalCPU or Suspended have them; None where there is nothing.

    Two fields are minutes and seconds, which may have a fraction. A bare number is refused: only the name of
    its column, such as ElapsedRaw, can say its unit.

    Raises:
        ValueError: if it is no elapsed time, or a field is beyond its clock.
    """
    word = text.strip()
    if word.casefold() in NULLS:
        return None
    found = _ELAPSED.fullmatch(word)
    if found is None:
        raise ValueError(f"{text!r} is no elapsed time: [[days-]hours:]minutes:seconds")
    return _seconds(found, text)


def limit_text(limit: Limit) -> str:
    """The limit as sacct would print it; the inverse of `parse_limit` for whole seconds."""
    match limit.kind:
        case LimitKind.UNLIMITED:
            return "UNLIMITED"
        case LimitKind.INHERITED:
            return "Partition_Limit"
        case LimitKind.UNKNOWN:
            return ""
        case LimitKind.FINITE:
            return elapsed_text(limit.limit_s or 0.0)


def elapsed_text(elapsed_s: float) -> str:
    """Whole seconds as sacct prints them: `[days-]hours:minutes:seconds`."""
    days, rest = divmod(round(elapsed_s), 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    clock = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{days}-{clock}" if days else clock


def _seconds(found: re.Match[str], text: str) -> float:
    fields = {name: float(value) for name, value in found.groupdict().items() if value is not None}
    _check_clock(list(fields.items()), text)
    return sum(value * _SECONDS_OF[name] for name, value in fields.items())


def _check_clock(fields: list[tuple[str, float]], text: str) -> None:
    """All but the first field have a larger unit before them and stay below it: 90 seconds are 1:30."""
    for name, value in fields[1:]:
        most = 24 if name.endswith("hours") else 60
        if value >= most:
            raise ValueError(f"{text!r} has {value:g} {name.removeprefix('day_').removeprefix('hour_')}")
