"""Rows of tables to attempts, as a mapping says."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from data.intake.fields import FIELDS, FieldKind
from data.intake.format import Clock, Reading
from data.intake.instants import Stamps, Times, resolve
from data.intake.mapping import ColumnMapping, ColumnRule
from data.intake.rows import Notes, RejectedError, quoted
from data.intake.rules import ImportRule
from data.intake.text import clean
from data.intake.values import (
    NULLS,
    TEXT_NULLS,
    Number,
    ReadInstant,
    ReadNumber,
    amounts,
    at,
    instants,
    lengths,
    limits,
    nulls_of,
    text_of,
)
from data.records import MILLI, AttemptRecord
from data.stamps import Instant
from domain.attempts import UNKNOWN_LIMIT, EndCause, Limit

_CLOSE_S: Final = 1.0
"""Lengths that differ by no more are the same: one of them was rounded."""

_PLAIN_TEXTS: Final = (
    "shown_id", "array_id", "het_id", "pool", "account", "user", "name", "qos", "reason", "nodes", "gpu_type",
    "mig_profile",
)  # fmt: skip

Get = Callable[[Sequence[Any]], Any]


class Values(NamedTuple):
    """One row of a table.

    Attributes:
        place: its line, or its place among the rows.
        values: its values, in the order of the columns.
        is_mended: whether bytes that are not UTF-8 were replaced in it.
    """

    place: int
    values: Sequence[Any]
    is_mended: bool = False


class MappedParser:
    """Makes attempts of the rows of one table."""

    def __init__(self, mapping: ColumnMapping, reading: Reading, columns: Sequence[str]) -> None:
        """Prepare for a table with these columns, of which none that is not optional is missing."""
        self._mapping = mapping
        self._cluster = reading.options.cluster
        self._places = {name: place for place, name in enumerate(columns)}
        self._rules = {
            name: rule
            for name, rule in mapping.rules.items()
            if all(one in self._places for one in rule.needs)
        }
        self._get = {name: self._getter(rule) for name, rule in self._rules.items()}
        self._origin_s = _origin_s(mapping, reading)
        self._texts = [(name, self._text(name)) for name in ("raw_id", *_PLAIN_TEXTS) if name in self._rules]
        self._numbers = {name: self._number(name) for name in self._rules if _is_number(name)}
        stamps = Stamps(reading.options.tz or mapping.zone)
        is_relative = reading.clock is Clock.RELATIVE
        self._instants: dict[str, ReadInstant] = {
            name: instants(rule, stamps, self._origin_s, is_relative=is_relative)
            for name, rule in self._rules.items()
            if FIELDS[name] is FieldKind.TIME
        }
        self._lengths: dict[str, ReadNumber] = {
            name: lengths(rule) for name, rule in self._rules.items() if FIELDS[name] is FieldKind.LENGTH
        }
        self._limit = limits(self._rules["limit"]) if "limit" in self._rules else None
        self._former_s = self._origin_s
        self._mismatches: Counter[str] = Counter()
        _tell_facts(mapping, reading, self._rules, self._origin_s)

    def parse(self, row: Values, notes: Notes) -> list[AttemptRecord]:
        """The attempt of a row.

        Raises:
            RejectedError: if it cannot be in the history.
        """
        submit = self._after_gap(row.values, notes)
        if row.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        texts: dict[str, Any] = {name: read(row.values, notes) for name, read in self._texts}
        raw_id = self._id(texts.pop("raw_id", None), row.place, notes)
        numbers = {name: read(row.values, notes) for name, read in self._numbers.items()}
        cause = self._cause(row.values)
        times, run_s = self._times(row.values, submit, notes)
        end_s, cause, is_before = self._seen(row.values, times, cause, notes)
        compute_s = self._length("compute", row.values, notes)
        has_run = times.start_s is not None
        if not has_run and cause.is_natural:
            cause = EndCause.UNKNOWN
        asked, given = (numbers.pop(name, None) for name in ("gpus_asked", "gpus_given"))
        both = numbers.pop("gpus", None)
        return [
            AttemptRecord(
                cluster=self._cluster,
                raw_id=raw_id,
                submit_s=times.submit_s,
                attempt=_whole(numbers.pop("attempt", None)) or 0,
                gpus_asked_milli=_whole(both if asked is None else asked),
                gpus_given_milli=_whole(both if given is None and has_run else given),
                cpus=numbers.get("cpus"),
                memory_mib=numbers.get("memory"),
                limit=self._limit_of(row.values, notes),
                eligible_s=times.eligible_s,
                start_s=times.start_s,
                end_s=end_s,
                compute_s=compute_s if compute_s is not None or end_s is None else run_s,
                cause=cause,
                is_before_record=is_before,
                source_line=row.place,
                array_task=_whole(numbers.get("array_task")),
                het_offset=_whole(numbers.get("het_offset")),
                num_nodes=_whole(numbers.get("num_nodes")),
                **texts,
            )
        ]

    def facts(self) -> dict[str, Any]:
        """What has been found of the whole table so far."""
        return {"duration_mismatch": dict(sorted(self._mismatches.items()))} if self._mismatches else {}

    # ---- what a field is

    def _getter(self, rule: ColumnRule) -> Get:
        """The value of a field; None where nothing is known."""
        if not rule.columns:
            return lambda _values: rule.value
        is_null = nulls_of(_nulls_of_kind(rule.field) | self._mapping.nulls | rule.nulls)
        places = [self._places[name] for name in rule.columns]
        if len(places) == 1:
            (place,) = places

            def get(values: Sequence[Any]) -> Any:
                value = values[place]
                return None if is_null(value) else value

            return get

        def joined(values: Sequence[Any]) -> Any:
            parts = [values[one] for one in places]
            return None if any(map(is_null, parts)) else rule.separator.join(map(text_of, parts))

        return joined

    def _text(self, name: str) -> Callable[[Sequence[Any], Notes], str | None]:
        get, rule = self._get[name], self._rules[name]

        def read(values: Sequence[Any], notes: Notes) -> str | None:
            value = get(values)
            if value is None:
                return None
            text = clean(text_of(value), notes, name)
            is_choice = rule.alternatives is not None and text is not None and rule.alternatives in text
            return None if is_choice else text

        return read

    def _number(self, name: str) -> ReadNumber:
        """Reads an amount, times that of another column where the mapping says so."""
        rule, get = self._rules[name], self._get[name]
        is_gpus = FIELDS[name] is FieldKind.GPUS
        amount = amounts(rule, ImportRule.BAD_GPUS if is_gpus else ImportRule.BAD_NUMBER)
        if rule.times is None:

            def read(values: Sequence[Any], notes: Notes) -> Number | None:
                value = get(values)
                return None if value is None else amount(value, notes)

            return read
        many = amounts(ColumnRule(rule.times), ImportRule.BAD_NUMBER)
        get_many = self._getter(ColumnRule(rule.times, (rule.times,)))

        def product(values: Sequence[Any], notes: Notes) -> Number | None:
            value, times = get(values), get_many(values)
            if value is None or times is None:
                return None
            each, number = amount(value, notes), many(times, notes)
            if each is None or number is None:
                return None
            if is_gpus and number > 1 and each % MILLI and not rule.has_shares_of_many:
                found = f"{each / MILLI:g} of a GPU on each of {number:g}"
                raise RejectedError(ImportRule.SHARE_OF_MANY, found)
            return each * number

        return product

    def _length(self, name: str, values: Sequence[Any], notes: Notes) -> Number | None:
        read = self._lengths.get(name)
        value = None if read is None else self._get[name](values)
        return None if read is None or value is None else read(value, notes)

    def _limit_of(self, values: Sequence[Any], notes: Notes) -> Limit:
        value = None if self._limit is None else self._get["limit"](values)
        return UNKNOWN_LIMIT if self._limit is None or value is None else self._limit(value, notes)

    def _id(self, raw_id: str | None, place: int, notes: Notes) -> str:
        if raw_id is not None:
            return raw_id
        if not self._mapping.has_id_from_row:
            raise RejectedError(ImportRule.NO_JOB_ID, "the job id is empty")
        notes.add(ImportRule.ID_FROM_ROW, f"the row has no id; it is row-{place} now")
        return f"row-{place}"

    def _cause(self, values: Sequence[Any]) -> EndCause:
        value = self._get["state"](values) if "state" in self._get else None
        if value is None:
            return EndCause.UNKNOWN
        word = text_of(value)
        cause = self._mapping.causes.get(word.casefold())
        if cause is None:
            known = ", ".join(sorted(self._mapping.causes))
            found = f"state {quoted(word)} is no word of {self._mapping.name}, which has {known}"
            raise RejectedError(ImportRule.UNKNOWN_WORD, found)
        return cause

    def _is_marked(self, name: str, values: Sequence[Any]) -> bool:
        value = self._get[name](values) if name in self._get else None
        return value is not None and text_of(value).casefold() in self._rules[name].when

    # ---- when it was

    def _after_gap(self, values: Sequence[Any], notes: Notes) -> Instant | None:
        """The submission, counted on from that of the row before, where the table has gaps."""
        gap_s = self._length("gap", values, notes)
        if gap_s is None:
            return None
        self._former_s += gap_s
        return at(self._former_s)

    def _times(
        self, values: Sequence[Any], submit: Instant | None, notes: Notes
    ) -> tuple[Times, Number | None]:
        """When it was submitted, ran and ended; and how long it ran, if the table has that."""
        found: dict[str, Instant | None] = {"submit": submit}
        for name, read in self._instants.items():
            value = self._get[name](values)
            found[name] = None if value is None else read(value, notes)
        wait_s, run_s = (self._length(name, values, notes) for name in ("wait", "run"))
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

    def _seen(
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


def _tell_facts(
    mapping: ColumnMapping, reading: Reading, rules: dict[str, ColumnRule], origin_s: float
) -> None:
    facts = reading.facts
    facts["mapping"] = mapping.name
    facts.update(mapping.facts)
    told = {
        "relative_clock": reading.clock is Clock.RELATIVE,
        "no_ids": mapping.has_id_from_row and "raw_id" not in rules,
        "gaps_not_times": "gap" in rules,
        "no_waits": "start" not in rules and "wait" not in rules,
        "no_gpu_counts": not {"gpus", "gpus_asked", "gpus_given"} & set(rules),
    }
    facts.update({name: True for name, is_so in told.items() if is_so})
    if mapping.zone is not None and reading.options.tz is None:
        facts["zone_assumed"] = mapping.zone.key
    if mapping.window_end is not None:
        facts["window_edge_s"] = origin_s + mapping.window_end


def _origin_s(mapping: ColumnMapping, reading: Reading) -> float:
    """Instant that numbers count from; sets the clock of the file."""
    if not mapping.is_relative:
        return mapping.origin_s or 0.0
    if reading.options.origin_s is not None:
        return reading.options.origin_s
    reading.clock = Clock.RELATIVE
    return 0.0


def _nulls_of_kind(name: str) -> frozenset[str]:
    """Words that mean that nothing is known; an id has none, whatever it is."""
    if name == "raw_id":
        return frozenset()
    return TEXT_NULLS if FIELDS.get(name) is FieldKind.TEXT else NULLS


def _is_number(name: str) -> bool:
    return FIELDS[name] in {FieldKind.GPUS, FieldKind.NUMBER, FieldKind.MEMORY, FieldKind.COUNT}


def _whole(number: Number | None) -> int | None:
    return None if number is None else round(number)
