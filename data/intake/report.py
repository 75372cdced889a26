"""What an import found: counts that add up, every repair and rejection, and what matters for learning."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from data.intake.format import Clock, Kind
from data.intake.rows import Row
from data.intake.rules import Action
from data.records import AttemptRecord
from data.rules import message_of
from data.stamps import MAX_INSTANT_S
from domain.attempts import LimitKind

KEPT_NOTES: Final = 1_000
"""Notes of one file that its report lists; a file of all of them stands beside it."""

_DAY_S: Final = 86_400


class Told(NamedTuple):
    """One note of one row, as it is told."""

    line: int
    rule: str
    action: str
    message: str


class Warned(NamedTuple):
    """Something about a file that matters for learning: a stable id, and the numbers."""

    warning: str
    message: str


@dataclass(slots=True)
class DayCount:
    """Attempts submitted on one day, and of how many of them something is known."""

    attempts: int = 0
    ended: int = 0
    natural: int = 0
    with_user: int = 0
    with_name: int = 0
    with_pool: int = 0
    with_gpus: int = 0
    finite_limits: int = 0

    def add(self, record: AttemptRecord) -> None:
        """Count one more."""
        cause = record.cause
        self.attempts += 1
        self.ended += cause.is_end_of_attempt
        self.natural += cause.is_natural
        self.with_user += record.user is not None
        self.with_name += record.name is not None
        self.with_pool += record.pool is not None
        self.with_gpus += record.gpus_asked_milli is not None or record.gpus_given_milli is not None
        self.finite_limits += record.limit.kind is LimitKind.FINITE


@dataclass
class FileReport:
    """What was found in one file. `read` = `accepted` + `repaired` + `rejected`.

    Attributes:
        file: as it was named.
        format: name of the format.
        kind: what it holds.
        why: what made it that format.
        sha256: of its bytes.
        read, accepted, repaired, rejected: rows.
        records: attempts, nodes or pools that they became.
        clusters: whose they are.
        new, updated, unchanged: of those, against what was known; None if nothing was kept (a dry run).
        was_known: whether the very same file had been imported before: it was read for this report, and
            nothing was kept of it; `unchanged` is what it brought then.
        rules: how many notes each rule has.
        notes: the first `KEPT_NOTES` of them.
        days: by day since 1970.
        clock: what its instants are.
        facts: what is true of the whole file.
        warnings: what matters for learning.
        fault: why nothing of the file could be read; None if it could.
    """

    file: str
    format: str | None = None
    kind: Kind | None = None
    why: str = ""
    sha256: str = ""
    read: int = 0
    accepted: int = 0
    repaired: int = 0
    rejected: int = 0
    records: int = 0
    clusters: set[str] = field(default_factory=set)
    new: int | None = None
    updated: int | None = None
    unchanged: int | None = None
    was_known: bool = False
    rules: Counter[str] = field(default_factory=Counter)
    notes: list[Told] = field(default_factory=list)
    days: dict[int, DayCount] = field(default_factory=dict)
    clock: Clock = Clock.UTC
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[Warned] = field(default_factory=list)
    fault: dict[str, Any] | None = None

    def take(self, row: Row) -> Sequence[Told]:
        """Count a row and what became of it.

        Returns:
            Its notes, as they are told.
        """
        self.read += 1
        self.records += len(row.records)
        for record in row.records:
            self.clusters.add(record.cluster)
            if isinstance(record, AttemptRecord):
                day = int(record.submit_s // _DAY_S)
                count = self.days.get(day)
                if count is None:
                    count = self.days[day] = DayCount()
                count.add(record)
        if not row.notes:
            self.accepted += 1
            return ()
        match row.action:
            case Action.REJECTED:
                self.rejected += 1
            case Action.REPAIRED:
                self.repaired += 1
            case _:
                self.accepted += 1
        told = [
            Told(row.line, note.rule.value, note.rule.action.value, message_of(note.message))
            for note in row.notes
        ]
        self.rules.update(one.rule for one in told)
        self.notes.extend(told[: KEPT_NOTES - len(self.notes)])
        return told

    def as_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        return {
            "file": self.file,
            "format": self.format,
            "kind": None if self.kind is None else self.kind.value,
            "why": self.why,
            "sha256": self.sha256,
            "read": self.read,
            "accepted": self.accepted,
            "repaired": self.repaired,
            "rejected": self.rejected,
            "records": self.records,
            "clusters": sorted(self.clusters),
            "new": self.new,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "was_known": self.was_known,
            "rules": dict(sorted(self.rules.items())),
            "notes": [one._asdict() for one in self.notes],
            "notes_not_listed": sum(self.rules.values()) - len(self.notes),
            "clock": self.clock.value,
            "coverage": {day_text(day): asdict(count) for day, count in sorted(self.days.items())},
            "facts": self.facts,
            "warnings": [one._asdict() for one in self.warnings],
            "fault": self.fault,
        }


def day_text(day: int) -> str:
    """A day since 1970 as people write it."""
    return datetime.fromtimestamp(min(day * _DAY_S, MAX_INSTANT_S), UTC).date().isoformat()
