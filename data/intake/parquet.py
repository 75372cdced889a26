"""Rows of Parquet files, a few thousand at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from data.intake.rows import Unreadable
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError, refuse
from data.rules import Rule, shown

MAX_COLUMNS: Final = 1_000
MAX_GROUP_BYTES: Final = 2**29
"""Most unpacked bytes of one column of one row group: one is in memory at a time."""

MAX_GROUP_VALUES: Final = 2**24
"""Most values of one column of lists of one row group: lists of millions take no bytes when all are alike."""

_BATCH_ROWS: Final = 8_192
_BATCH_BYTES: Final = 2**25

_BROKEN: Final = (OSError, pa.ArrowException, ValueError)
"""Arrow's own, and those of names that are not UTF-8."""

_UNREADABLE: Final = (ValueError, ArithmeticError, TypeError, LookupError)
"""Dates beyond the calendar, zones that are none, texts that are not UTF-8."""

Item = tuple[int, dict[str, Any] | Unreadable]


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Names of the columns on top.

    Raises:
        InputError: if the file cannot be read.
    """
    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            return tuple(file.schema_arrow.names)
    except _BROKEN as error:
        message = f"the file begins like Parquet and cannot be read: {shown(error)}"
        raise refuse(path, Rule.UNREADABLE_FILE, message) from error


def parquet_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Item]:
    """Rows as dictionaries, by their place from 1 on; instants are `datetime`, with a zone or without.

    Args:
        path: the file.
        columns: columns to read; None: all.

    Raises:
        InputError: if it cannot be read, or is larger inside than is read.
        BrokenFileError: where it breaks after good rows.
    """
    place = 0
    try:
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False, read_dictionary=_texts(path)) as file:
            _check(file, path)
            names = None if columns is None else list(columns)
            for batch in file.iter_batches(batch_size=_batch_rows(file), columns=names):
                for row in _rows(batch):
                    place += 1
                    yield place, row
    except _BROKEN as error:
        if not place:
            message = f"the Parquet file cannot be read: {shown(error)}"
            raise refuse(path, Rule.UNREADABLE_FILE, message) from error
        raise BrokenFileError(f"the Parquet file breaks after row {place}: {shown(error)}") from error


def _texts(path: Path) -> list[str]:
    """Columns of text that are kept as words and places, and are read so: a word is in memory once.

    Of other columns Arrow would remember every word until their row group ends.
    """
    with pq.ParquetFile(path, memory_map=False) as file:
        columns = [file.schema.column(place) for place in range(len(file.schema.names))]
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        return [
            one.path
            for place, one in enumerate(columns)
            if one.physical_type == "BYTE_ARRAY" and one.max_repetition_level == 0 and "." not in one.path
            if any(group.column(place).has_dictionary_page for group in groups)
        ]


def _batch_rows(file: pq.ParquetFile) -> int:
    """Rows of a batch: fewer where rows are long."""
    groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
    longest = max((one.total_byte_size / max(one.num_rows, 1) for one in groups), default=0.0)
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(longest, 1.0))))


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | Unreadable]:
    """Rows of a batch; a value that is none costs its row only."""
    try:
        columns = [_values(column) for column in batch.columns]
    except _UNREADABLE:
        for place in range(batch.num_rows):
            yield _one_row(batch.slice(place, 1))
        return
    names = batch.schema.names
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _one_row(batch: pa.RecordBatch) -> dict[str, Any] | Unreadable:
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = _values(column)[0]
        except _UNREADABLE as error:
            rule = ImportRule.BAD_TIME if pa.types.is_temporal(column.type) else ImportRule.IMPOSSIBLE
            return Unreadable(rule, f"{shown(name)} holds no value: {shown(error)}")
    return row


def _values(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    places = column.indices
    used = places.unique()
    words = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [words[place] for place in places.to_pylist()]


def _check(file: pq.ParquetFile, path: Path) -> None:
    names = file.schema.names
    if len(names) > MAX_COLUMNS:
        raise refuse(
            path, Rule.TOO_LARGE, f"the file has {len(names)} columns, at most {MAX_COLUMNS} are read"
        )
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group)
        for place in range(rows.num_columns):
            column = rows.column(place)
            what = f"column {shown(column.path_in_schema)!r}"
            if column.total_uncompressed_size > MAX_GROUP_BYTES:
                found = f"{what} unpacks to {column.total_uncompressed_size} bytes in one row group"
                raise refuse(path, Rule.TOO_LARGE, f"{found}; at most {MAX_GROUP_BYTES} are read")
            if column.num_values > max(rows.num_rows, MAX_GROUP_VALUES):
                found = f"{what} has {column.num_values} values in one row group"
                raise refuse(path, Rule.TOO_LARGE, f"{found}; at most {MAX_GROUP_VALUES} are read")
