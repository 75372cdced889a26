"""How a file begins: what formats are told apart by."""

import io
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data.intake.format import Head
from data.intake.source import PARQUET_MAGIC, head_of, lines_of, refuse
from data.rules import Rule, shown


def head(path: Path) -> Head:
    """How a file begins.

    Raises:
        InputError: if it cannot be read.
    """
    start = head_of(path)
    if start.startswith(PARQUET_MAGIC):
        return Head(path, start, columns=_parquet_columns(path))
    lines = lines_of(io.BytesIO(start))
    return Head(path, start, tuple(line.text for line in islice(lines, 200)))


def _parquet_columns(path: Path) -> tuple[str, ...]:
    try:
        return tuple(pq.read_schema(path).names)
    except (OSError, ValueError, pa.ArrowException) as error:
        message = f"the file begins like Parquet and cannot be read: {shown(error)}"
        raise refuse(path, Rule.UNREADABLE_FILE, message) from error
