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
MAX_GROUP_BYTES: Final = 2**30
"""Most unpacked bytes of one row group: texts of one are in memory at a time."""

FREE_ROWS: Final = 2**22
MAX_ROWS_PER_BYTE: Final = 250
"""Most rows of a file by its bytes, beyond the first `FREE_ROWS`: rows that are all alike take none."""

_BATCH_ROWS: Final = 8_192
_BATCH_BYTES: Final = 2**25
_TEXTS: Final = frozenset({"STRING", "JSON", "ENUM", "NONE"})

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

    Columns of lists and of other nested values are not read: a few bytes can stand for millions of them.
    Nothing is asked of what a file says of single chunks: Arrow ends the process where that is not true.

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
            names = _flat(file, path, columns)
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
    """Columns of text, which are read as words and places: a word that a column repeats is in memory once."""
    with pq.ParquetFile(path, memory_map=False) as file:
        columns = [file.schema.column(place) for place in range(len(file.schema.names))]
        flat = {field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)}
    return [
        one.path
        for one in columns
        if one.physical_type == "BYTE_ARRAY" and one.logical_type.type in _TEXTS and one.path in flat
    ]


def _flat(file: pq.ParquetFile, path: Path, columns: Sequence[str] | None) -> list[str]:
    """Columns to read, of those that hold one value per row."""
    flat = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
    nested = set(columns or ()) - set(flat)
    if nested:
        found = f"there is no column {shown(min(nested))!r} with one value per row"
        raise refuse(path, Rule.MISSING_COLUMN, found)
    return flat if columns is None else list(columns)


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
    most_rows = FREE_ROWS + MAX_ROWS_PER_BYTE * path.stat().st_size
    if file.metadata.num_rows > most_rows:
        found = f"the file has {file.metadata.num_rows} rows, at most {most_rows} are read of one of its size"
        raise refuse(path, Rule.TOO_LARGE, found)
    for place in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(place).total_byte_size
        if size > MAX_GROUP_BYTES:
            found = f"a row group unpacks to {size} bytes, at most {MAX_GROUP_BYTES} are read"
            raise refuse(path, Rule.TOO_LARGE, f"{found}; write the file with smaller ones")
