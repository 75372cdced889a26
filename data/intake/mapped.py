"""Rows of tables to attempts, as a mapping says."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from data.intake.fields import FIELDS, FieldKind
from data.intake.format import Clock, Reading
from data.intake.mapped_times import Get, MappedTimes
from data.intake.mapping import ColumnMapping, ColumnRule
from data.intake.rows import Notes, RejectedError, quoted
from data.intake.rules import ImportRule
from data.intake.text import clean
from data.intake.values import (
    NULLS,
    TEXT_NULLS,
    Number,
    ReadNumber,
    amounts,
    limits,
    nulls_of,
    text_of,
)
from data.records import MILLI, AttemptRecord
from domain.attempts import UNKNOWN_LIMIT, EndCause, Limit

_MOST_IDS: Final = 100_000
"""Ids that are remembered where rows may share them."""

_PLAIN_TEXTS: Final = (
    "shown_id", "array_id", "het_id", "pool", "account", "user", "name", "qos", "reason", "nodes", "gpu_type",
    "mig_profile",
)  # fmt: skip


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
        self._when = MappedTimes(mapping, reading, self._rules, self._get, self._origin_s)
        self._limit = limits(self._rules["limit"]) if "limit" in self._rules else None
        self._seen_ids: OrderedDict[tuple[str, float], int] = OrderedDict()
        _tell_facts(mapping, reading, self._rules, self._origin_s)

    def parse(self, row: Values, notes: Notes) -> list[AttemptRecord]:
        """The attempt of a row.

        Raises:
            RejectedError: if it cannot be in the history.
        """
        submit = self._when.after_gap(row.values, notes)
        if row.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        texts: dict[str, Any] = {name: read(row.values, notes) for name, read in self._texts}
        raw_id = self._id(texts.pop("raw_id", None), row.place, notes)
        numbers = {name: read(row.values, notes) for name, read in self._numbers.items()}
        cause = self._cause(row.values)
        times, run_s = self._when.times(row.values, submit, notes)
        if self._mapping.do_rows_share_ids:
            raw_id, array_id = self._numbered(raw_id, times.submit_s, notes)
            texts["array_id"] = texts.get("array_id") or array_id
        end_s, cause, is_before = self._when.seen(row.values, times, cause, notes)
        compute_s = self._when.length("compute", row.values, notes)
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
        return self._when.facts()

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
        factor = ColumnRule(f"column {rule.times}", (rule.times,))
        many, get_many = amounts(factor, ImportRule.BAD_NUMBER), self._getter(factor)

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

    def _numbered(self, raw_id: str, submit_s: float, notes: Notes) -> tuple[str, str | None]:
        """The id of a row that may share it with others, and the id they share if an earlier one has it."""
        key = (raw_id, submit_s)
        earlier = self._seen_ids.pop(key, -1) + 1
        self._seen_ids[key] = earlier
        if len(self._seen_ids) > _MOST_IDS:
            self._seen_ids.popitem(last=False)
        if not earlier:
            return raw_id, None
        notes.add(
            ImportRule.SHARED_ID, f"an earlier row has the id {quoted(raw_id)}; this is number {earlier}"
        )
        return f"{raw_id}/{earlier}", raw_id

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
