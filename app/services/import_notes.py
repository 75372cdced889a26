"""All notes of an import in a file of their own: as many as there are, and safe to open in a spreadsheet."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from data.intake.report import Told
from domain.errors import SettingError

COLUMNS: Final = ("file", "line", "rule", "action", "message")

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class NotesFile:
    """Takes notes as they come; the file is there whole after `keep`, or not at all."""

    def __init__(self, path: Path | None) -> None:
        """Write to `path`; None: nowhere.

        Raises:
            SettingError: on entering, if the file cannot be written.
        """
        self._path: Final = path
        self._file: IO[str] | None = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                self._file = self._temporary(self._path).open("w", encoding="utf-8", newline="")
            except OSError as error:
                raise self._refused(error) from error
            self._writer = csv.writer(self._file, lineterminator="\n")
            self._writer.writerow(COLUMNS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None and self._path is not None:
            self._file.close()
            self._temporary(self._path).unlink(missing_ok=True)

    def add(self, path: Path, notes: Sequence[Told]) -> None:
        """Take the notes of one row."""
        if self._writer is not None:
            self._writer.writerows(
                (plain(str(path)), one.line, one.rule, one.action, plain(one.message)) for one in notes
            )

    def keep(self) -> None:
        """All notes are there.

        Raises:
            SettingError: if the file cannot be written.
        """
        if self._file is None or self._path is None:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._temporary(self._path).replace(self._path)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SettingError:
        return SettingError(f"the notes {self._path} cannot be written: {error.strerror}")

    @staticmethod
    def _temporary(path: Path) -> Path:
        return path.with_name(path.name + ".new")


def plain(text: str) -> str:
    """Text that no spreadsheet takes for a formula, and that UTF-8 can hold."""
    safe = text.encode("utf-8", "backslashreplace").decode()
    return "'" + safe if safe.startswith(_FORMULA) else safe
