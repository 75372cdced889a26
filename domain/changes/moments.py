"""Instants and spans of time in a patch: seconds, RFC 3339, or so long after the span begins."""

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule

_UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
DAY_S: Final = 86_400.0


class Moment(NamedTuple):
    """An instant: seconds on the cluster's clock, or after the measured span begins."""

    at_s: float
    is_relative: bool

    def in_span(self, from_s: float) -> float:
        """Seconds on the cluster's clock."""
        return from_s + self.at_s if self.is_relative else self.at_s


def span_s(text: str) -> float:
    """Seconds of `90s`, `30m`, `6h` or `2d`.

    Raises:
        BrokenRuleError: for anything else.
    """
    found = _SPAN.fullmatch(text)
    if found is None:
        raise BrokenRuleError(
            ChangeRule.WRONG_VALUE, f"{text!r} is no span of time such as 90s, 30m, 6h or 2d"
        )
    return float(found[1]) * _UNITS_S[found[2]]


def moment(value: str | float, calendar: Calendar) -> Moment:
    """An instant from a number of seconds, `2026-11-02T10:00Z` or `+6h`. Without a time zone it is UTC.

    Raises:
        BrokenRuleError: for what is no instant, or a date where nobody knows the clock's origin.
    """
    if isinstance(value, float):
        return Moment(value, is_relative=False)
    if value.startswith("+"):
        return Moment(span_s(value[1:]), is_relative=True)
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        message = f"{value!r} is no instant: seconds, 2026-11-02T10:00Z, or +6h after the span begins"
        raise BrokenRuleError(ChangeRule.WRONG_VALUE, message) from error
    if calendar.origin is None:
        message = (
            f"{value!r} is a date, and nobody said what instant second 0 is: say it (--origin), or seconds"
        )
        raise BrokenRuleError(ChangeRule.WRONG_VALUE, message)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return Moment((at - calendar.origin).total_seconds(), is_relative=False)


def time_of_day_s(text: str, calendar: Calendar) -> float:
    """Seconds on the cluster's clock at which it is `HH:MM` in UTC for the first time from second 0 on.

    Raises:
        BrokenRuleError: for what is no time of day.
    """
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise BrokenRuleError(ChangeRule.WRONG_VALUE, f"{text!r} is no time of day such as 08:30")
    since_midnight_s = 0.0
    if calendar.origin is not None:
        origin = calendar.origin.astimezone(UTC)
        midnight = origin.replace(hour=0, minute=0, second=0, microsecond=0)
        since_midnight_s = (origin - midnight).total_seconds()
    return (int(found[1]) * 3600.0 + int(found[2]) * 60.0 - since_midnight_s) % DAY_S
