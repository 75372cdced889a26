"""Checks of a whole table at once: every broken rule is found, not only the first."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.numbers import Mask, parse_numbers
from data.rules import MAX_FAULTS, FaultLog, Rule, shown
from data.schema import ALIASES, COLUMNS, Column, Kind, required_names
from domain.errors import Fault, InputError

Lines = NDArray[np.int64]

_NAMED_POOLS: Final = 5


class _Finding(NamedTuple):
    """A rule and the rows that break it."""

    rows: Lines
    rule: Rule
    describe: Callable[[int], str]


class Findings:
    """Rules broken by the rows of one table. Messages are made for the listed faults only."""

    def __init__(self, num_rows: int) -> None:
        self.is_bad: Final[Mask] = np.zeros(num_rows, dtype=np.bool_)
        self._found: list[_Finding] = []

    def add(self, is_broken: Mask, rule: Rule, describe: Callable[[int], str]) -> None:
        """Note the rows where `is_broken`; `describe` makes the message for a row's position."""
        if is_broken.any():
            self.is_bad[is_broken] = True
            self._found.append(_Finding(np.flatnonzero(is_broken), rule, describe))

    def log(self, lines: Lines, source: str) -> FaultLog:
        """The faults in the order of the rows, and for one row in the order of the checks."""
        log = FaultLog(source)
        if not self._found:
            return log
        rows = np.concatenate([finding.rows for finding in self._found])
        owners = np.repeat(np.arange(len(self._found)), [len(finding.rows) for finding in self._found])
        for k in np.argsort(lines[rows], kind="stable")[:MAX_FAULTS].tolist():
            finding, row = self._found[owners[k]], int(rows[k])
            log.add(int(lines[row]), finding.rule, finding.describe(row))
        log.count(len(rows) - len(log))
        return log


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of a table after its checks.

    Attributes:
        frame: the good rows in the order given, dtypes as in the schema, index 0, 1, ...
        extra_columns: names of its columns that are not in the schema, in the order given.
        log: every fault of the bad rows.
        num_bad_rows: how many rows broke at least one rule.
    """

    frame: pd.DataFrame
    extra_columns: tuple[str, ...]
    log: FaultLog
    num_bad_rows: int


def validate(
    frame: pd.DataFrame,
    *,
    source: str,
    quotas: Mapping[str, int] | None = None,
    lines: Lines | None = None,
) -> list[Fault]:
    """All faults of a table of jobs, in the order of the rows; empty if it obeys the schema.

    Args:
        frame: one row per job; columns may hold text or numbers.
        source: what the faults name as their source.
        quotas: GPUs of each pool; None leaves pools and widths unchecked.
        lines: line of each row in its source; the rows' numbers from 1 on where None.
    """
    try:
        return check_jobs(frame, source=source, quotas=quotas, lines=lines).log.listed()
    except InputError as error:
        return list(error.faults)


def check_jobs(
    frame: pd.DataFrame,
    *,
    source: str,
    quotas: Mapping[str, int] | None = None,
    lines: Lines | None = None,
) -> Checked:
    """Check a table of jobs and bring its good rows into the schema; arguments as for `validate`.

    Raises:
        InputError: if a column is missing or there twice, so that no row can be judged.
    """
    if lines is None:
        lines = np.arange(1, len(frame) + 1, dtype=np.int64)
    frame = _with_our_names(frame, source)
    findings = Findings(len(frame))
    typed = check_columns(frame, COLUMNS, findings)
    if quotas is not None:
        _check_quotas(typed, quotas, findings)
    check_unique(typed["job_id"], Rule.DUPLICATE_ID, lines, findings)
    extra_columns = tuple(name for name in frame.columns if name not in typed.columns)
    table = pd.concat([typed, frame[list(extra_columns)].reset_index(drop=True)], axis=1)
    good = good_rows(table, COLUMNS, findings)
    return Checked(good, extra_columns, findings.log(lines, source), int(findings.is_bad.sum()))


def check_columns(frame: pd.DataFrame, columns: tuple[Column, ...], findings: Findings) -> pd.DataFrame:
    """The schema's columns of `frame`, each checked by itself; integers are still floats."""
    typed = {column.name: _check_column(column, frame, findings) for column in columns}
    return pd.DataFrame(typed)


def check_unique(keys: pd.Series, rule: Rule, lines: Lines, findings: Findings) -> None:
    """Keys of earlier good rows may not come again. Call it after all other checks."""
    codes, _ = pd.factorize(keys)
    rows = np.arange(len(keys), dtype=np.int64)
    first_good = np.full(len(keys) + 1, len(keys), dtype=np.int64)
    good = np.flatnonzero(~findings.is_bad)
    np.minimum.at(first_good, codes[good], rows[good])
    first_good[-1] = len(keys)  # code -1 stands for missing keys, which are never the same

    def describe(row: int) -> str:
        return f"{keys.name} {shown(keys[row])} is already on line {lines[first_good[codes[row]]]}"

    findings.add(rows > first_good[codes], rule, describe)


def good_rows(typed: pd.DataFrame, columns: tuple[Column, ...], findings: Findings) -> pd.DataFrame:
    """The rows that break no rule, in the dtypes of the schema, with a dense index."""
    good = typed[~findings.is_bad].reset_index(drop=True)
    return good.astype({column.name: column.kind.dtype for column in columns})


def missing_column(name: str, names: list[str]) -> str:
    """Message for a required column that is not among `names`."""
    return f"column {name} is required, the columns are: {shown(', '.join(names))}"


def _with_our_names(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    renamed = frame.rename(columns=str).rename(columns=dict(ALIASES))
    log = FaultLog(source)
    for name in required_names(COLUMNS):
        if name not in renamed.columns:
            log.add(None, Rule.MISSING_COLUMN, missing_column(name, list(renamed.columns)))
    for name, times in Counter(renamed.columns).items():
        if times > 1:
            log.add(None, Rule.DUPLICATE_COLUMN, f"column {shown(name)} is there {times} times")
    if log:
        raise InputError(log.listed())
    return renamed


def _check_column(column: Column, frame: pd.DataFrame, findings: Findings) -> pd.Series:
    if column.name not in frame.columns:
        empty = math.nan if column.default is None else column.default
        dtype = "float64" if column.kind is Kind.INT else column.kind.dtype
        return pd.Series(empty, index=range(len(frame)), dtype=dtype, name=column.name)
    raw = frame[column.name].reset_index(drop=True)
    check = _check_text if column.kind is Kind.TEXT else _check_numbers
    return check(column, raw, findings)


def _check_text(column: Column, raw: pd.Series, findings: Findings) -> pd.Series:
    values = raw.tolist()
    texts = [value.strip() or None if isinstance(value, str) else None for value in values]
    if column.words is not None:
        texts = [text if text is None else text.lower() for text in texts]
    series = pd.Series(texts, dtype="str", name=column.name)
    is_other = np.zeros(len(values), dtype=np.bool_)
    if not isinstance(raw.dtype, pd.StringDtype):
        is_other = np.array([not isinstance(value, str) for value in values]) & raw.notna().to_numpy()
    findings.add(is_other, Rule.NOT_TEXT, _says(column, raw))
    _check_missing(column, series.isna().to_numpy() & ~is_other, findings)
    if column.words is not None:
        is_unknown = series.notna() & ~series.isin(column.words)
        findings.add(is_unknown.to_numpy(), Rule.UNKNOWN_STATE, _says(column, raw))
    return series


def _check_numbers(column: Column, raw: pd.Series, findings: Findings) -> pd.Series:
    """Check a column of numbers; what is no number within the range comes back as NaN."""
    numbers = parse_numbers(raw)
    values, says = numbers.values, _says(column, raw)
    _check_missing(column, numbers.is_missing, findings)
    findings.add(numbers.is_other, Rule.NOT_A_NUMBER, says)
    findings.add(numbers.is_not_finite, Rule.NOT_FINITE, says)
    is_fraction = np.zeros(len(values), dtype=np.bool_)
    if column.kind is Kind.INT:
        is_fraction = np.isfinite(values) & (values != np.floor(values))
        findings.add(is_fraction, Rule.NOT_AN_INTEGER, says)
    is_low = ~is_fraction & (values < column.low)
    is_high = ~is_fraction & (values > column.high)
    findings.add(is_low, column.low_rule, says)
    findings.add(is_high, Rule.OUT_OF_RANGE, says)
    values = np.where(is_fraction | is_low | is_high, math.nan, values)
    if column.default is not None:
        values = np.where(numbers.is_missing, column.default, values)
    return pd.Series(values, name=column.name)


def _check_missing(column: Column, is_missing: Mask, findings: Findings) -> None:
    if not column.is_nullable:
        findings.add(is_missing, Rule.MISSING_VALUE, lambda _: f"{column.name} is empty, it is required")


def _check_quotas(typed: pd.DataFrame, quotas: Mapping[str, int], findings: Findings) -> None:
    pools, widths = typed["pool"], typed["num_gpus"].to_numpy()
    quota = pools.map(dict(quotas)).to_numpy(dtype=np.float64, na_value=math.nan)
    known = ", ".join(map(shown, list(quotas)[:_NAMED_POOLS])) + (", ..." * (len(quotas) > _NAMED_POOLS))

    def describe_pool(row: int) -> str:
        return f"pool {shown(pools[row])} has no quota, the {len(quotas)} pools are: {known or 'none'}"

    def describe_width(row: int) -> str:
        return f"num_gpus is {widths[row]:.0f}, the quota of pool {shown(pools[row])} is {quota[row]:.0f}"

    findings.add(pools.notna().to_numpy() & np.isnan(quota), Rule.UNKNOWN_POOL, describe_pool)
    findings.add(widths > quota, Rule.WIDTH_ABOVE_QUOTA, describe_width)


def _says(column: Column, raw: pd.Series) -> Callable[[int], str]:
    return lambda row: f"{column.name} is {shown(raw[row])}, allowed is {column.allowed}"
