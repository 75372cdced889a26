"""One row of a source on its way to records, and what is said about it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from data.intake.rules import Action, ImportRule
from data.inventory_records import NodeRecord, PoolRecord
from data.records import AttemptRecord, RecordError
from data.rules import shown
from data.stamps import NoZoneError

Record = AttemptRecord | NodeRecord | PoolRecord
Raw = TypeVar("Raw")


class Note(NamedTuple):
    """A rule that a row met, and what was found."""

    rule: ImportRule
    message: str


class RejectedError(ValueError):
    """A row that cannot be in the history."""

    def __init__(self, rule: ImportRule, message: str) -> None:
        if rule.action is not Action.REJECTED:
            raise ValueError(f"{rule} rejects nothing")
        super().__init__(message)
        self.rule: Final = rule


class Unreadable(NamedTuple):
    """A line or object that never becomes fields: why."""

    rule: ImportRule
    message: str


class Notes:
    """What is said about one row; readers add to it while they parse."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: list[Note] = []

    def add(self, rule: ImportRule, message: str) -> None:
        """Say that a rule was met; the row stays.

        Args:
            rule: one that repairs or notes.
            message: what was found; text of the source in it goes through `shown`.
        """
        if rule.action is Action.REJECTED:
            raise ValueError(f"{rule} rejects a row: raise RejectedError")
        self._notes.append(Note(rule, message))

    def extend(self, notes: Sequence[Note]) -> None:
        """Say what was found out before; none of it rejects."""
        if notes:
            self._notes.extend(notes)

    def taken(self) -> tuple[Note, ...]:
        """What was said since the last call."""
        if not self._notes:
            return ()
        taken = tuple(self._notes)
        self._notes.clear()
        return taken


class Row(NamedTuple):
    """One row of a source, read.

    Attributes:
        line: its line, or its place among the objects or rows of a file that has no lines; from 1 on.
        records: the attempts, nodes or pools it speaks of; none if it was rejected.
        notes: what was found. A rejected row has one note of a rule that rejects.
    """

    line: int
    records: Sequence[Record] = ()
    notes: tuple[Note, ...] = ()

    @property
    def action(self) -> Action | None:
        """What became of it; None if it was accepted as it stands."""
        actions = {note.rule.action for note in self.notes}
        if Action.REJECTED in actions:
            return Action.REJECTED
        return Action.REPAIRED if Action.REPAIRED in actions else None


def rejected(line: int, rule: ImportRule, message: str) -> Row:
    """A row that is not in the history."""
    return Row(line, (), (Note(rule, message),))


def rows_from(
    items: Iterable[tuple[int, Raw | Unreadable]], parse: Callable[[Raw, Notes], Sequence[Record]]
) -> Iterator[Row]:
    """Rows of raw ones: what `parse` makes of each, with what it said; a bad one costs that one only.

    Args:
        items: line and content of each, or why it has none.
        parse: records of one; raises RejectedError or RecordError for one that cannot be in the history.

    Raises:
        NoZoneError: if a stamp needs a zone that is not known.
    """
    notes = Notes()
    for line, raw in items:
        if isinstance(raw, Unreadable):
            yield rejected(line, raw.rule, raw.message)
            continue
        try:
            records = parse(raw, notes)
        except RejectedError as error:
            notes.taken()
            yield rejected(line, error.rule, str(error))
        except NoZoneError as error:
            error.line = line
            raise
        except RecordError as error:
            notes.taken()
            yield rejected(line, ImportRule.IMPOSSIBLE, shown(error))
        else:
            yield Row(line, records, notes.taken())


def quoted(text: object) -> str:
    """Text of a source as it may stand in a message: short, printable, in quotes."""
    return f"'{shown(text)}'"
