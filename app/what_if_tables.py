"""Answers to what-ifs as tables for people."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

_HOUR_S: Final = 3600.0
_FIGURES: Final = (
    ("GPUs in quotas", "quota_gpus", 1.0, 0),
    ("jobs", "jobs", 1.0, 0),
    ("mean wait, h", "mean_queue_delay_s", _HOUR_S, 2),
    ("99 % wait at most, h", "p99_queue_delay_s", _HOUR_S, 2),
    ("mean completion time, h", "mean_jct_s", _HOUR_S, 2),
    ("speed-up, ratio of means", "speedup_ratio_of_means_vs_fcfs", 1.0, 2),
    ("speed-up, geometric mean", "speedup_geomean_vs_fcfs", 1.0, 2),
    ("slowed, %", "slowed_pct_vs_fcfs", 1.0, 3),
    ("requeues", "requeues", 1.0, 0),
    ("repeated GPU-hours", "lost_gpu_hours", 1.0, 0),
    ("GPUs in use, %", "utilisation_pct", 1.0, 1),
    ("lent GPU-hours", "lent_gpu_hours", 1.0, 0),
)
_OF_POOLS: Final = (
    ("jobs", "jobs", 1.0, 0),
    ("mean wait, h", "mean_queue_delay_s", _HOUR_S, 2),
    ("slowed, %", "slowed_pct_vs_fcfs", 1.0, 3),
    ("GPUs in use, %", "utilisation_pct", 1.0, 1),
)


def answer_tables(answer: Mapping[str, Any]) -> Iterator[Any]:
    """The cluster's figures with their intervals, those of the pools, who wins and who loses."""
    units = answer["units"]
    yield Text(
        f"{units['number']} {units['kind']}, {answer['window']['jobs']} jobs, as it is and changed; "
        f"interval of the difference at {units['confidence_pct']} %: {units['interval']}"
    )
    table = _table("", "as it is", "changed", "difference", "from", "to")
    for label, name, unit, digits in _FIGURES:
        cells = [answer[part][name] for part in ("baseline", "changed", "difference")]
        cells += [answer["intervals"][name][end] for end in ("low", "high")]
        table.add_row(label, *(_number(cell, unit, digits) for cell in cells))
    yield table
    yield _pools(answer)
    yield from _who(answer["who"])
    left_out = answer["excluded"]
    if left_out["jobs"]:
        listed = ", ".join(f"{one['jobs']} of {one['pool']}" for one in left_out["by_pool"])
        yield Text(f"left out, could not start in one of the two: {left_out['jobs']} jobs ({listed})")


def _pools(answer: Mapping[str, Any]) -> Table:
    table = _table("pool", *(name for label, *_ in _OF_POOLS for name in (label, "changed")))
    for pool in answer["pools"]:
        cells = [
            _number(pool[part][name], unit, digits)
            for _, name, unit, digits in _OF_POOLS
            for part in ("baseline", "changed")
        ]
        table.add_row(Text(pool["pool"]), *cells)
    return table


def _who(who: Mapping[str, Any]) -> Iterator[Table]:
    for title, rows in (
        ("pool", who["pools"]),
        ("width, GPUs", who["widths"]),
        ("user", who["users"]["won"] + who["users"]["lost"][::-1]),
    ):
        table = _table(title, "jobs", "earlier", "later", "mean change, min")
        for row in rows:
            change = _number(row["mean_change_s"], 60.0, 1)
            table.add_row(Text(row["name"]), str(row["jobs"]), str(row["earlier"]), str(row["later"]), change)
        yield table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _number(value: float | None, unit: float, digits: int) -> str:
    return "-" if value is None else f"{value / unit:.{digits}f}"
