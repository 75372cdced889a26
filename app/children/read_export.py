"""An accounting export as a table of jobs: `antecast import` and `antecast history export` in one go."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from data.history import History, from_frame
from data.intake.driver import import_file
from data.intake.format import Clock, Kind, ReadOptions
from data.intake.report import FileReport
from data.intake.rules import Action
from data.rules import Rule
from data.shelf.jobs import jobs_view
from data.shelf.jobs_export import Exported, export_jobs
from data.shelf.store import HistoryStore
from data.stamps import zone
from domain.attempts import EndCause
from domain.errors import Fault, InputError

_CLUSTER: Final = "upload"
_LEFT_OUT: Final = "left-out"
_SOURCE: Final = "the file"


class Told(NamedTuple):
    """What a sender says of a file.

    Attributes:
        tz: name of the zone of stamps without an offset.
        origin_s: instant of second 0, epoch seconds, of formats that count from one.
    """

    tz: str | None = None
    origin_s: float | None = None


NOTHING_TOLD: Final = Told()


@dataclass(frozen=True)
class Export:
    """Jobs of a file.

    Attributes:
        history: those that are good.
        faults: what became of rows and jobs that are not among them.
        num_not_listed: faults that are only counted.
        num_left_out: rows and jobs that are not among them, beside those that the history itself skipped.
        has_instants: whether times are epoch seconds.
    """

    history: History
    faults: tuple[Fault, ...] = ()
    num_not_listed: int = 0
    num_left_out: int = 0
    has_instants: bool = False


def read_export(
    path: Path, file_format: str, told: Told, quotas: Mapping[str, int] | None, *, is_lenient: bool
) -> Export:
    """Read a file of any format that holds a history.

    Rows that an import rejects are left out and told: exports have some that are no fault. What has not ended
    is left out, too, and comes with a later file. Jobs that break the rules of the table (an unknown pool, a
    width above the quota) refuse the file unless `is_lenient`.

    Raises:
        InputError: if the file cannot be read, holds no jobs, or jobs of it break rules.
    """
    with tempfile.TemporaryDirectory(prefix="antecast-") as folder:
        store = HistoryStore(Path(folder) / "history")
        options = ReadOptions(
            cluster=_CLUSTER, tz=None if told.tz is None else zone(told.tz), origin_s=told.origin_s
        )
        with store.importing() as into:
            report = import_file(path, file_format, options, into)
        _check(report)
        made = _ended(export_jobs(jobs_view(store.table(_CLUSTER))))
    if made.frame.empty:
        raise InputError([_fault(Rule.NO_ROWS, f"no job is left: {_words(made) or 'the file has none'}")])
    try:
        history = from_frame(made.frame, source=_SOURCE, quotas=quotas, is_lenient=is_lenient)
    except InputError as error:
        raise InputError([replace(fault, line=None) for fault in error.faults]) from error
    history = replace(history, skipped=tuple(replace(fault, line=None) for fault in history.skipped))
    rejected = [note for note in report.notes if note.action == Action.REJECTED.value]
    faults = [Fault(_SOURCE, note.line, note.rule, note.message) for note in rejected]
    faults += [_fault(_LEFT_OUT, f"{number} jobs: {why}") for why, number in made.left_out.items()]
    return Export(
        history,
        tuple(faults),
        report.rejected - len(rejected),
        report.rejected + sum(made.left_out.values()),
        report.clock is Clock.UTC,
    )


def _check(report: FileReport) -> None:
    if report.fault is not None:
        fault = report.fault
        raise InputError([Fault(_SOURCE, fault["line"], fault["rule"], fault["message"])])
    if report.kind is not Kind.HISTORY:
        raise InputError([_fault(Rule.NOTHING_TO_LEARN, f"{report.format} holds an inventory, no jobs")])


def _ended(made: Exported) -> Exported:
    """Without what still runs: what is kept here is not updated by a later file."""
    runs = made.frame["cause"].eq(EndCause.NOT_ENDED.value)
    if runs.any():
        made.left_out["not ended yet"] = int(runs.sum())
        made.frame = made.frame[~runs].reset_index(drop=True)
    return made


def _words(made: Exported) -> str:
    return ", ".join(f"{why}: {number}" for why, number in made.left_out.items())


def _fault(rule: str, message: str) -> Fault:
    return Fault(_SOURCE, None, rule, message)
