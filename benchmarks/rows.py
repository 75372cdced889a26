"""Runs as rows of a CSV: skipped where nothing they rest on has changed, each in a process of its own."""

import csv
import hashlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

Figures = dict[str, str]


class Keyed(Protocol):
    """A run that is one row of a table."""

    @property
    def key(self) -> tuple[str, ...]:
        """What there is one row of."""
        ...


R = TypeVar("R", bound=Keyed)


@dataclass(frozen=True)
class Table:
    """A CSV of figures.

    Attributes:
        path: of the file.
        columns: of the file; one that has others is written anew.
        names: columns that tell its rows apart, as `Keyed.key` has them. Rows are kept by all but the last.
    """

    path: Path
    columns: tuple[str, ...]
    names: tuple[str, ...]

    def read(self) -> list[Figures]:
        """Its rows; none where there is no file or it has other columns."""
        if not self.path.is_file():
            return []
        with self.path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            return list(reader) if tuple(reader.fieldnames or ()) == self.columns else []

    def write(self, rows: Iterable[Figures]) -> None:
        """Replace the file as a whole: whoever reads it meanwhile sees the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda one: self.key(one)[:-1]))
        part.replace(self.path)

    def key(self, row: Mapping[str, str]) -> tuple[str, ...]:
        """Which run a row is of."""
        return tuple(row[name] for name in self.names)


def fill(
    table: Table,
    rows: Sequence[R],
    is_current: Callable[[R, Figures], bool],
    execute: Callable[[Sequence[R]], Iterable[tuple[R, Figures | BaseException]]],
    shown: Callable[[Figures], str],
) -> list[Figures]:
    """Fill a CSV with the figures of rows, running those that are not in it or rest on something else.

    The file is written anew after each row, so what was done is not lost. Rows of others stay in it.

    Args:
        table: where the figures are.
        rows: wanted, in the order of the result.
        is_current: whether figures that are there still hold for a row.
        execute: runs rows, in any order.
        shown: what is told of a row's figures once it has run.

    Returns:
        The figures of the rows that could be run; a failure is told on standard error.
    """
    known = {table.key(one): one for one in table.read()}

    def holds(row: R) -> bool:
        return row.key in known and is_current(row, known[row.key])

    missing = [row for row in rows if not holds(row)]
    say(f"{len(rows) - len(missing)} of {len(rows)} rows are in {table.path}")
    for number_done, (row, figures) in enumerate(execute(missing), start=1):
        head = f"{number_done}/{len(missing)} {' '.join(row.key)}"
        if isinstance(figures, BaseException):
            say(f"{head}: {type(figures).__name__}: {figures}")
            continue
        known[row.key] = figures
        table.write(known.values())
        say(f"{head}: {shown(figures)}, {figures['seconds']} s")
    return [known[row.key] for row in rows if holds(row)]


def in_processes(
    run: Callable[[R], Figures], rows: Sequence[R], workers: int
) -> Iterator[tuple[R, Figures | BaseException]]:
    """Run rows, each in a process of its own, so many at a time."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1) as pool:
        running = {pool.submit(run, row): row for row in rows}
        for future in as_completed(running):
            error = future.exception()
            yield running[future], future.result() if error is None else error


def markdown(rows: Iterable[Figures], columns: Mapping[str, Callable[[Figures], str]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cell(row) for cell in columns.values()) + " |" for row in rows]
    return "\n".join(lines)


def number(column: str, form: str = ".2f", per: float = 1.0) -> Callable[[Figures], str]:
    """A cell that shows a column's number, divided by `per`; empty where there is none."""
    return lambda row: format(float(row[column]) / per, form) if row[column] else ""


def text_of(value: Any) -> str:
    """A figure as it stands in a CSV; None is empty."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def say(line: str) -> None:
    """Tell how far it is, on standard error."""
    print(line, file=sys.stderr, flush=True)


@cache
def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
