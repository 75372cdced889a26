"""Imports files: recognises each, reads it row by row, counts, and keeps it whole or not at all."""

import gc
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from data.formats import FORMATS
from data.intake.format import Format, Head, Match, Reading, ReadOptions
from data.intake.heads import head
from data.intake.report import FileReport, Told, Warned
from data.intake.rows import Record, rejected
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError, size_of
from data.intake.warnings import warnings_of
from data.rules import Rule, shown
from data.shelf.manifest import ImportEntry
from data.shelf.store import Importing
from data.stamps import NoZoneError
from domain.errors import Fault, InputError

READER_VERSION: Final = 1
"""Goes up when a reader changes what it makes of a file, so that files are read anew."""

AUTO: Final = "auto"
_TELL_EVERY: Final = 5_000
_OBJECTS_BETWEEN_SEARCHES: Final = 500_000

Progress = Callable[[Path, int], None]
"""Told the file and the rows read of it so far."""

TellNotes = Callable[[Path, Sequence[Told]], None]
"""Told every note of every row, as it comes."""


def recognise(path: Path) -> tuple[Format, str]:
    """The format of a file by its content, and why.

    Raises:
        InputError: if it fits no format, or two equally well.
    """
    begin = head(path)
    found: list[tuple[float, Format, Match]] = []
    for one in FORMATS.values():
        match = one.sniff(begin)
        if match is not None:
            found.append((match.score, one, match))
    found.sort(key=lambda item: (-item[0], item[1].name))
    if not found or found[0][0] < 0.5:
        raise InputError([Fault(str(path), None, Rule.UNKNOWN_FORMAT, _unknown(begin, found))])
    if len(found) > 1 and found[1][0] == found[0][0]:
        names = " and ".join(one.name for _, one, _ in found[:2])
        message = f"the file fits {names} equally well: say which with --format"
        raise InputError([Fault(str(path), None, Rule.UNKNOWN_FORMAT, message)])
    return found[0][1], found[0][2].why


def import_file(
    path: Path,
    file_format: str,
    options: ReadOptions,
    into: Importing | None,
    *,
    progress: Progress = lambda _path, _rows: None,
    tell_notes: TellNotes = lambda _path, _notes: None,
) -> FileReport:
    """Read one file and keep what it brings.

    Nothing of a file is kept before all of it has been read. A file nothing of which can be read has a report
    with a `fault`.

    Args:
        path: the file.
        file_format: name of a format, or `auto`.
        options: what the operator says of it.
        into: where to keep it; None: a dry run.
        progress: told how far it is.
        tell_notes: told every repair and rejection.
    """
    report = FileReport(str(path))
    try:
        size_of(path)
        report.sha256 = _sha256(path)
        chosen = _chosen(path, file_format, options, report)
        asked = _asked(chosen, options)
        if into is not None and into.known(report.sha256, asked) is not None:
            report.was_known = True
        if into is None:
            _read(path, chosen, options, report, lambda _records: None, progress, tell_notes)
            return report
        with into.arrivals() as arrivals:
            _read(path, chosen, options, report, arrivals.take, progress, tell_notes)
            entry = ImportEntry(
                report.sha256, asked, path.name, f"reports/{report.sha256[:24]}-{asked[:8]}.json"
            )
            told = report.as_json()
            into.keep(arrivals, report.clock, entry, told)
            report.new, report.updated, report.unchanged = told["new"], told["updated"], told["unchanged"]
            report.warnings = [Warned(**one) for one in told["warnings"]]
    except InputError as error:
        first = error.faults[0]
        report.fault = {"line": first.line, "rule": str(first.rule), "message": first.message}
    return report


def _read(
    path: Path,
    chosen: Format,
    options: ReadOptions,
    report: FileReport,
    keep: Callable[[Sequence[Record]], None],
    progress: Progress,
    tell_notes: TellNotes,
) -> None:
    reading = Reading(path, options)
    last = 0
    rows = chosen.rows(reading)
    try:
        with _few_searches_for_cycles():
            for row in rows:
                last = row.line
                if told := report.take(row):
                    tell_notes(path, told)
                keep(row.records)
                if report.read % _TELL_EVERY == 0:
                    progress(path, report.read)
    except BrokenFileError as error:
        if not report.read:
            raise InputError([Fault(str(path), None, Rule.UNREADABLE_FILE, shown(error))]) from error
        tell_notes(path, report.take(rejected(last + 1, ImportRule.CUT_SHORT, shown(error))))
    except NoZoneError as error:
        message = f"{error}: give the cluster's zone, for example --tz Europe/Zurich"
        raise InputError([Fault(str(path), error.line or last + 1, Rule.NO_TIME_ZONE, message)]) from error
    progress(path, report.read)
    report.clock = reading.clock
    report.facts = dict(reading.facts)
    if not report.read:
        raise InputError([Fault(str(path), None, Rule.NO_ROWS, "the file has no row")])
    report.warnings = warnings_of(report)


@contextmanager
def _few_searches_for_cycles() -> Iterator[None]:
    """Rows and records hold no cycles; to search millions of them for some takes a sixth of an import."""
    was = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES, *was[1:])
    try:
        yield
    finally:
        gc.set_threshold(*was)


def _chosen(path: Path, file_format: str, options: ReadOptions, report: FileReport) -> Format:
    if file_format == AUTO and options.mapping is not None:
        chosen, report.why = FORMATS["parquet" if head(path).is_parquet else "csv"], "a mapping is given"
    elif file_format == AUTO:
        chosen, report.why = recognise(path)
    elif file_format in FORMATS:
        chosen, report.why = FORMATS[file_format], "as --format says"
    else:
        message = f"there is no format {file_format!r}; there are {', '.join(sorted(FORMATS))}"
        raise InputError([Fault(str(path), None, Rule.UNKNOWN_FORMAT, message)])
    report.format, report.kind = chosen.name, chosen.kind
    return chosen


def _asked(chosen: Format, options: ReadOptions) -> str:
    """Hash of everything beside the bytes that decides what is read."""
    mapping = None if options.mapping is None else options.mapping.as_json()
    parts = replace(options, tz=None, mapping=None)
    asked = [READER_VERSION, chosen.name, str(options.tz), mapping, repr(parts)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unknown(begin: Head, found: Sequence[tuple[float, Format, Match]]) -> str:
    if found:
        near = "; ".join(f"{one.name}: {match.why}" for _, one, match in found[:3])
        return f"no format is recognised for sure ({near}); say which with --format, or give a --mapping"
    if begin.is_parquet:
        return f"no format is recognised: columns {shown(', '.join(begin.columns))}; give a --mapping"
    first = begin.lines[0] if begin.lines else ""
    return (
        f"no format is recognised: the file begins with '{shown(first)}'; say --format, or give a --mapping"
    )
