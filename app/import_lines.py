"""What an import says to people: one line a file, what was found below it, and a sum."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.services.history_imports import Wanted, notes_path, totals
from data.intake.format import Kind
from data.intake.report import FileReport
from data.intake.rules import ImportRule
from data.rules import Rule

_SHOWN_NOTES: Final = 5
_SHOWN_RULES: Final = 6
_FILE_RULES: Final = frozenset(
    {
        Rule.UNREADABLE_FILE, Rule.TOO_LARGE, Rule.EMPTY_FILE, Rule.NOT_TEXT, Rule.NOT_CSV,
        Rule.MISSING_COLUMN, Rule.DUPLICATE_COLUMN, Rule.UNNAMED_COLUMN, Rule.NO_ROWS, Rule.UNKNOWN_FORMAT,
        Rule.NO_TIME_ZONE, Rule.NOTHING_TO_LEARN, Rule.NO_GPU_COUNTS, Rule.OUT_OF_RANGE,
    }
)  # fmt: skip
"""Rules by which a whole file is refused."""


def file_lines(report: FileReport) -> Iterator[str]:
    """What was found in one file."""
    name = printable(report.file)
    if report.fault is not None:
        line = report.fault["line"]
        place = name if line is None else f"{name}:{line}"
        yield f"{place}: not imported: {report.fault['rule']}: {printable(report.fault['message'])}"
        return
    yield f"{name}: {report.format} ({printable(report.why)}): {_rows(report)}; {_became(report)}"
    for note in report.notes[:_SHOWN_NOTES]:
        yield f"  line {note.line}: {note.rule} ({note.action}): {printable(note.message)}"
    if sum(report.rules.values()) > _SHOWN_NOTES:
        yield f"  in all: {_counts(report)}"
    for warned in report.warnings:
        yield f"  warning: {warned.warning}: {printable(warned.message)}"


def total_lines(reports: Sequence[FileReport], wanted: Wanted) -> Iterator[str]:
    """The sum over all files, and where things are now."""
    sums = totals(reports)
    unread = f", {sums['unreadable']} of them not imported" if sums["unreadable"] else ""
    files = f"{sums['files']} file{'s' if sums['files'] != 1 else ''}{unread}"
    kept = "nothing was kept (a dry run)"
    if not wanted.is_dry_run:
        kept = f"{sums['new']:,} new, {sums['updated']:,} updated, {sums['unchanged']:,} unchanged"
        kept += f" in {wanted.history}"
    yield (
        f"{files}: {sums['read']:,} rows read = {sums['accepted']:,} accepted + {sums['repaired']:,} repaired"
        f" + {sums['rejected']:,} rejected; {kept}"
    )
    if wanted.report is not None:
        yield f"Written: {wanted.report}, {notes_path(wanted.report)}"


def rule_table() -> list[dict[str, Any]]:
    """All rules that a report can name: those of rows, then those by which a file is refused."""
    rows = [
        {
            "rule": one.value,
            "action": one.action.value,
            "meaning": one.meaning,
            "page": f"docs/import-rules/{one.value}.md",
        }
        for one in ImportRule
    ]
    files = [
        {"rule": one.value, "action": "refused", "meaning": one.meaning, "page": None}
        for one in Rule
        if one in _FILE_RULES
    ]
    return [*rows, *files]


def printable(text: str) -> str:
    """Text of a source as a terminal may be given it: one line, nothing that moves the cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _rows(report: FileReport) -> str:
    return (
        f"{report.read:,} rows read, {report.accepted:,} accepted, {report.repaired:,} repaired, "
        f"{report.rejected:,} rejected"
    )


def _became(report: FileReport) -> str:
    what = "attempts" if report.kind is Kind.HISTORY else "nodes and pools"
    if report.new is None:
        return f"{report.records:,} {what} (not kept)"
    known = "known already, " if report.was_known else ""
    return (
        f"{report.records:,} {what}: {known}{report.new:,} new, {report.updated:,} updated, "
        f"{report.unchanged:,} unchanged"
    )


def _counts(report: FileReport) -> str:
    common = report.rules.most_common()
    words = [f"{rule} {count:,}" for rule, count in common[:_SHOWN_RULES]]
    left = len(common) - len(words)
    return ", ".join(words) + (f" and {left} more rules" if left else "")
