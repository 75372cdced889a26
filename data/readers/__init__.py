"""Readers of job records. A format is one file here and one line in `READERS`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from data.history import History
from data.readers.benchmark_csv import read_jobs


class HistoryReader(Protocol):
    """Turns one file of jobs into a history that obeys `data.schema`."""

    def __call__(self, path: Path, quotas: Mapping[str, int] | None, *, is_lenient: bool = False) -> History:
        """Read the file; bad rows are refused, or left out and listed when lenient.

        Args:
            path: the file.
            quotas: GPUs of each pool; None leaves pools and widths unchecked.
            is_lenient: whether bad rows are left out instead of refused.

        Raises:
            InputError: with every fault found; when lenient, only if no row can be judged or none is good.
        """
        ...


READERS: Final[Mapping[str, HistoryReader]] = {
    "csv": read_jobs,
}
"""Reader of each format, by the format's name."""
