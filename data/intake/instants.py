"""Time stamps of rows to instants, fast: most stamps of a file share their hour with another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from data.intake.rows import Notes, RejectedError, quoted
from data.intake.rules import ImportRule
from data.stamps import MAX_INSTANT_S, MIN_INSTANT_S, Doubt, Instant, NoZoneError, fold_by_length, parse_stamp

MOST_HOURS: Final = 50_000
"""Hours that are remembered: more than five years of them."""

_PAST_THE_HOUR: Final = {
    f":{minute:02d}:{second:02d}": 60.0 * minute + second for minute in range(60) for second in range(60)
}

CLOSE_S: Final = 2.0
"""An instant at most so much before the one it follows is the clocks' doing."""


class Stamps:
    """Reads stamps of one cluster. An hour that no clock change touches is worked out once."""

    def __init__(self, tz: ZoneInfo | None) -> None:
        """Read naive stamps in this zone; None: refuse them."""
        self._tz = tz
        self._hours: dict[str, float] = {}
        self._odd_hours: set[str] = set()

    def certain_s(self, *texts: str) -> list[float] | None:
        """Instants of stamps like ones that were read before; None where `parse` has to look closely."""
        hours = self._hours
        try:
            return [hours[text[:13] + text[19:]] + _PAST_THE_HOUR[text[13:19]] for text in texts]
        except KeyError:
            if all(len(text) == 10 and text.isascii() and text.isdigit() for text in texts):
                return [float(text) for text in texts]
            return None

    def parse(self, text: str) -> Instant:
        """The instant of a stamp.

        Raises:
            NoZoneError: if it has no offset and there is no zone.
            ValueError: if it is no stamp, or lies outside of 1970 to 2100.
        """
        past_s = _PAST_THE_HOUR.get(text[13:19])
        if past_s is not None and text[19:20] != ".":
            hour = text[:13] + text[19:]
            hour_s = self._hours.get(hour)
            if hour_s is None and hour not in self._odd_hours:
                hour_s = self._hour_s(text[:13], text[19:])
            if hour_s is not None:
                return Instant(hour_s + past_s, Doubt.NONE, hour_s + past_s)
        return parse_stamp(text, self._tz)

    def _hour_s(self, hour: str, offset: str) -> float | None:
        """The epoch of an hour's beginning; None where its minutes need a closer look."""
        try:
            first, half, last = (
                parse_stamp(f"{hour}:{rest}{offset}", self._tz) for rest in ("00:00", "30:00", "59:59")
            )
        except NoZoneError:
            raise
        except ValueError:
            return None
        is_even = all(one.doubt is Doubt.NONE for one in (first, half, last))
        is_even &= last.epoch_s - first.epoch_s == 3599.0 and half.epoch_s - first.epoch_s == 1800.0
        if len(self._hours) + len(self._odd_hours) >= MOST_HOURS:
            self._hours.clear()
            self._odd_hours.clear()
        if is_even:
            return self._hours.setdefault(hour + offset, first.epoch_s)
        self._odd_hours.add(hour + offset)
        return None


@dataclass(frozen=True, slots=True)
class Times:
    """When things happened to one attempt, epoch seconds UTC; None where the source does not say."""

    submit_s: float
    eligible_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None


def resolve(
    found: Mapping[str, Instant | None],
    elapsed_s: float | None,
    notes: Notes,
    ordered_after_s: float | None = None,
) -> Times:
    """Instants of one attempt from its stamps: hours that a clock showed twice are told apart.

    Where start and end leave a choice, the pair whose difference is closest to `elapsed_s` is taken; a
    submission in the repeated hour is the later one where the earlier would lie before `ordered_after_s`.
    Otherwise the earlier. An eligible, start or end up to two seconds before what it follows is moved there.

    Args:
        found: instants by `submit`, `eligible`, `start`, `end`; absent ones are not known.
        elapsed_s: how long it ran, where the source says so apart from the stamps.
        notes: of the row.
        ordered_after_s: submission of the job with the next lower id, where that is known.

    Raises:
        RejectedError: without a submission, or if instants are out of order.
    """
    submit, eligible, start, end = (found.get(name) for name in ("submit", "eligible", "start", "end"))
    if submit is None:
        raise RejectedError(ImportRule.NO_SUBMIT, "nothing says when it was submitted")
    for name, one in found.items():
        _tell_doubt(name, one, notes)
    submit_s = _late_enough(submit, ordered_after_s)
    start_s = None if start is None else _late_enough(start, submit_s)
    end_s = None if end is None else _late_enough(end, submit_s if start_s is None else start_s)
    if start is not None and end is not None and elapsed_s is not None:
        start_s, end_s = (
            fold_by_length(start, end, elapsed_s, submit_s) if _is_doubtful(start, end) else (start_s, end_s)
        )
    eligible_s = None if eligible is None else _late_enough(eligible, submit_s)
    start_s = _in_order("start", start_s, "submission", submit_s, notes)
    if start_s is None:
        end_s = _in_order("end", end_s, "submission", submit_s, notes)
    else:
        end_s = _in_order("end", end_s, "start", start_s, notes)
    if eligible_s is not None:
        eligible_s = max(eligible_s, submit_s)
    return Times(submit_s, eligible_s, start_s, end_s)


def from_offset(value_s: float, origin_s: float, what: str) -> float:
    """The instant of seconds counted from an origin.

    Raises:
        RejectedError: if it lies outside of 1970 to 2100.
    """
    instant_s = origin_s + value_s
    if not MIN_INSTANT_S <= instant_s <= MAX_INSTANT_S:
        raise RejectedError(ImportRule.BAD_TIME, f"{what} {value_s:g} s is outside of 1970 to 2100")
    return instant_s


def parsed(stamps: Stamps, text: str, what: str) -> Instant:
    """The instant of a row's stamp.

    Raises:
        NoZoneError: if it has no offset and there is no zone: nothing of the file can be placed.
        RejectedError: if it is no stamp.
    """
    try:
        return stamps.parse(text)
    except NoZoneError:
        raise
    except ValueError as error:
        raise RejectedError(
            ImportRule.BAD_TIME, f"{what} {quoted(text)} is no time stamp: {error}"
        ) from error


def _is_doubtful(*instants: Instant) -> bool:
    return any(one.doubt is Doubt.REPEATED_HOUR for one in instants)


def _late_enough(one: Instant, after_s: float | None) -> float:
    return one.later_s if after_s is not None and one.epoch_s < after_s <= one.later_s else one.epoch_s


def _in_order(name: str, instant_s: float | None, before: str, before_s: float, notes: Notes) -> float | None:
    if instant_s is None or instant_s >= before_s:
        return instant_s
    if before_s - instant_s > CLOSE_S:
        found = f"the {name} is {before_s - instant_s:g} s before the {before}"
        raise RejectedError(ImportRule.END_BEFORE_START, found)
    notes.add(
        ImportRule.CLOCK_SKEW, f"the {name} is {before_s - instant_s:g} s before the {before}; moved there"
    )
    return before_s


def _tell_doubt(name: str, one: Instant | None, notes: Notes) -> None:
    if one is None or one.doubt is Doubt.NONE:
        return
    if one.doubt is Doubt.REPEATED_HOUR:
        notes.add(
            ImportRule.REPEATED_HOUR, f"the clock showed the {name} twice; the order of things chose one"
        )
    else:
        notes.add(ImportRule.MISSING_HOUR, f"no clock showed the {name}; moved forward by the hour left out")
