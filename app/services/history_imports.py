"""Files of any format in, without a service: the arrow from accounting exports to a history in a folder."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from app.services.history_views import write_json
from app.services.import_notes import NotesFile
from data.intake.driver import AUTO, Progress, import_file
from data.intake.format import ReadOptions
from data.intake.report import FileReport
from data.shelf.store import HistoryStore, Importing
from domain.errors import InputError, SettingError

_COUNTED: Final = ("read", "accepted", "repaired", "rejected", "records")
_KEPT: Final = ("new", "updated", "unchanged")

Done = Callable[[FileReport], None]
"""Told of each file as it is done."""


@dataclass(frozen=True)
class Wanted:
    """An import; the fields are the command line's options of the same names.

    Attributes:
        history: folder of the history.
        is_dry_run: read and report, keep nothing.
        report: where to write what was found; None: nowhere. All notes stand beside it (`notes_path`).
    """

    files: tuple[Path, ...]
    options: ReadOptions
    history: Path
    file_format: str = AUTO
    is_dry_run: bool = False
    report: Path | None = None


def notes_path(report: Path) -> Path:
    """The file of all notes that stands beside a report."""
    return report.with_suffix(".notes.csv")


def run(wanted: Wanted, *, progress: Progress, done: Done) -> list[FileReport]:
    """Import files one by one; a bad one does not keep the others out.

    Raises:
        SettingError: if the history or the report cannot be written, or the history cannot be read.
    """
    store = HistoryStore(wanted.history)
    with _refusals(), _notes_of(wanted) as notes, _room(store, wanted) as into:
        reports = []
        for path in wanted.files:
            found = import_file(
                path,
                wanted.file_format,
                replace(wanted.options, partition_max_s=longest_limits(store, wanted.options.cluster)),
                into,
                progress=progress,
                tell_notes=notes.add,
            )
            reports.append(found)
            done(found)
        if wanted.report is not None:
            notes.keep()
            write_json(as_document(reports, wanted), wanted.report)
    return reports


def longest_limits(store: HistoryStore, cluster: str) -> dict[str, float]:
    """The longest time limit of each pool, seconds, where the inventory of the history says it."""
    return {one.pool: one.max_time_s for one in store.inventory(cluster).pools if one.max_time_s is not None}


def as_document(reports: Sequence[FileReport], wanted: Wanted) -> dict[str, Any]:
    """What was found, as one JSON object."""
    return {
        "files": [one.as_json() for one in reports],
        "totals": totals(reports),
        "history": None if wanted.is_dry_run else str(wanted.history),
        "is_dry_run": wanted.is_dry_run,
    }


def totals(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Sums over the files that could be read; `read` = `accepted` + `repaired` + `rejected` here, too."""
    good = [one for one in reports if one.fault is None]
    rules: Counter[str] = Counter()
    for one in good:
        rules.update(one.rules)
    return {
        "files": len(reports),
        "unreadable": len(reports) - len(good),
        **{name: sum(getattr(one, name) for one in good) for name in _COUNTED},
        **{name: sum(getattr(one, name) or 0 for one in good) for name in _KEPT},
        "rules": dict(sorted(rules.items())),
    }


@contextmanager
def _refusals() -> Iterator[None]:
    """What is wrong with the history itself is no fault of the files."""
    try:
        yield
    except InputError as error:
        raise SettingError(str(error)) from error


@contextmanager
def _room(store: HistoryStore, wanted: Wanted) -> Iterator[Importing | None]:
    if wanted.is_dry_run:
        yield None
        return
    with store.importing() as into:
        yield into


def _notes_of(wanted: Wanted) -> NotesFile:
    return NotesFile(None if wanted.report is None else notes_path(wanted.report))
