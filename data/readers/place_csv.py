"""The files of one placing: gangs that wait, gangs that run, and what is kept idle.

Waiting: job_id, num_gpus. Running: job_id, gpus. Holds: pool, num_gpus. And of the optional columns of
`data.schema` as many as a file has. GPUs are written as in schedules (`data.gpu_lists`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from data.gpu_lists import GpuListError, parse_gpus
from data.readers.checked_rows import Layout, read_rows
from data.rules import Rule, shown
from data.schema import HELD_COLUMNS, RUNNING_COLUMNS, WAITING_COLUMNS
from data.validation import Findings
from domain.cluster import ANY_TYPE, Gpu, Node
from domain.errors import Fault
from domain.jobs import Job
from domain.plans import Hold


class WaitingGang(NamedTuple):
    """A gang that waits.

    Attributes:
        job: the gang; its pool is empty where the file names none.
        is_guest: whether it comes after own gangs and holds.
        value: worth of starting it; None: its GPUs.
        gpus: what an earlier plan gave it; empty if none did.
    """

    job: Job
    is_guest: bool
    value: int | None
    gpus: tuple[Gpu, ...]


class RunningGang(NamedTuple):
    """A gang that runs.

    Attributes:
        job: the gang; its pool is empty where the file names none.
        gpus: where it runs.
        is_movable: whether it may be moved.
        move_cost: price of that in GPUs left unusable; None: not said.
    """

    job: Job
    gpus: tuple[Gpu, ...]
    is_movable: bool
    move_cost: float | None


class HeldGpus(NamedTuple):
    """GPUs to keep idle, the widest gang they are for, and the type they have to be of."""

    hold: Hold
    widest_gpus: int
    gpu_type: str | None


def read_waiting(
    path: Path, nodes: Sequence[Node], *, is_lenient: bool = False
) -> tuple[tuple[WaitingGang, ...], tuple[Fault, ...]]:
    """Gangs that wait, and the faults of the rows that were left out.

    Args:
        path: the file.
        nodes: the nodes that there are.
        is_lenient: whether bad rows are left out and listed instead of refused.

    Raises:
        InputError: with every fault found; when lenient, only if no row can be judged or none is good.
    """
    gpus = _GpuColumn(nodes)
    layout = Layout(WAITING_COLUMNS, unique=("job_id", Rule.DUPLICATE_ID), more=gpus.check_waiting)
    rows = read_rows(path, layout, is_lenient=is_lenient)
    gangs = tuple(
        WaitingGang(
            _job(row, row["num_gpus"]), bool(row["guest"]), row["value"] or None, gpus.of(row["gpus"])
        )
        for row in _records(rows.frame)
    )
    return gangs, rows.skipped


def read_running(path: Path, nodes: Sequence[Node]) -> tuple[RunningGang, ...]:
    """Gangs that run. A bad row is always refused: its GPUs would count as idle.

    Args:
        path: the file.
        nodes: the nodes that there are.

    Raises:
        InputError: with every fault found.
    """
    gpus = _GpuColumn(nodes)
    layout = Layout(RUNNING_COLUMNS, unique=("job_id", Rule.DUPLICATE_ID), more=gpus.check_running)
    rows = read_rows(path, layout, may_be_empty=True)
    gangs = []
    for row in _records(rows.frame):
        at = gpus.of(row["gpus"])
        gangs.append(RunningGang(_job(row, len(at)), at, bool(row["movable"]), row["move_cost"]))
    return tuple(gangs)


def read_holds(path: Path) -> tuple[HeldGpus, ...]:
    """What is to be kept idle. A bad row is always refused: what it keeps would be given away.

    Raises:
        InputError: with every fault found.
    """
    rows = read_rows(path, Layout(HELD_COLUMNS), may_be_empty=True)
    return tuple(
        HeldGpus(Hold(row["pool"], row["num_gpus"]), row["widest_gpus"] or row["num_gpus"], row["gpu_type"])
        for row in _records(rows.frame)
    )


class _GpuColumn:
    """Reads the GPUs that rows name, and finds what is wrong with them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: Mapping[str, Node] = {node.name: node for node in nodes}

    def of(self, text: str | None) -> tuple[Gpu, ...]:
        """GPUs of a good row."""
        return () if text is None else parse_gpus(text, self._nodes)

    def check_waiting(self, typed: pd.DataFrame, findings: Findings) -> None:
        """Add the faults of the GPUs that waiting gangs were given: these have to be of one type."""
        self._check(typed, findings, one_type=True)

    def check_running(self, typed: pd.DataFrame, findings: Findings) -> None:
        """Add the faults of the GPUs that gangs run on."""
        self._check(typed, findings, one_type=False)

    def _check(self, typed: pd.DataFrame, findings: Findings, *, one_type: bool) -> None:
        broken: dict[int, tuple[Rule, str]] = {}
        owner: dict[Gpu, str] = {}
        for position, row in enumerate(_records(typed)):
            if row["gpus"] is None or findings.is_bad[position]:
                continue
            fault = self._fault(row, owner, one_type=one_type)
            if fault is None:
                owner.update(dict.fromkeys(self.of(row["gpus"]), str(row["job_id"])))
            else:
                broken[position] = fault
        for rule in dict.fromkeys(rule for rule, _ in broken.values()):
            rows = pd.Series(range(len(typed))).isin([k for k, one in broken.items() if one[0] is rule])
            findings.add(rows.to_numpy(), rule, lambda k: broken[k][1])

    def _fault(
        self, row: Mapping[str, Any], owner: Mapping[Gpu, str], *, one_type: bool
    ) -> tuple[Rule, str] | None:
        try:
            gpus = parse_gpus(row["gpus"], self._nodes)
        except GpuListError as error:
            return error.rule, error.message
        taken = next((gpu for gpu in gpus if gpu in owner), None)
        if taken is not None:
            message = f"GPU {taken.index} of node {shown(taken.node)} is job {shown(owner[taken])}'s already"
            return Rule.GPU_NAMED_TWICE, message
        if row["num_gpus"] and len(gpus) != row["num_gpus"]:
            return Rule.GANG_NOT_WHOLE, f"gpus names {len(gpus)} GPUs, num_gpus is {row['num_gpus']:.0f}"
        types = sorted({gpu.gpu_type for gpu in gpus})
        wrong = [one for one in types if row["gpu_type"] not in (None, one) and one != ANY_TYPE]
        if wrong or (one_type and len(types) > 1):
            asked = shown(row["gpu_type"] or "one type")
            return Rule.GPU_OF_WRONG_TYPE, f"gpus are of type {shown(', '.join(types))}, asked for is {asked}"
        return None


def _job(row: Mapping[str, Any], num_gpus: int) -> Job:
    return Job(row["job_id"], row["pool"] or "", row["submit_s"] or 0.0, num_gpus, gpu_type=row["gpu_type"])


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as mappings; what is missing is None."""
    columns = [column.astype(object).where(column.notna(), None).tolist() for _, column in frame.items()]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
