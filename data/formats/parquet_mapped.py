"""Parquet that a mapping explains, the operator's or a built-in one."""

from functools import partial
from typing import Final

from data.formats.csv_mapped import TABLE, rows
from data.intake.format import Format, Head, Kind, Match
from data.intake.tables import sniff_known


def sniff(begin: Head) -> Match | None:
    """Columns that a built-in mapping knows."""
    return sniff_known(TABLE, begin) if begin.is_parquet else None


FORMAT: Final = Format(
    "parquet", "Parquet with a mapping of its columns", Kind.HISTORY, sniff, partial(rows, True)
)
