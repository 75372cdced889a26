"""Which column of a table is what, for tables that nobody has written a reader for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from domain.attempts import EndCause


class MappingError(ValueError):
    """A mapping that says what cannot be: the key, and what is allowed."""


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """Where one field of a record comes from.

    Attributes:
        field: its name, one of `FIELDS`.
        columns: the columns; more than one are joined to one text.
        value: what it always is, where it is in no column.
        nulls: words that mean that nothing is known, in this column only.
        is_optional: whether a table may lack the column.
        unit: of its numbers; empty where there are none.
        unlimited: words of a limit that mean that there is none.
        times: column that the number is multiplied with, for amounts per node or per instance.
        has_shares_of_many: whether a share of a GPU times several is meant so.
        separator: between the texts of several columns.
        alternatives: between several texts of which any would do; then none of them is taken.
        when: words that set a mark.
    """

    field: str
    columns: tuple[str, ...] = ()
    value: Any = None
    nulls: frozenset[str] = frozenset()
    is_optional: bool = False
    unit: str = ""
    unlimited: frozenset[str] = frozenset()
    times: str | None = None
    has_shares_of_many: bool = False
    separator: str = "/"
    alternatives: str | None = None
    when: frozenset[str] = frozenset({"true", "yes", "1"})

    @property
    def needs(self) -> tuple[str, ...]:
        """Every column that is looked at."""
        return self.columns if self.times is None else (*self.columns, self.times)


@dataclass(frozen=True)
class ColumnMapping:
    """How a table is read.

    Attributes:
        name: for messages and reports.
        rules: where the fields come from, by field.
        causes: what the words of the state column mean, by the word in lower case.
        title: what the table is.
        is_relative: whether numbers count from an origin that is not told.
        origin_s: instant that numbers count from, epoch seconds; None: 1970, or not told.
        zone: of stamps without an offset; what the operator says of the cluster goes before it.
        delimiter: between fields of text; None: found by the header.
        header: names of columns, where the file has no line for them.
        nulls: words that mean that nothing is known, in any column.
        has_id_from_row: whether the row's place becomes the id.
        do_rows_share_ids: whether rows of the same id and submission are several jobs, such as an array's
            tasks; otherwise a later one of them updates the earlier.
        is_end_inclusive: whether the second that a job ends in is still its own.
        is_start_submit: whether a job that ran and has no start began when it was submitted.
        window_start, window_end: edges of the record on the file's clock: what starts at or before the one,
            or ends at or after the other, was cut off there.
        facts: what is true of the whole table.
        format: format that knows it by its columns; built-in mappings only.
        recognise: columns it is known by; built-in mappings only.
        lacks: columns that a table must not have to be known; built-in mappings only.
        nothing_to_learn: why such a table is refused; built-in mappings only.
        content: all of it as it was written.
    """

    name: str = "mapping"
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    causes: Mapping[str, EndCause] = field(default_factory=dict)
    title: str = ""
    is_relative: bool = False
    origin_s: float | None = None
    zone: ZoneInfo | None = None
    delimiter: str | None = None
    header: tuple[str, ...] = ()
    nulls: frozenset[str] = frozenset()
    has_id_from_row: bool = False
    do_rows_share_ids: bool = False
    is_end_inclusive: bool = False
    is_start_submit: bool = False
    window_start: float | None = None
    window_end: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    format: str = ""
    recognise: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    nothing_to_learn: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What decides what is read."""
        found: dict[str, Any] = json.loads(json.dumps(dict(self.content), default=str))
        return found
