"""How a file begins: what formats are told apart by."""

import io
from itertools import islice
from pathlib import Path

from data.intake.format import Head
from data.intake.parquet import parquet_columns
from data.intake.source import PARQUET_MAGIC, head_of, lines_of


def head(path: Path) -> Head:
    """How a file begins.

    Raises:
        InputError: if it cannot be read.
    """
    start = head_of(path)
    if start.startswith(PARQUET_MAGIC):
        return Head(path, start, columns=parquet_columns(path))
    lines = lines_of(io.BytesIO(start))
    return Head(path, start, tuple(line.text for line in islice(lines, 200)))
