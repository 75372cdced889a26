"""Records that models learn from: how they are read, named, and known again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from data.history import History, content_hash
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from data.splits import ended_before, started_s
from domain.errors import SettingError

_DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Source:
    """Files to learn from; the fields are the command line's options of the same names."""

    jobs: Path
    pools: Path
    file_format: str = "csv"
    is_lenient: bool = False


def read_source(source: Source) -> tuple[History, dict[str, int]]:
    """Jobs and quotas.

    Raises:
        InputError: with every fault found in a file.
        SettingError: for an unknown format.
    """
    if source.file_format not in READERS:
        raise SettingError(f"unknown format {source.file_format!r}; there are: {', '.join(READERS)}")
    quotas = dict(read_pools(source.pools))
    return READERS[source.file_format](source.jobs, quotas, is_lenient=source.is_lenient), quotas


def data_name(path: Path) -> str:
    """Name under which models of a file are kept where none is given: that of its folder and its own."""
    text = f"{path.resolve().parent.name}-{path.stem}".lower()
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in text)
    return kept.strip("-_")[:64] or "data"


def tail_hash(frame: pd.DataFrame, until_s: float) -> str:
    """Hash of the jobs that ended within the last day before an instant.

    Two records that agree on it are taken to be one, even if the later one has dropped its oldest jobs.
    """
    ended = ended_before(frame[frame["submit_s"] < until_s], until_s)
    end_s = np.maximum(started_s(ended), ended["submit_s"]) + ended["duration_s"]
    return content_hash(ended[end_s > until_s - _DAY_S].reset_index(drop=True))
