"""Jobs that ask for shares of GPUs, and nodes with their CPUs and memory, as columns of ours or of openb.

Pods: job_id (name), num_gpus (num_gpu), and of gpu_milli, profile, gpu_types (gpu_spec, `A|B`), cpu_milli,
memory_mib as many as there are. Nodes: node (sn), num_gpus (gpu), cpu_milli, memory_mib, and gpu_type (model)
and partitioned. The names in brackets are those of the published openb files, which are read as they are.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from data.readers.checked_rows import Layout, Rows, check_rows, read_rows
from data.rules import FaultLog, Rule, shown
from data.schema import HOST_ALIASES, HOST_COLUMNS, POD_ALIASES, POD_COLUMNS, WHOLE_MILLI
from data.validation import Findings


def read_pods(path: Path, *, is_lenient: bool = False, may_share_several: bool = False) -> Rows:
    """Jobs in the order of the file.

    Args:
        path: the file.
        is_lenient: whether bad rows are left out and listed instead of refused.
        may_share_several: whether a job may ask for a part of each of several GPUs.

    Raises:
        InputError: with every fault found; when lenient, only if no row can be judged or none is good.
    """
    return read_rows(path, _pods(may_share_several=may_share_several), is_lenient=is_lenient)


def pods_of(frame: pd.DataFrame, source: str, *, may_share_several: bool = False) -> Rows:
    """Jobs of a table in memory, in its order; its columns have the names of either kind.

    Args:
        frame: the table.
        source: what faults name as their source.
        may_share_several: whether a job may ask for a part of each of several GPUs.

    Raises:
        InputError: with every fault found.
    """
    lines = np.arange(1, len(frame) + 1, dtype=np.int64)
    layout = _pods(may_share_several=may_share_several)
    named = frame.rename(columns=dict(POD_ALIASES))
    return check_rows(named, layout, source, lines=lines, log=FaultLog(source))


def read_hosts(path: Path) -> Rows:
    """Nodes in the order of the file.

    Raises:
        InputError: with every fault found.
    """
    layout = Layout(HOST_COLUMNS, HOST_ALIASES, unique=("node", Rule.DUPLICATE_NODE), more=_check_hosts)
    return read_rows(path, layout)


def _pods(*, may_share_several: bool) -> Layout:
    def check(typed: pd.DataFrame, findings: Findings) -> None:
        _check_shares(typed, findings, may_share_several=may_share_several)

    return Layout(POD_COLUMNS, POD_ALIASES, unique=("job_id", Rule.DUPLICATE_ID), more=check)


def _check_shares(typed: pd.DataFrame, findings: Findings, *, may_share_several: bool) -> None:
    num_gpus, milli = typed["num_gpus"].to_numpy(), typed["gpu_milli"].to_numpy()
    is_slice = typed["profile"].notna().to_numpy()

    def says(row: int) -> str:
        return f"num_gpus is {num_gpus[row]:.0f} and gpu_milli {milli[row]:.0f}"

    findings.add(
        (num_gpus >= 1) & (milli < 1), Rule.NO_SHARE, lambda row: f"{says(row)}, it has to be 1 or more"
    )
    if not may_share_several:
        is_several = (num_gpus > 1) & (milli >= 1) & (milli < WHOLE_MILLI)
        findings.add(is_several, Rule.SHARES_OF_SEVERAL, lambda row: f"{says(row)}, a share is of one GPU")
    is_both = is_slice & ((num_gpus != 1) | (milli != WHOLE_MILLI)) & ~np.isnan(num_gpus) & ~np.isnan(milli)

    def says_both(row: int) -> str:
        profile = shown(typed["profile"][row])
        return f"profile is {profile}, {says(row)}; a slice is of one GPU, without gpu_milli"

    findings.add(is_both, Rule.SLICE_AND_SHARE, says_both)


def _check_hosts(typed: pd.DataFrame, findings: Findings) -> None:
    num_gpus, partitioned = typed["num_gpus"].to_numpy(), typed["partitioned"].to_numpy()

    def says(row: int) -> str:
        return f"partitioned is {partitioned[row]:.0f}, the node has {num_gpus[row]:.0f} GPUs"

    findings.add(partitioned > num_gpus, Rule.NO_MIG_MODE, says)
