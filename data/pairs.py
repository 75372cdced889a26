"""Measured pairs: how fast two jobs run when they share a GPU, and which do not fit beside each other.

A file has the columns model_a, model_b, rate_a, rate_b, one row per pair in either order. A pair of two
models of the file that has no row does not fit into the memory of one GPU, unless the file is said to be
incomplete. Rows with share_a_pct and share_b_pct were measured under MPS shares, the others under free
competition.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import pandas as pd

from data.readers.csv_table import read_table
from data.rules import Rule
from data.schema import Column, Kind, required_names
from data.validation import Findings, Lines, check_columns, check_unique, good_rows
from domain.errors import Fault, InputError

LOWEST_RATE: Final = 0.001
"""Slowest rate that is believed: a job that makes no progress is a broken measurement."""

HIGHEST_RATE: Final = 1.5
"""Fastest rate that is believed: beside another job nobody runs much faster than alone."""

MAX_NAME_CHARACTERS: Final = 200
"""Longest name of a model."""

MAX_MODELS: Final = 300
"""Most models of one table."""

PAIR_COLUMNS: Final = (
    Column("model_a", Kind.TEXT, "", False, "what one job trains"),
    Column("model_b", Kind.TEXT, "", False, "what the other trains"),
    Column("rate_a", Kind.FLOAT, "", False, "speed of the first over alone", LOWEST_RATE, HIGHEST_RATE),
    Column("rate_b", Kind.FLOAT, "", False, "speed of the second over alone", LOWEST_RATE, HIGHEST_RATE),
    Column("share_a_pct", Kind.FLOAT, "%", True, "MPS share of the first; empty: 100", 1, 100, default=100),
    Column("share_b_pct", Kind.FLOAT, "%", True, "MPS share of the second; empty: 100", 1, 100, default=100),
)
"""The table of pairs."""

FREE: Final = (100.0, 100.0)
"""Shares that limit nobody."""

Pair = tuple[str, str]

Shares = tuple[float, float]
"""MPS shares of two jobs, percent."""

Rates = tuple[float, float]
"""Rates of two jobs, relative to alone."""

_NO_SHARES: Final[Mapping[Pair, Mapping[Shares, Rates]]] = MappingProxyType({})
_Row = tuple[str, str, Rates, Shares]


def pair_of(model_a: str, model_b: str) -> Pair:
    """The two names in the order in which tables keep them."""
    return (model_a, model_b) if model_a <= model_b else (model_b, model_a)


@dataclass(frozen=True, slots=True)
class PairTable:
    """Measured pairs. Keys are in the order of `pair_of`; every key is in at most one of the two.

    Attributes:
        rates: rates of the first and the second model of a pair, relative to alone.
        unfit: pairs that do not fit on one GPU.
        under_shares: of measured pairs, rates under MPS shares other than (100, 100), by these.
    """

    rates: Mapping[Pair, Rates]
    unfit: frozenset[Pair]
    under_shares: Mapping[Pair, Mapping[Shares, Rates]] = field(default_factory=lambda: _NO_SHARES)

    @classmethod
    def of(cls, rates: Mapping[Pair, Rates], unfit: frozenset[Pair] = frozenset()) -> Self:
        """A table from pairs in any order of their names, without MPS shares.

        Raises:
            ValueError: if a pair is there twice, both measured and unfit, or a rate is out of range.
        """
        kept: dict[Pair, tuple[float, float]] = {}
        for (a, b), (rate_a, rate_b) in rates.items():
            if not all(LOWEST_RATE <= rate <= HIGHEST_RATE for rate in (rate_a, rate_b)):
                raise ValueError(f"rates lie in [{LOWEST_RATE}, {HIGHEST_RATE}]: {a!r} beside {b!r}")
            kept[pair_of(a, b)] = (rate_a, rate_b) if a <= b else (rate_b, rate_a)
        not_fitting = frozenset(pair_of(a, b) for a, b in unfit)
        if len(kept) < len(rates) or not_fitting & kept.keys():
            raise ValueError("a pair is measured once, or known not to fit")
        return cls(MappingProxyType(kept), not_fitting)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all models, sorted."""
        return tuple(sorted({name for pair in (*self.rates, *self.unfit) for name in pair}))

    def rate(self, model: str, beside: str) -> float | None:
        """Measured rate of `model` beside the other, None where there is none."""
        measured = self.rates.get(pair_of(model, beside))
        if measured is None:
            return None
        return measured[0] if model <= beside else measured[1]

    def content_hash(self) -> str:
        """SHA-256 of what the table holds, 64 hexadecimal digits; the order of rows and names is nothing."""
        digest = hashlib.sha256()
        for pair in sorted((*self.rates, *self.unfit)):
            under_shares = sorted(self.under_shares.get(pair, {}).items())
            digest.update(repr((pair, self.rates.get(pair), under_shares)).encode())
        return digest.hexdigest()

    def without(self, models: frozenset[str]) -> "PairTable":
        """The table as it would be had the models never been measured."""
        return PairTable(
            MappingProxyType({pair: both for pair, both in self.rates.items() if not models & set(pair)}),
            frozenset(pair for pair in self.unfit if not models & set(pair)),
            MappingProxyType({pair: by for pair, by in self.under_shares.items() if not models & set(pair)}),
        )


def read_pairs(path: Path, *, is_complete: bool = True) -> PairTable:
    """Read a table of pairs; other columns are ignored.

    Args:
        path: the file.
        is_complete: whether two models of the file without a row do not fit; else it is not known.

    Raises:
        InputError: with every fault found.
    """
    source = str(path)
    table = read_table(path, required_names(PAIR_COLUMNS))
    findings = Findings(len(table.frame))
    typed = check_columns(table.frame, PAIR_COLUMNS, findings)
    _check_names(typed, table.lines, findings)
    _check_free(typed, findings)
    log = table.log
    log.absorb(findings.log(table.lines, source))
    if log:
        raise InputError(log.listed())
    good = good_rows(typed, PAIR_COLUMNS, findings)
    if good.empty:
        raise InputError([Fault(source, None, Rule.NO_ROWS, "there is a header but no pair")])
    rows = _rows(good)
    measured = {(a, b): rates for a, b, rates, shares in rows if shares == FREE}
    made = _complete(measured, source)
    return PairTable(made.rates, made.unfit if is_complete else frozenset(), _under_shares(rows))


def _rows(typed: pd.DataFrame) -> list[_Row]:
    """The rows, each with its models in the order of tables; two of one model by their shares."""
    columns = (typed[column.name].tolist() for column in PAIR_COLUMNS)
    rows: list[_Row] = []
    for a, b, rate_a, rate_b, share_a, share_b in zip(*columns, strict=True):
        both_named = isinstance(a, str) and isinstance(b, str)
        is_swapped = both_named and (a > b or (a == b and share_a > share_b))
        one: _Row = (a, b, (rate_a, rate_b), (share_a, share_b))
        rows.append((b, a, (rate_b, rate_a), (share_b, share_a)) if is_swapped else one)
    return rows


def _under_shares(rows: list[_Row]) -> Mapping[Pair, Mapping[Shares, Rates]]:
    found: dict[Pair, dict[Shares, Rates]] = {}
    for a, b, rates, shares in rows:
        if shares != FREE:
            found.setdefault((a, b), {})[shares] = rates
    return MappingProxyType({pair: MappingProxyType(by) for pair, by in found.items()})


def _check_names(typed: pd.DataFrame, lines: Lines, findings: Findings) -> None:
    for name in ("model_a", "model_b"):
        is_long = typed[name].str.len().to_numpy(dtype="float64", na_value=0.0) > MAX_NAME_CHARACTERS

        def describe(_row: int, column: str = name) -> str:
            return f"{column} is too long, at most {MAX_NAME_CHARACTERS} characters are allowed"

        findings.add(is_long, Rule.FIELD_TOO_LONG, describe)
    keys = [
        _shown_row(a, b, shares) if isinstance(a, str) and isinstance(b, str) else None
        for a, b, _, shares in _rows(typed)
    ]
    check_unique(pd.Series(keys, dtype="str", name="pair"), Rule.DUPLICATE_PAIR, lines, findings)


def _check_free(typed: pd.DataFrame, findings: Findings) -> None:
    """A pair that was measured under shares needs its rates without: they are what a limit changes."""
    rows = _rows(typed)
    free = {(a, b) for a, b, _, shares in rows if shares == FREE}
    is_alone = [shares != FREE and (a, b) not in free for a, b, _, shares in rows]

    def describe(row: int) -> str:
        a, b, _, _ = rows[row]
        return f"{_shown_pair(a, b)} has no row without shares (or with both at 100), which is needed"

    findings.add(pd.Series(is_alone).to_numpy(dtype=bool) & ~findings.is_bad, Rule.NO_FREE_RATES, describe)


def _shown_pair(model_a: str, model_b: str) -> str:
    return " beside ".join(map(repr, pair_of(model_a, model_b)))


def _shown_row(model_a: str, model_b: str, shares: Shares) -> str:
    at = "" if shares == FREE else f" at {shares[0]:.12g} and {shares[1]:.12g} %"
    return _shown_pair(model_a, model_b) + at


def _complete(measured: dict[Pair, Rates], source: str) -> PairTable:
    """The table in which what is missing does not fit."""
    models = sorted({name for pair in measured for name in pair})
    if len(models) > MAX_MODELS:
        found = f"the file names {len(models)} models, at most {MAX_MODELS} are allowed"
        raise InputError([Fault(source, None, Rule.TOO_LARGE, found)])
    measured_keys = {pair_of(*pair) for pair in measured}
    unfit = frozenset(combinations_with_replacement(models, 2)) - measured_keys
    return PairTable.of(measured, unfit)
