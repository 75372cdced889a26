"""Job ids in Slurm's words: jobs, array tasks, pending arrays, parts of heterogeneous jobs, steps.

One row of a pending array stands for many tasks, so an id is never read as a number.
"""

import re
from dataclasses import dataclass
from typing import Final

MAX_TASK: Final = 4_000_000
"""Largest array task: Slurm's own MaxArraySize ends one above it."""

_FEW: Final = 100_000
"""Tasks that are counted one by one."""

_ID: Final = re.compile(
    r"(?P<base>\d{1,10})"
    r"(?:_(?:(?P<task>\d{1,9})|\[(?P<tasks>[0-9,:\-]{1,4096})(?P<cut>\.\.\.)?(?:%(?P<cap>\d{1,9}))?\])|\+(?P<offset>\d{1,5}))?"
    r"(?:\.(?P<step>[A-Za-z0-9_+]{1,40}))?",
    re.ASCII,
)
_RANGE: Final = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})(?::(?P<stride>\d{1,9}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobId:
    """An id taken apart.

    Attributes:
        base: the digits before everything else; of an array's task the array's id.
        task: the array task; None for others.
        num_tasks: how many tasks the row stands for; 1 unless it is a pending array.
        is_cut: whether the list of tasks was cut short (`...`), so that there are more than `num_tasks`.
        cap: how many of them may run at once; None where that is not limited.
        het_offset: the part of a heterogeneous job; None for others.
        step: the step; None for the job itself.
    """

    base: str
    task: int | None = None
    num_tasks: int = 1
    is_cut: bool = False
    cap: int | None = None
    het_offset: int | None = None
    step: str | None = None

    @property
    def is_pending_array(self) -> bool:
        """Whether the row stands for tasks that have no rows of their own yet."""
        return self.num_tasks > 1 or self.is_cut or self.cap is not None

    @property
    def most_at_once(self) -> int:
        """How many of its tasks may run at the same time."""
        return self.num_tasks if self.cap is None else min(self.cap, self.num_tasks)


def parse_job_id(text: str) -> JobId:
    """Take an id apart: `123`, `123_4`, `123_[1-9:2,12%3]`, `123+1`, `123.batch`.

    Raises:
        ValueError: if it is none of them, a range runs backwards, or a task is beyond any array.
    """
    found = _ID.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no job id")
    tasks = found["tasks"]
    cap = found["cap"]
    if cap == "0":
        raise ValueError(f"{text!r} lets no task run at once")
    return JobId(
        base=found["base"],
        task=_int(found["task"]),
        num_tasks=1 if tasks is None else _num_tasks(tasks.removesuffix(","), text),
        is_cut=found["cut"] is not None,
        cap=_int(cap),
        het_offset=_int(found["offset"]),
        step=found["step"],
    )


def _int(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


def _num_tasks(tasks: str, text: str) -> int:
    """Tasks of a list of ranges, each counted once however often it is named."""
    ranges = sorted((_range(part, text) for part in tasks.split(",")), key=lambda one: (one.start, one.stop))
    named = sum(map(len, ranges))
    if named > 2 * MAX_TASK:
        raise ValueError(f"{text!r} names tasks more than twice")
    if all(one.step == 1 for one in ranges):
        count = reached = 0
        for one in ranges:
            count += max(0, one.stop - max(one.start, reached))
            reached = max(reached, one.stop)
        return count
    if len(ranges) == 1 or named < _FEW:
        return len(ranges[0]) if len(ranges) == 1 else len(set().union(*ranges))
    is_named = bytearray(MAX_TASK + 1)
    for one in ranges:
        is_named[one.start : one.stop : one.step] = b"\1" * len(one)
    return is_named.count(1)


def _range(part: str, text: str) -> range:
    found = _RANGE.fullmatch(part)
    if found is None:
        raise ValueError(f"{text!r}: {part!r} is no range of tasks")
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    stride = 1 if found["stride"] is None else int(found["stride"])
    if last < first or stride < 1 or last > MAX_TASK:
        raise ValueError(f"{text!r}: {part!r} holds no task, or one above {MAX_TASK}")
    return range(first, last + 1, stride)
