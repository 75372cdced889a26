"""Tables whose first line names their columns: rows as fields by name."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from data.intake.delimited import MAX_COLUMNS, Fields, fit, other_width
from data.intake.format import plain
from data.intake.rows import Notes, Record, RejectedError, Row, Unreadable, rows_from
from data.intake.rules import ImportRule
from data.intake.source import refuse
from data.rules import Rule

Item = tuple[int, Fields | Unreadable]
ParseFields = Callable[[dict[str, str], Notes], Sequence[Record]]


class Header:
    """Names of the columns of a table, compared without case and punctuation."""

    def __init__(self, path: Path, items: Iterator[Item]) -> None:
        """Take the first line of a table as its header.

        Raises:
            InputError: if there is no line, or it cannot be read.
        """
        line, first = next(items, (1, Unreadable(ImportRule.FIELD_COUNT, "the file has no header")))
        if isinstance(first, Unreadable):
            raise refuse(path, Rule.MISSING_COLUMN, first.message, line)
        names = [name.strip().strip('"').strip() for name in first.values]
        while names and not names[-1]:
            names.pop()
        if len(names) > MAX_COLUMNS:
            raise refuse(
                path, Rule.TOO_LARGE, f"the header has {len(names)} columns, at most {MAX_COLUMNS} are read"
            )
        self.path: Final = path
        self.line: Final = line
        self.names: Final = tuple(names)
        self._plain: Final = tuple(map(plain, names))

    def need(self, *names: str) -> None:
        """Refuse the file if a column is missing.

        Raises:
            InputError: if one is.
        """
        missing = [name for name in names if plain(name) not in self._plain]
        if missing:
            raise refuse(
                self.path, Rule.MISSING_COLUMN, f"the header has no column {', '.join(missing)}", self.line
            )

    def values(self, fields: Fields, notes: Notes) -> list[str]:
        """The values of a line, one per column.

        Raises:
            RejectedError: if there are more or fewer.
        """
        if fields.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        values = fit(fields.values, len(self.names))
        if values is None:
            raise RejectedError(ImportRule.FIELD_COUNT, other_width(fields.values, len(self.names)))
        return values

    def rows(self, items: Iterable[Item], parse: ParseFields) -> Iterator[Row]:
        """Rows of the lines below; `parse` is given their fields by plain name, of equal names the first."""

        def named(fields: Fields, notes: Notes) -> Sequence[Record]:
            values = self.values(fields, notes)
            return parse(dict(zip(reversed(self._plain), reversed(values), strict=True)), notes)

        return rows_from(items, named)


def trimmed(text: str, what: str, notes: Notes) -> str:
    """A field without the white space around it, which is told."""
    kept = text.strip()
    if kept != text:
        notes.add(ImportRule.TRIMMED, f"{what} has white space around it")
    return kept
