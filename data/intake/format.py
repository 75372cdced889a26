"""What a format is: a name, a way to recognise it by content, and a reader of rows.

A new one is one file in `data.formats` and one line in its registry: docs/add-a-format.md.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from data.intake.rows import Row
from data.records import MOST_CHARACTERS
from data.rules import shown
from domain.errors import SettingError

if TYPE_CHECKING:
    from data.intake.mapping import ColumnMapping


class Kind(StrEnum):
    """What a file of the format holds."""

    HISTORY = "history"
    INVENTORY = "inventory"


class Clock(StrEnum):
    """What the instants of a file are."""

    UTC = "utc"
    """Instants of the world's clock."""
    RELATIVE = "relative"
    """Seconds since an origin that is not told: differences are true, dates are not."""


DEFAULT_CLUSTER: Final = "cluster"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the operator says of the files.

    Attributes:
        cluster: name of the cluster that rows belong to. Where rows name one of their own, it is kept as
            theirs only if this is empty or the default.
        tz: the cluster's zone, for stamps without an offset; None refuses them.
        origin_s: instant of second 0 of formats that count from an origin; None: not told.
        mapping: which column is what, for `csv` and `parquet`.
        procs_as_gpus: count processors as GPUs where a format has no GPUs (SWF).
        partition_max_s: time limits of partitions, for limits that are inherited.
        counts_gpus: it is known that the site counts GPUs, so that a file that names none has jobs without.
            No part of how a row is read: such a file is refused otherwise.

    Raises:
        SettingError: if the cluster's name cannot be one.
    """

    cluster: str = DEFAULT_CLUSTER
    tz: ZoneInfo | None = None
    origin_s: float | None = None
    mapping: "ColumnMapping | None" = None
    procs_as_gpus: bool = False
    partition_max_s: dict[str, float] = field(default_factory=dict)
    counts_gpus: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not self.cluster.isprintable() or len(self.cluster) > MOST_CHARACTERS:
            found = f"the cluster's name is {shown(self.cluster)!r}"
            raise SettingError(f"{found}; at most {MOST_CHARACTERS} printable characters are expected")

    def cluster_of(self, own: str | None) -> str:
        """The cluster of a row that names its own, or None."""
        if self.cluster and self.cluster != DEFAULT_CLUSTER:
            return self.cluster
        return own or DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True)
class Head:
    """How a file begins, for recognising it.

    Attributes:
        path: the file; formats that have their table of contents at the end (Parquet) look there.
        start: its first unpacked bytes.
        lines: the first lines of text, empty for Parquet.
        columns: names of columns of a Parquet file.
    """

    path: Path
    start: bytes
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def is_parquet(self) -> bool:
        """Whether the file is Parquet."""
        return self.start.startswith(b"PAR1")

    def header(self, delimiter: str) -> tuple[str, ...]:
        """Names that the first line has between delimiters, trimmed, without quotes."""
        first = self.lines[0] if self.lines else ""
        return tuple(name.strip().strip('"') for name in first.split(delimiter))


@dataclass(frozen=True, slots=True)
class Match:
    """How well a file fits a format.

    Attributes:
        score: 0 to 1. Of several formats the highest counts; below 0.5 a format is only mentioned.
        why: what in the file says so, for people.
    """

    score: float
    why: str


@dataclass
class Reading:
    """One file being read: what a reader is given, and what it tells beside its rows.

    Attributes:
        path: the file.
        options: what the operator says.
        clock: what its instants are; readers set it.
        facts: what is true of the whole file and worth telling (`describe` and the report show it), by a
            short stable name.
    """

    path: Path
    options: ReadOptions
    clock: Clock = Clock.UTC
    facts: dict[str, Any] = field(default_factory=dict)


Sniff = Callable[[Head], Match | None]
ReadRows = Callable[[Reading], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files.

    Attributes:
        name: as the option `--format` has it.
        title: what it is, one line.
        kind: what it holds.
        sniff: how well the head of a file fits; None: not at all.
        rows: the rows of a file, one after the other, in constant memory. Raises InputError where nothing of
            the file can be read; `source.BrokenFileError` after the last good row where the rest cannot.
    """

    name: str
    title: str
    kind: Kind
    sniff: Sniff
    rows: ReadRows


_WORD: Final = re.compile(r"[^a-z0-9]+")


def plain(name: str) -> str:
    """A column's name for comparing: `Job ID`, `JobID` and `job_id` differ in nothing else."""
    return _WORD.sub("", name.casefold())
