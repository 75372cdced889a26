"""The benchmark's CSV files: jobs with one row each, and the quotas of the pools.

Jobs: job_id, pool, submit_s, num_gpus, duration_s, and as many of the optional columns of `data.schema` as
the file has. Pools: pool, quota_gpus.
"""

from collections.abc import Mapping
from pathlib import Path

from data.history import History, from_frame
from data.readers.csv_table import read_table
from data.rules import Rule
from data.schema import ALIASES, COLUMNS, POOL_COLUMNS, required_names
from data.validation import Findings, check_columns, check_unique, good_rows
from domain.errors import Fault, InputError


def read_jobs(path: Path, quotas: Mapping[str, int] | None, *, is_lenient: bool = False) -> History:
    """Read jobs in any order of rows and columns.

    Args:
        path: the file.
        quotas: GPUs of each pool; None leaves pools and widths unchecked.
        is_lenient: whether bad rows are left out and listed instead of refused.

    Raises:
        InputError: with every fault found; when lenient, only if no row can be judged or none is good.
    """
    table = read_table(path, required_names(COLUMNS), ALIASES)
    return from_frame(
        table.frame,
        source=str(path),
        quotas=quotas,
        lines=table.lines,
        is_lenient=is_lenient,
        log=table.log,
    )


def read_pools(path: Path) -> dict[str, int]:
    """Quota of each pool, GPUs, in the order of the file; other columns are ignored.

    Raises:
        InputError: with every fault found.
    """
    source = str(path)
    table = read_table(path, required_names(POOL_COLUMNS))
    findings = Findings(len(table.frame))
    typed = check_columns(table.frame, POOL_COLUMNS, findings)
    check_unique(typed["pool"], Rule.DUPLICATE_POOL, table.lines, findings)
    log = table.log
    log.absorb(findings.log(table.lines, source))
    if log:
        raise InputError(log.listed())
    pools = good_rows(typed, POOL_COLUMNS, findings)
    if pools.empty:
        raise InputError([Fault(source, None, Rule.NO_ROWS, "there is a header but no pool")])
    return dict(zip(pools["pool"].tolist(), pools["quota_gpus"].tolist(), strict=True))
