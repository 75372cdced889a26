"""When things happened to the job of a row, as a mapping says, and how much of its life that shows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from data.intake.fields import FIELDS, FieldKind
from data.intake.format import Clock, Reading
from data.intake.instants import Stamps, Times, resolve
from data.intake.mapping import ColumnMapping, ColumnRule
from data.intake.rows import Notes
from data.intake.rules import ImportRule
from data.intake.values import Number, ReadInstant, ReadNumber, at, instants, lengths, text_of
from data.stamps import Instant
from domain.attempts import EndCause

_CLOSE_S: Final = 1.0
"""Lengths that differ by no more are the same: one of them was rounded."""

Get = Callable[[Sequence[Any]], Any]
"""The value of a field in a row; None where nothing is known."""


class MappedTimes:
    """Reads the times of the rows of one table."""

    def __init__(
        self,
        mapping: ColumnMapping,
        reading: Reading,
        rules: Mapping[str, ColumnRule],
        get: Mapping[str, Get],
        origin_s: float,
    ) -> None:
        """Prepare for a table; numbers count from `origin_s`."""
        self._mapping, self._rules, self._get, self._origin_s = mapping, rules, get, origin_s
        stamps = Stamps(reading.options.tz or mapping.zone)
        is_relative = reading.clock is Clock.RELATIVE
        self._instants: dict[str, ReadInstant] = {
            name: instants(rule, stamps, origin_s, is_relative=is_relative)
            for name, rule in rules.items()
            if FIELDS[name] is FieldKind.TIME
        }
        self._lengths: dict[str, ReadNumber] = {
            name: lengths(rule) for name, rule in rules.items() if FIELDS[name] is FieldKind.LENGTH
        }
        self._former_s = origin_s
        self._mismatches: Counter[str] = Counter()

    def facts(self) -> dict[str, Any]:
        """What has been found of the whole table so far."""
        return {"duration_mismatch": dict(sorted(self._mismatches.items()))} if self._mismatches else {}

    def length(self, name: str, values: Sequence[Any], notes: Notes) -> Number | None:
        """A length of a row, seconds; None where nothing is known or it cannot be read, which is told."""
        read = self._lengths.get(name)
        value = None if read is None else self._get[name](values)
        return None if read is None or value is None else read(value, notes)

    def after_gap(self, values: Sequence[Any], notes: Notes) -> Instant | None:
        """The submission, counted on from that of the row before, where the table has gaps."""
        gap_s = self.length("gap", values, notes)
        if gap_s is None:
            return None
        self._former_s += gap_s
        return at(self._former_s)

    def times(
        self, values: Sequence[Any], submit: Instant | None, notes: Notes
    ) -> tuple[Times, Number | None]:
        """When it was submitted, ran and ended; and how long it ran, if the table has that."""
        found: dict[str, Instant | None] = {"submit": submit}
        for name, read in self._instants.items():
            value = self._get[name](values)
            found[name] = None if value is None else read(value, notes)
        wait_s, run_s = (self.length(name, values, notes) for name in ("wait", "run"))
        submit = found["submit"]
        if submit is not None and wait_s is not None:
            found["start"] = at(submit.epoch_s + wait_s)
        has_run = run_s is not None or found.get("end") is not None
        if self._mapping.is_start_submit and found.get("start") is None and has_run:
            found["start"] = submit
        times = resolve(found, run_s, notes)
        start_s, end_s = times.start_s, times.end_s
        if "end" in self._instants:
            if end_s is not None and self._mapping.is_end_inclusive:
                end_s += 1.0
            self._check_length(times.submit_s, start_s, end_s, run_s, notes)
            run_s = None
        elif start_s is not None and run_s is not None:
            end_s = start_s + run_s
        return Times(times.submit_s, times.eligible_s, start_s, end_s), run_s

    def _check_length(
        self, submit_s: float, start_s: float | None, end_s: float | None, run_s: Number | None, notes: Notes
    ) -> None:
        """Tell a length that is not end minus start; the two instants count."""
        if start_s is None or end_s is None or run_s is None or abs(end_s - start_s - run_s) <= _CLOSE_S:
            return
        is_with_wait = abs(end_s - submit_s - run_s) <= _CLOSE_S
        self._mismatches["end_minus_submit" if is_with_wait else "other"] += 1
        also = ", which is end minus submission" if is_with_wait else ""
        found = f"the length given is {run_s:g} s{also}; end minus start is {end_s - start_s:g} s"
        notes.add(ImportRule.DURATION_MISMATCH, found)

    def seen(
        self, values: Sequence[Any], times: Times, cause: EndCause, notes: Notes
    ) -> tuple[float | None, EndCause, bool]:
        """What was seen of it: its end and cause, none where it was cut off; whether it began before."""
        first, last = self._mapping.window_start, self._mapping.window_end
        start_s, end_s = times.start_s, times.end_s
        is_before = self._is_marked("before_record", values) or (
            first is not None and start_s is not None and start_s <= self._origin_s + first
        )
        if is_before:
            notes.add(
                ImportRule.BEFORE_RECORD, "it began before the record does; its true start is not known"
            )
        is_at_edge = last is not None and end_s is not None and end_s >= self._origin_s + last
        is_at_edge = is_at_edge and not cause.is_natural
        is_cut = is_at_edge or self._is_marked("censored", values)
        if is_cut or (cause is EndCause.NOT_ENDED and end_s is not None):
            notes.add(ImportRule.AT_WINDOW_EDGE, "it had not ended where the record does")
        if is_cut or cause is EndCause.NOT_ENDED:
            return None, EndCause.NOT_ENDED, is_before
        return end_s, cause, is_before

    def _is_marked(self, name: str, values: Sequence[Any]) -> bool:
        value = self._get[name](values) if name in self._get else None
        return value is not None and text_of(value).casefold() in self._rules[name].when
