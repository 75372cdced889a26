"""Running jobs that might be hosts: the file of `antecast packing advise --jobs`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from data.gpu_lists import GpuListError, parse_gpus
from data.profiles import MAX_MEMORY_MIB
from data.readers.checked_rows import Layout, read_rows
from data.rules import Rule
from data.schema import Column, Kind
from data.validation import Findings
from domain.cluster import Gpu, Node

PACKING_COLUMNS: Final = (
    Column("job_id", Kind.TEXT, "", False, "unique name of the job"),
    Column("model", Kind.TEXT, "", False, "what it trains, as in the profiles"),
    Column("gpus", Kind.TEXT, "", False, "GPUs it runs on: node/index;node/index-index"),
    Column("left_s", Kind.FLOAT, "s", True, "what is left of it at full speed", 1.0),
    Column("deadline_s", Kind.FLOAT, "s", True, "seconds from now by which it should have ended"),
    Column("memory_mib", Kind.FLOAT, "MiB", True, "most memory it takes on one GPU", 1, MAX_MEMORY_MIB),
    Column("gpu_memory_mib", Kind.FLOAT, "MiB", True, "memory of one of its GPUs", 1, MAX_MEMORY_MIB),
    Column("may_host", Kind.INT, "", True, "0: it has not consented to share", 0, 1, default=1),
)
"""The table of running jobs that might be hosts."""


class RunningJob(NamedTuple):
    """A job that runs; None where the file says nothing.

    Attributes:
        job_id: its name.
        model: what it trains.
        gpus: where it runs.
        left_s: what is left of it at full speed.
        deadline_s: seconds from now by which it should have ended.
        memory_mib: most memory it takes on one GPU.
        gpu_memory_mib: memory of one of its GPUs.
        may_host: whether it consented to share.
    """

    job_id: str
    model: str
    gpus: tuple[Gpu, ...]
    left_s: float | None
    deadline_s: float | None
    memory_mib: float | None
    gpu_memory_mib: float | None
    may_host: bool


def read_running_jobs(path: Path, nodes: Sequence[Node]) -> tuple[RunningJob, ...]:
    """Running jobs in the order of the file. Two may be on one GPU: they share it already.

    Raises:
        InputError: with every fault found.
    """
    by_name = {node.name: node for node in nodes}

    def check(typed: pd.DataFrame, findings: Findings) -> None:
        found: dict[int, GpuListError] = {}
        for k, text in enumerate(typed["gpus"].tolist()):
            if not isinstance(text, str) or findings.is_bad[k]:
                continue
            try:
                parse_gpus(text, by_name)
            except GpuListError as error:
                found[k] = error
        for rule in dict.fromkeys(error.rule for error in found.values()):
            is_broken = np.array([k in found and found[k].rule is rule for k in range(len(typed))])
            findings.add(is_broken, rule, lambda k: found[k].message)

    rows = read_rows(path, Layout(PACKING_COLUMNS, unique=("job_id", Rule.DUPLICATE_ID), more=check))
    return tuple(
        RunningJob(
            row["job_id"],
            row["model"],
            parse_gpus(row["gpus"], by_name),
            left_s=_known(row["left_s"]),
            deadline_s=_known(row["deadline_s"]),
            memory_mib=_known(row["memory_mib"]),
            gpu_memory_mib=_known(row["gpu_memory_mib"]),
            may_host=bool(row["may_host"]),
        )
        for row in rows.frame.to_dict("records")
    )


def _known(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
