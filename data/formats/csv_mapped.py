"""CSV and other delimited text that a mapping explains, the operator's or a built-in one."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.heads import head
from data.intake.rows import Row
from data.intake.source import refuse
from data.intake.tables import DELIMITERS, known, sniff_known, split_header, table_rows
from data.rules import Rule, shown

TABLE: Final = "table"
"""What built-in mappings name as their format if they have none of their own."""


def sniff(begin: Head) -> Match | None:
    """Columns that a built-in mapping knows; other tables are only mentioned."""
    if begin.is_parquet:
        return None
    match = sniff_known(TABLE, begin)
    if match is not None:
        return match
    lines = [line for line in begin.lines if line.strip()][:2]
    delimiter = max(DELIMITERS, key=lines[0].count) if lines else ","
    header, *rest = [split_header(line, delimiter) for line in lines] or [()]
    is_table = len(header) > 1 and all(header) and all(len(row) == len(header) for row in rest)
    return Match(0.1, f"a table with the columns {shown(', '.join(header))}") if is_table else None


def rows(is_parquet: bool, reading: Reading) -> Iterator[Row]:
    """Rows as the operator's mapping has them, else a built-in one that knows the columns."""
    begin = head(reading.path)
    if begin.is_parquet != is_parquet:
        what = "is" if begin.is_parquet else "is not"
        raise refuse(reading.path, Rule.UNKNOWN_FORMAT, f"the file {what} Parquet; use --format auto")
    mapping = reading.options.mapping
    if mapping is None:
        found = known(TABLE, begin)
        if found is None:
            columns = shown(", ".join(begin.columns) if is_parquet else begin.lines[0] if begin.lines else "")
            message = f"no built-in mapping knows the columns {columns}; say what they are with --mapping"
            raise refuse(reading.path, Rule.UNKNOWN_FORMAT, message)
        mapping = found[1]
    yield from table_rows(reading, mapping)


FORMAT: Final = Format(
    "csv", "delimited text with a mapping of its columns", Kind.HISTORY, sniff, partial(rows, False)
)
