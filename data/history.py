"""The history table itself, and its way to and from the words of the domain."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from data.rules import FaultLog, Rule
from data.schema import COLUMNS, Kind
from data.validation import Lines, check_jobs
from domain.errors import Fault, InputError
from domain.jobs import Job, JobOutcome, JobState

_OUTCOME_COLUMNS: Final = ("duration_s", "state", "start_s")
_JOB_COLUMNS: Final = tuple(column.name for column in COLUMNS if column.name not in _OUTCOME_COLUMNS)


@dataclass(frozen=True)
class History:
    """Jobs of one source that obey the schema.

    Attributes:
        frame: one row per job, sorted by (submit_s, job_id), index 0, 1, ...; columns and dtypes as in
            `data.schema`, then the extra ones.
        extra_columns: names of the columns that are not in the schema, in the order of the source.
        skipped: faults of the rows that were left out; empty unless reading was lenient.
        source: where the jobs came from.
        num_skipped_rows: how many rows were left out; one row can have several faults.
    """

    frame: pd.DataFrame
    extra_columns: tuple[str, ...]
    skipped: tuple[Fault, ...]
    source: str
    num_skipped_rows: int = 0


def from_frame(
    frame: pd.DataFrame,
    *,
    source: str,
    quotas: Mapping[str, int] | None = None,
    lines: Lines | None = None,
    is_lenient: bool = False,
    log: FaultLog | None = None,
) -> History:
    """Make a history of a table of jobs, whose columns may hold text or numbers.

    Args:
        frame: one row per job.
        source: what the faults name as their source.
        quotas: GPUs of each pool; None leaves pools and widths unchecked.
        lines: line of each row in its source; the rows' numbers from 1 on where None.
        is_lenient: leave bad rows out and list their faults instead of refusing the table.
        log: faults of rows of the source that are not in `frame`, one fault each.

    Raises:
        InputError: with every fault found; when lenient, only if no row can be judged or none is good.
    """
    checked = check_jobs(frame, source=source, quotas=quotas, lines=lines)
    all_faults = FaultLog(source)
    num_skipped_rows = checked.num_bad_rows
    if log is not None:
        all_faults.absorb(log)
        num_skipped_rows += len(log)
    all_faults.absorb(checked.log)
    faults = all_faults.listed()
    if faults and not is_lenient:
        raise InputError(faults)
    if checked.frame.empty:
        raise InputError([Fault(source, None, Rule.NO_ROWS, _no_rows(num_skipped_rows)), *faults])
    return History(in_order(checked.frame), checked.extra_columns, tuple(faults), source, num_skipped_rows)


def _no_rows(num_bad_rows: int) -> str:
    if num_bad_rows:
        return f"no good row is left, all {num_bad_rows} rows have faults"
    return "there is a header but no row, at least one job is needed"


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows sorted by (submit_s, job_id), with a dense index."""
    return frame.sort_values(["submit_s", "job_id"], kind="stable", ignore_index=True)


def to_jobs(frame: pd.DataFrame) -> tuple[list[Job], dict[str, JobOutcome]]:
    """Jobs in the order of the rows, and apart from them, by id, what became of them.

    Args:
        frame: rows that obey the schema; a missing value becomes None, a missing state `UNKNOWN`.
    """
    jobs = list(map(Job, *(_values(frame[name]) for name in _JOB_COLUMNS)))
    states = [JobState(state) if state else JobState.UNKNOWN for state in _values(frame["state"])]
    outcomes = map(JobOutcome, frame["job_id"].tolist(), frame["duration_s"].tolist(), states)
    return jobs, {outcome.job_id: outcome for outcome in outcomes}


def from_jobs(jobs: Iterable[Job], outcomes: Mapping[str, JobOutcome]) -> pd.DataFrame:
    """The inverse of `to_jobs`: a table in the schema, sorted by (submit_s, job_id).

    A state of `UNKNOWN` becomes a missing one; starts are not kept: an outcome does not say them.

    Raises:
        KeyError: if a job has no outcome.
    """
    rows = [(job, outcomes[job.job_id]) for job in jobs]
    values = {name: [getattr(job, name) for job, _ in rows] for name in _JOB_COLUMNS}
    values["duration_s"] = [outcome.duration_s for _, outcome in rows]
    values["start_s"] = [None for _ in rows]
    values["state"] = [None if end.state is JobState.UNKNOWN else end.state.value for _, end in rows]
    typed = {
        column.name: pd.Series(values[column.name], dtype=column.kind.dtype, name=column.name)
        for column in COLUMNS
    }
    return in_order(pd.DataFrame(typed))


def content_hash(frame: pd.DataFrame) -> str:
    """SHA-256 of the table's content, 64 hexadecimal digits.

    It depends on the values, the order of the rows and the names of the columns. It does not depend on
    the order of the columns, on columns without any value, or on how pandas stores the values.
    """
    digest = hashlib.sha256(f"{len(frame)} rows\n".encode())
    kinds = {column.name: column.kind for column in COLUMNS}
    for name in sorted(frame.columns):
        column = frame[name]
        if column.isna().all():
            continue
        kind = kinds.get(name, Kind.TEXT)
        digest.update(f"{len(name.encode())} {name} {kind}\n".encode())
        digest.update(_text_bytes(column) if kind is Kind.TEXT else _number_bytes(column, kind))
    return digest.hexdigest()


def _number_bytes(column: pd.Series, kind: Kind) -> bytes:
    if kind is Kind.INT:
        return column.to_numpy(dtype="<i8").tobytes()
    values = column.to_numpy(dtype="<f8", na_value=math.nan) + 0.0
    values[np.isnan(values)] = math.nan
    return values.tobytes()


def _text_bytes(column: pd.Series) -> bytes:
    is_missing = column.isna().to_numpy()
    texts = [str(value).encode("utf-8", "surrogatepass") for value in column.tolist()]
    lengths = np.where(is_missing, -1, np.fromiter(map(len, texts), np.int64, len(texts)))
    kept = [text for text, is_gone in zip(texts, is_missing.tolist(), strict=True) if not is_gone]
    return lengths.astype("<i8").tobytes() + b"".join(kept)


def _values(column: pd.Series) -> list[Any]:
    return column.astype(object).where(column.notna(), None).tolist()
