"""Capacity by day: a column of dates and one column of GPUs per pool (as Helios publishes its clusters').

A day's figures hold from its midnight, on the cluster's clock, until the next line's; pools that are born,
grow, shrink and die are told by them. A column `total` is checked against the sum and is no pool.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from data.intake.counts import whole
from data.intake.delimited import Fields, csv_lines
from data.intake.format import Format, Head, Kind, Match, Reading, plain
from data.intake.headed import Header
from data.intake.instants import Stamps, parsed
from data.intake.rows import Notes, RejectedError, Row, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import opened, refuse
from data.intake.text import clean
from data.inventory_records import PoolRecord
from data.rules import Rule
from data.stamps import Doubt

_DATES: Final = frozenset({"date", "day"})
_TOTALS: Final = frozenset({"total", "sum", "all"})
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]00:00(?::00)?)?", re.ASCII)
_AMOUNT: Final = re.compile(r"\s*(?:\d{1,9}(?:\.0{1,6})?|na|nan|n/a)?\s*", re.ASCII | re.IGNORECASE)


def sniff(head: Head) -> Match | None:
    """Dates in the first column, whole numbers in all others."""
    names = head.header(",")
    rows = [line.split(",") for line in head.lines[1:21] if line.strip()]
    if len(names) < 2 or plain(names[0]) not in _DATES or not rows:
        return None
    is_table = all(
        len(row) == len(names) and _DATE.fullmatch(row[0].strip()) and all(map(_AMOUNT.fullmatch, row[1:]))
        for row in rows[: max(1, len(rows) - 1)]
    )
    if not is_table:
        return None
    has_total = any(plain(name) in _TOTALS for name in names[1:])
    why = f"a column of dates and {len(names) - 1 - has_total} columns of whole numbers"
    return Match(0.97 if has_total else 0.9, f"{why}, with a total" if has_total else why)


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: a day each, with a record per pool."""
    with opened(reading.path) as file:
        lines = csv_lines(file)
        days = _Days(reading, Header(reading.path, lines))
        yield from rows_from(lines, days.parse)
        reading.facts["days"] = days.count
        reading.facts["pools"] = len(days.pools)


class _Days:
    def __init__(self, reading: Reading, header: Header) -> None:
        names = header.names
        self._header = header
        self._cluster = reading.options.cluster
        self._stamps = Stamps(reading.options.tz)
        self._total = next((k for k, name in enumerate(names) if k and plain(name) in _TOTALS), None)
        self.pools = [(k, name) for k, name in enumerate(names) if k and k != self._total]
        self.count = 0
        if not self.pools:
            raise refuse(reading.path, Rule.MISSING_COLUMN, "the header has no column of a pool", header.line)
        if any(not name for _, name in self.pools):
            raise refuse(reading.path, Rule.UNNAMED_COLUMN, "a pool's column has no name", header.line)
        if len({name for _, name in self.pools}) < len(self.pools):
            raise refuse(reading.path, Rule.DUPLICATE_COLUMN, "two columns have the same name", header.line)

    def parse(self, fields: Fields, notes: Notes) -> Sequence[PoolRecord]:
        """Each pool's GPUs from that day on."""
        values = self._header.values(fields, notes)
        from_s = self._midnight(values[0], notes)
        found = []
        for column, name in self.pools:
            pool = clean(name, notes, "the pool") or name
            found.append(PoolRecord(self._cluster, pool, whole(values[column], pool, notes), from_s))
        self._check(values, found, notes)
        self.count += 1
        return found

    def _midnight(self, text: str, notes: Notes) -> float:
        date = text.strip()
        if _DATE.fullmatch(date) is None:
            raise RejectedError(
                ImportRule.BAD_TIME, f"{quoted(text)} is no date: 2020-04-01, or with midnight behind it"
            )
        instant = parsed(self._stamps, f"{date[:10]}T00:00:00", "the date")
        if instant.doubt is Doubt.MISSING_HOUR:
            notes.add(ImportRule.MISSING_HOUR, "no clock showed that midnight; the day begins an hour later")
        return instant.epoch_s

    def _check(self, values: list[str], found: list[PoolRecord], notes: Notes) -> None:
        if self._total is None:
            return
        total = whole(values[self._total], "the total", notes)
        known = [one.gpus for one in found if one.gpus is not None]
        if total is not None and len(known) == len(found) and total != sum(known):
            notes.add(ImportRule.TOTAL_DISAGREES, f"the total is {total}, the pools have {sum(known)}")


FORMAT: Final = Format(
    "capacity-by-day", "GPUs of each pool by day: dates and one column per pool", Kind.INVENTORY, sniff, rows
)
