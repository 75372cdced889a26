"""Tables that a mapping reads, CSV and Parquet alike, and how those with a built-in mapping are known."""

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from data.intake.delimited import Fields, csv_lines, fit, other_width
from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.heads import head
from data.intake.mapped import MappedParser, Values
from data.intake.mapping import ColumnMapping
from data.intake.mapping_text import built_in
from data.intake.parquet import parquet_rows
from data.intake.rows import Row, Unreadable, rows_from
from data.intake.rules import ImportRule
from data.intake.source import opened, refuse
from data.rules import Rule, shown

DELIMITERS: Final = (",", "\t", ";", "|")
_SAMPLE_ROWS: Final = 20

Item = tuple[int, Values | Unreadable]


def mapped_format(name: str, title: str) -> Format:
    """The format of all built-in mappings that name it."""
    return Format(name, title, Kind.HISTORY, partial(sniff_known, name), partial(_known_rows, name))


def sniff_known(name: str, begin: Head) -> Match | None:
    """Columns of a table that a built-in mapping of the format knows."""
    found = known(name, begin)
    if found is None:
        return None
    score, mapping = found
    shown_columns = ", ".join(mapping.recognise)
    how = f"columns without a header, as {mapping.name} has them" if not _has_header(mapping, begin) else None
    return Match(score, how or f"the columns {shown_columns} of {mapping.name}")


def known(name: str, begin: Head) -> tuple[float, ColumnMapping] | None:
    """The mapping of a format that fits a file best, and how well."""
    found = [(_score(mapping, begin), mapping) for mapping in built_in().values() if mapping.format == name]
    score, best = max(found, key=lambda one: (one[0], one[1].name), default=(0.0, ColumnMapping()))
    return (score, best) if score > 0.0 else None


def table_rows(reading: Reading, mapping: ColumnMapping) -> Iterator[Row]:
    """Rows of a table.

    Raises:
        InputError: if columns are missing or there twice, or there is nothing to learn from such a table.
    """
    begin = head(reading.path)
    if mapping.nothing_to_learn:
        raise refuse(reading.path, Rule.NOTHING_TO_LEARN, mapping.nothing_to_learn)
    names, delimiter, is_headless = _names(mapping, begin)
    columns = _needed(mapping, names, reading.path)
    parser = MappedParser(mapping, reading, columns)
    if begin.is_parquet:
        yield from rows_from(_of_parquet(reading.path, columns), parser.parse)
    else:
        with opened(reading.path) as file:
            lines = csv_lines(file, delimiter)
            if not is_headless:
                next(lines, None)
            places = [names.index(one) for one in columns]
            yield from rows_from(_of_text(lines, places, len(names)), parser.parse)
    reading.facts.update(parser.facts())


def split_header(line: str, delimiter: str) -> tuple[str, ...]:
    """Names of columns of a header line, trimmed, without quotes."""
    try:
        values = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return ()
    return tuple(value.strip() for value in values)


def _known_rows(name: str, reading: Reading) -> Iterator[Row]:
    found = known(name, head(reading.path))
    if found is None:
        titles = [mapping.name for mapping in built_in().values() if mapping.format == name]
        message = f"the columns are none of {name}, which are those of {', '.join(titles)}"
        raise refuse(reading.path, Rule.UNKNOWN_FORMAT, message)
    yield from table_rows(reading, found[1])


def _score(mapping: ColumnMapping, begin: Head) -> float:
    """How well a file fits: the more of its columns are named, the better."""
    names = _best_names(mapping, begin)[0]
    if set(mapping.recognise) <= set(names) and not set(mapping.lacks) & set(names):
        return 0.6 + 0.38 * len(set(mapping.recognise)) / len(names) if names else 0.0
    return 0.8 if _fits_headless(mapping, begin) else 0.0


def _has_header(mapping: ColumnMapping, begin: Head) -> bool:
    return set(mapping.recognise) <= set(_best_names(mapping, begin)[0])


def _best_names(mapping: ColumnMapping, begin: Head) -> tuple[tuple[str, ...], str]:
    """Names of the header, split so that most columns that the mapping needs are found."""
    if begin.is_parquet:
        return begin.columns, ","
    first = next((line for line in begin.lines if line.strip()), "")
    wanted = {one for rule in mapping.rules.values() for one in rule.needs} | set(mapping.recognise)
    delimiters = DELIMITERS if mapping.delimiter is None else (mapping.delimiter,)
    found = [(split_header(first, one), one) for one in delimiters]
    return max(found, key=lambda one: (len(wanted & set(one[0])), len(one[0])))


def _fits_headless(mapping: ColumnMapping, begin: Head) -> bool:
    """Whether the first lines are as wide as the mapping's own header, and most states are known."""
    rule = mapping.rules.get("state")
    if begin.is_parquet or not mapping.header or rule is None:
        return False
    lines = [line for line in begin.lines if line.strip()][:_SAMPLE_ROWS]
    rows = [split_header(line, mapping.delimiter or ",") for line in lines]
    place = mapping.header.index(rule.columns[0])
    words = {"", *mapping.causes}
    if not rows or any(len(row) != len(mapping.header) for row in rows):
        return False
    return 2 * sum(row[place].casefold() in words for row in rows) > len(rows)


def _names(mapping: ColumnMapping, begin: Head) -> tuple[tuple[str, ...], str, bool]:
    """Names of the columns, the delimiter, and whether the file has no line for the names."""
    names, delimiter = _best_names(mapping, begin)
    is_headless = bool(mapping.header) and not begin.is_parquet and not _has_header(mapping, begin)
    if mapping.header and not mapping.recognise:
        is_headless = not begin.is_parquet
    return (mapping.header, mapping.delimiter or ",", True) if is_headless else (names, delimiter, False)


def _needed(mapping: ColumnMapping, names: Sequence[str], path: Path) -> list[str]:
    """Columns that are read, of those that are there."""
    wanted = list(dict.fromkeys(one for rule in mapping.rules.values() for one in rule.needs))
    missing = [
        one
        for rule in mapping.rules.values()
        if not rule.is_optional
        for one in rule.needs
        if one not in names
    ]
    if missing:
        found = f"the table has no column {shown(missing[0])!r}, which the mapping {mapping.name} names"
        raise refuse(path, Rule.MISSING_COLUMN, f"{found}; it has {shown(', '.join(names))}")
    twice = [one for one in wanted if list(names).count(one) > 1]
    if twice:
        raise refuse(path, Rule.DUPLICATE_COLUMN, f"the table has the column {shown(twice[0])!r} twice")
    return [one for one in wanted if one in names]


def _of_parquet(path: Path, columns: list[str]) -> Iterator[Item]:
    has_dots = any("." in one for one in columns)  # which Arrow takes for a field within a column
    for place, row in parquet_rows(path, None if has_dots else columns):
        yield (
            place,
            row if isinstance(row, Unreadable) else Values(place, [row[name] for name in columns]),
        )


def _of_text(
    lines: Iterator[tuple[int, Fields | Unreadable]], places: Sequence[int], width: int
) -> Iterator[Item]:
    for number, line in lines:
        if isinstance(line, Unreadable):
            yield number, line
            continue
        values = fit(line.values, width)
        if values is None:
            yield number, Unreadable(ImportRule.FIELD_COUNT, other_width(line.values, width))
            continue
        taken: list[Any] = [values[place] for place in places]
        yield number, Values(number, taken, line.is_mended)
