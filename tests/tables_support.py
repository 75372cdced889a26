"""Files of job history written by tests, and what an import makes of them."""

from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from data.intake.driver import import_file
from data.intake.format import ReadOptions
from data.intake.mapping import ColumnMapping
from data.intake.mapping_text import parse_mapping
from data.intake.report import FileReport
from data.records import AttemptRecord
from data.shelf.store import HistoryStore


class Imported(NamedTuple):
    """What became of a file: its report, and what the history holds of it."""

    report: FileReport
    records: list[AttemptRecord]

    @property
    def only(self) -> AttemptRecord:
        (record,) = self.records
        return record


def imported(
    folder: Path,
    content: str | bytes,
    *,
    name: str = "file",
    file_format: str = "auto",
    mapping: str | ColumnMapping | None = None,
    tz: str | None = None,
    origin_s: float | None = None,
) -> Imported:
    """Write a file, import it, read the history back."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return imported_file(path, folder / "history", file_format, mapping, tz, origin_s)


def imported_file(
    path: Path,
    history: Path,
    file_format: str = "auto",
    mapping: str | ColumnMapping | None = None,
    tz: str | None = None,
    origin_s: float | None = None,
) -> Imported:
    """Import a file, read the history back; its counts add up."""
    said = parse_mapping(mapping, "test") if isinstance(mapping, str) else mapping
    options = ReadOptions("c", None if tz is None else ZoneInfo(tz), origin_s, said)
    store = HistoryStore(history)
    with store.importing() as into:
        report = import_file(path, file_format, options, into)
    assert report.read == report.accepted + report.repaired + report.rejected
    return Imported(report, [] if report.fault else store.records("c"))
