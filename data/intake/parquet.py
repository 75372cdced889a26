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

_BATCH_ROWS: Final = 8_192


def parquet_rows(
    path: Path, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, Any] | Unreadable]]:
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
        with pq.ParquetFile(path, memory_map=False) as file:
            _check(file, path)
            for batch in file.iter_batches(
                batch_size=_BATCH_ROWS, columns=None if columns is None else list(columns)
            ):
                for row in _values(batch):
                    place += 1
                    yield place, row
    except (OSError, pa.ArrowException) as error:
        if not place:
            raise refuse(
                path, Rule.UNREADABLE_FILE, f"the Parquet file cannot be read: {shown(error)}"
            ) from error
        raise BrokenFileError(f"the Parquet file breaks after row {place}: {shown(error)}") from error


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | Unreadable]:
    """Rows of a batch; one with an instant beyond the calendar costs that row only."""
    try:
        yield from batch.to_pylist()
    except (ValueError, OverflowError):
        for place in range(batch.num_rows):
            try:
                yield batch.slice(place, 1).to_pylist()[0]
            except (ValueError, OverflowError) as error:
                yield Unreadable(ImportRule.BAD_TIME, f"a value of the row is on no calendar: {shown(error)}")


def _check(file: pq.ParquetFile, path: Path) -> None:
    names = file.schema_arrow.names
    if len(names) > MAX_COLUMNS:
        raise refuse(
            path, Rule.TOO_LARGE, f"the file has {len(names)} columns, at most {MAX_COLUMNS} are read"
        )
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group)
        for column in range(rows.num_columns):
            size = rows.column(column).total_uncompressed_size
            if size > MAX_GROUP_BYTES:
                found = (
                    f"column {rows.column(column).path_in_schema!r} unpacks to {size} bytes in one row group"
                )
                raise refuse(path, Rule.TOO_LARGE, f"{shown(found)}; at most {MAX_GROUP_BYTES} are read")
