"""The child that reads an upload of job history: `python -m app.children.import_history`."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pandas as pd
from sqlalchemy import Engine
from sqlmodel import Session

from app.children import main, tell_progress
from app.children.read_export import NOTHING_TOLD, Export, Told, read_export
from app.clock import Clock, make_clock
from app.errors import UnknownResource
from app.services import epochs
from app.services.times import to_s
from app.settings import ServiceSettings
from app.store import clusters, history
from app.store.engine import lock_cluster, make_engine, reading, transaction
from app.store.tables import HistoryImportRow, ImportStatus
from data.history import History
from data.readers import READERS
from data.rules import Rule, shown
from domain.errors import AntecastError, Fault, InputError

KEPT_FAULTS: Final = 1_000
"""Faults of one upload that are kept; the others are counted."""

MAX_CHARACTERS: Final = 255
"""Longest id of a job and name of a pool."""

_INSTANTS: Final = ("submit_s", "deadline_s", "start_s")
_KNOWN: Final = "already-known"
_IN_FUTURE: Final = "ends-in-the-future"
_SOURCE: Final = "the file"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class HistoryRefused(AntecastError):  # noqa: N818 - named after what has happened
    """A file of job history that breaks rules; the import has them all."""


@dataclass(frozen=True)
class Read:
    """What was found in a file: good rows (none where it is refused) and faults, kept and counted.

    `has_instants`: its times are epoch seconds, whatever second 0 was said to be.
    """

    frame: pd.DataFrame | None
    faults: tuple[Fault, ...]
    num_faults: int
    num_skipped: int
    has_instants: bool = False


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Read the upload that the request names."""
    settings = ServiceSettings()
    engine = make_engine(settings.database_url)
    try:
        clock = make_clock(settings.clock_speed, settings.clock_origin)
        told = Told(request.get("tz"), request.get("origin_s"))
        return import_history(engine, request["cluster"], request["import_id"], clock, told)
    finally:
        engine.dispose()


def import_history(
    engine: Engine, cluster: str, import_id: str, clock: Clock, told: Told = NOTHING_TOLD
) -> dict[str, Any]:
    """Read an upload and keep its jobs; asked again, it tells what came of it the first time.

    Args:
        engine: the database.
        cluster: whose upload it is.
        import_id: its id.
        clock: our clock.
        told: what the sender said of a file that is not `csv`.

    Returns:
        num_jobs, num_skipped, num_faults, faults (at most `KEPT_FAULTS`) and sha256.

    Raises:
        UnknownResource: if there is no such upload.
        HistoryRefused: if the file breaks rules; they are kept with the import.
    """
    with reading(engine) as session:
        row = history.get(session, import_id)
        if row is None or row.cluster != cluster:
            raise UnknownResource(f"cluster {cluster!r} has no import {import_id!r}")
        if row.status in (ImportStatus.IMPORTED, ImportStatus.REFUSED):
            return _report(row)
        quotas = {pool.name: pool.quota_gpus for pool in clusters.pools(session, cluster)}
        read = _read(session, row, quotas or None, told)
    tell_progress(1, 3)
    with transaction(engine) as session:
        locked = lock_cluster(session, cluster)
        row = history.lock(session, import_id)
        if row is None:
            raise UnknownResource(f"import {import_id!r} is gone")
        if row.status == ImportStatus.WAITING:
            now_s = to_s(locked, clock.now())
            if read.has_instants:
                row.shift_s = to_s(locked, _EPOCH)
            _keep(session, row, read, now_s)
            if row.num_jobs:
                epochs.begin(session, locked, "history imported", clock)
    tell_progress(3, 3)
    return _report(row)


def _report(row: HistoryImportRow) -> dict[str, Any]:
    if row.status == ImportStatus.REFUSED:
        first = row.faults[0]
        place = "" if first["line"] is None else f"line {first['line']}: "
        raise HistoryRefused(
            f"the file has {row.num_faults} faults and was refused; the first: "
            f"{place}{first['rule']}: {first['message']}"
        )
    return {
        "num_jobs": row.num_jobs,
        "num_skipped": row.num_skipped,
        "num_faults": row.num_faults,
        "faults": row.faults,
        "sha256": row.sha256,
    }


def _read(session: Session, row: HistoryImportRow, quotas: Mapping[str, int] | None, told: Told) -> Read:
    with tempfile.TemporaryDirectory(prefix="antecast-") as folder:
        path = Path(folder) / "history"
        with path.open("wb") as file:
            for chunk in history.chunks(session, row.import_id):
                file.write(chunk)
        try:
            if row.file_format in READERS:
                read = Export(READERS[row.file_format](path, quotas, is_lenient=row.is_lenient))
            else:
                read = read_export(path, row.file_format, told, quotas, is_lenient=row.is_lenient)
        except InputError as error:
            return Read(None, *_counted(error.faults), num_skipped=0)
    frame, unfit = _fit(read.history)
    if unfit and not row.is_lenient:
        return Read(None, *_counted(unfit), num_skipped=0)
    faults, num_faults = _counted([*read.faults, *read.history.skipped, *unfit])
    num_skipped = read.num_left_out + read.history.num_skipped_rows + len(unfit)
    return Read(frame, faults, num_faults + read.num_not_listed, num_skipped, read.has_instants)


def _fit(made: History) -> tuple[pd.DataFrame, list[Fault]]:
    """The rows whose names the database can hold, and a fault for each of the others."""
    too_long = (made.frame["job_id"].str.len() > MAX_CHARACTERS) | (
        made.frame["pool"].str.len() > MAX_CHARACTERS
    )
    faults = [
        Fault(
            _SOURCE,
            None,
            Rule.FIELD_TOO_LONG,
            f"job {shown(job_id)}: its id or pool has more than {MAX_CHARACTERS} characters",
        )
        for job_id in made.frame.loc[too_long, "job_id"]
    ]
    return made.frame[~too_long], faults


def _counted(faults: Sequence[Fault]) -> tuple[tuple[Fault, ...], int]:
    """Those that are kept, and how many there are, with those that the reader itself only counted."""
    num_faults = len(faults)
    listed = [fault for fault in faults if fault.rule != Rule.TOO_MANY_FAULTS]
    for fault in faults:
        if fault.rule == Rule.TOO_MANY_FAULTS:
            num_faults += int(fault.message.split()[0]) - 1
    return tuple(listed[:KEPT_FAULTS]), num_faults


def _keep(session: Session, row: HistoryImportRow, read: Read, now_s: float) -> None:
    """Everything of one upload, in the transaction of the session."""
    faults = [_as_json(fault) for fault in read.faults]
    row.num_faults = read.num_faults
    row.num_skipped = read.num_skipped
    row.num_jobs = 0
    if read.frame is None:
        row.status = ImportStatus.REFUSED.value
    else:
        known = history.known_job_ids(session, row.cluster)
        is_known = read.frame["job_id"].isin(known)
        frame = _shifted(read.frame[~is_known], row.shift_s)
        told = [_already_known(job_id) for job_id in read.frame.loc[is_known, "job_id"]]
        faults += told
        history.add_jobs(session, row.cluster, row.import_id, _records(frame))
        row.status = ImportStatus.IMPORTED.value
        row.num_jobs = len(frame)
        row.num_skipped += len(told)
        row.num_faults += len(told)
        ahead = int(((frame["submit_s"] + frame["duration_s"]) > now_s).sum())
        if ahead:
            faults.insert(0, _in_the_future(ahead))
            row.num_faults += 1
    row.faults = faults[:KEPT_FAULTS]
    history.remove_chunks(session, row.import_id)


def _shifted(frame: pd.DataFrame, shift_s: float) -> pd.DataFrame:
    """The table on the cluster's clock."""
    return frame.assign(**{name: frame[name] + shift_s for name in _INSTANTS})


def _records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """One dictionary a row; what is missing is None."""
    columns = [
        frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in history.JOB_COLUMNS
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(history.JOB_COLUMNS, values, strict=True))


def _as_json(fault: Fault) -> dict[str, Any]:
    return {"line": fault.line, "rule": str(fault.rule), "message": fault.message}


def _already_known(job_id: str) -> dict[str, Any]:
    message = f"job {shown(job_id)} is known already and was left out"
    return {"line": None, "rule": _KNOWN, "message": message}


def _in_the_future(num_jobs: int) -> dict[str, Any]:
    message = (
        f"{num_jobs} of the imported jobs end after now; forecasts learn from each only once it has ended: "
        "is `origin`, the instant of the file's second 0, right?"
    )
    return {"line": None, "rule": _IN_FUTURE, "message": message}


if __name__ == "__main__":
    main(answer)
