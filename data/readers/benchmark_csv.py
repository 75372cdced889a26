"""The benchmark's CSV files: jobs with one row each, and the quotas of the pools.

Jobs: job_id, pool, submit_s, num_gpus, duration_s, and as many of the optional columns of `data.schema` as
the file has. Pools: pool, quota_gpus. Nodes: node, num_gpus, and gpu_type and pool if the file has them.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from data.history import History, from_frame
from data.readers.csv_table import read_table
from data.rules import Rule
from data.schema import ALIASES, COLUMNS, NODE_COLUMNS, POOL_COLUMNS, Column, required_names
from data.validation import Findings, check_columns, check_unique, good_rows
from domain.cluster import ANY_TYPE, Node
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
    pools = _named_rows(path, POOL_COLUMNS, Rule.DUPLICATE_POOL)
    return dict(zip(pools["pool"].tolist(), pools["quota_gpus"].tolist(), strict=True))


def read_nodes(path: Path) -> tuple[Node, ...]:
    """Nodes in the order of the file; other columns are ignored.

    Raises:
        InputError: with every fault found.
    """
    rows = _named_rows(path, NODE_COLUMNS, Rule.DUPLICATE_NODE)
    columns = (rows[column.name].tolist() for column in NODE_COLUMNS)
    return tuple(
        Node(
            name,
            num_gpus,
            gpu_type if isinstance(gpu_type, str) else ANY_TYPE,
            pool if isinstance(pool, str) else None,
        )
        for name, num_gpus, gpu_type, pool in zip(*columns, strict=True)
    )


def _named_rows(path: Path, columns: tuple[Column, ...], twice: Rule) -> pd.DataFrame:
    """Rows of a table whose first column names them."""
    source = str(path)
    table = read_table(path, required_names(columns))
    findings = Findings(len(table.frame))
    typed = check_columns(table.frame, columns, findings)
    name = columns[0].name
    check_unique(typed[name], twice, table.lines, findings)
    log = table.log
    log.absorb(findings.log(table.lines, source))
    if log:
        raise InputError(log.listed())
    rows = good_rows(typed, columns, findings)
    if rows.empty:
        raise InputError([Fault(source, None, Rule.NO_ROWS, f"there is a header but no {name}")])
    return rows
