"""A CSV file whose rows are checked against columns, and what was left out of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import pandas as pd

from data.readers.csv_table import read_table
from data.rules import FaultLog, Rule
from data.schema import Column, required_names
from data.validation import Findings, Lines, check_columns, check_unique, good_rows
from domain.errors import Fault, InputError

_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})

MoreChecks = Callable[[pd.DataFrame, Findings], None]
"""Looks at columns that were checked one by one, and adds what is wrong with them together."""


@dataclass(frozen=True)
class Rows:
    """The good rows of one file.

    Attributes:
        frame: one row each, in the order of the file, index 0, 1, ...; the columns of the schema only.
        lines: line of the file on which each begins.
        skipped: faults of the rows that were left out; empty unless reading was lenient.
        source: the file.
    """

    frame: pd.DataFrame
    lines: Lines
    skipped: tuple[Fault, ...]
    source: str


class Layout(NamedTuple):
    """What a file has to look like.

    Attributes:
        columns: its columns.
        aliases: other names of them.
        unique: the column whose values may not come twice, and the rule that a second one breaks.
        more: checks of columns together.
    """

    columns: tuple[Column, ...]
    aliases: Mapping[str, str] = _NO_ALIASES
    unique: tuple[str, Rule] | None = None
    more: MoreChecks | None = None


def read_rows(path: Path, layout: Layout, *, is_lenient: bool = False, may_be_empty: bool = False) -> Rows:
    """Read and check a file.

    Args:
        path: the file.
        layout: what it has to look like.
        is_lenient: whether bad rows are left out and listed instead of refused.
        may_be_empty: whether a header without rows is fine.

    Raises:
        InputError: with every fault found; when lenient, only if no row can be judged or none is good.
    """
    table = read_table(path, required_names(layout.columns), layout.aliases)
    return check_rows(
        table.frame,
        layout,
        str(path),
        lines=table.lines,
        log=table.log,
        is_lenient=is_lenient,
        may_be_empty=may_be_empty,
    )


def check_rows(
    frame: pd.DataFrame,
    layout: Layout,
    source: str,
    *,
    lines: Lines,
    log: FaultLog,
    is_lenient: bool = False,
    may_be_empty: bool = False,
) -> Rows:
    """Check a table that is in memory already; its columns have our names. Arguments as for `read_rows`.

    Args:
        frame: the table.
        layout: what it has to look like.
        source: what faults name as their source.
        lines: line of each row.
        log: faults of rows that are not in `frame`.
        is_lenient: whether bad rows are left out and listed instead of refused.
        may_be_empty: whether a table without rows is fine.

    Raises:
        InputError: with every fault found; when lenient, only if none is good.
    """
    findings = Findings(len(frame))
    typed = check_columns(frame, layout.columns, findings)
    if layout.more is not None:
        layout.more(typed, findings)
    if layout.unique is not None:
        check_unique(typed[layout.unique[0]], layout.unique[1], lines, findings)
    faults = FaultLog(source)
    faults.absorb(log)
    faults.absorb(findings.log(lines, source))
    if faults and not is_lenient:
        raise InputError(faults.listed())
    good = good_rows(typed, layout.columns, findings)
    if good.empty and (faults or not may_be_empty):
        message = "no good row is left" if faults else f"there is a header but no {layout.columns[0].name}"
        raise InputError([Fault(source, None, Rule.NO_ROWS, message), *faults.listed()])
    return Rows(good, lines[~findings.is_bad], tuple(faults.listed()), source)
