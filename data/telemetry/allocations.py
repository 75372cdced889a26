"""Which jobs the scheduler has given GPUs to: from a CSV file, or from attempts that run in a history."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
import pyarrow as pa

from data.readers.checked_rows import Layout, read_rows
from data.records import MILLI
from data.schema import ALLOCATION_COLUMNS
from data.slurm.hostlists import expand_hosts
from domain.attempts import EndCause

COLUMNS: Final = (
    "raw_id", "shown_id", "submit_s", "attempt", "start_s", "end_s", "cause", "gpus_asked_milli",
    "gpus_given_milli", "mig_profile", "gpu_shards", "nodes",
)  # fmt: skip
"""Columns of a history that are needed."""


class Allocation(NamedTuple):
    """GPUs of one node that a job has been given.

    Attributes:
        job_id: the job.
        node: the node, as the scheduler names it.
        gpu: which GPU (index, index/slice or UUID); None where only the node is known.
        num_gpus: how many; None where that is not known.
        since_s: from when on, epoch seconds; None where that is not known.
    """

    job_id: str
    node: str
    gpu: str | None
    num_gpus: int | None = 1
    since_s: float | None = None


class Allocations(NamedTuple):
    """All that a scheduler has given out at one instant.

    Attributes:
        found: in the order of jobs.
        notes: how many jobs are not in it, by why.
        edge_s: last instant that the source knows of; None where it does not say.
    """

    found: tuple[Allocation, ...]
    notes: Mapping[str, int]
    edge_s: float | None = None


def read_allocations(path: Path, at_s: float) -> Allocations:
    """GPUs of a CSV file (job_id, node, gpu; since_s) that are given out at an instant.

    Raises:
        InputError: with every fault found. A bad row is always refused: its GPU would count as free.
    """
    rows = read_rows(path, Layout(ALLOCATION_COLUMNS), may_be_empty=True)
    found = set()
    notes: Counter[str] = Counter()
    for job_id, node, gpu, since_s in rows.frame[["job_id", "node", "gpu", "since_s"]].itertuples(
        index=False
    ):
        begin_s = None if pd.isna(since_s) else float(since_s)
        if begin_s is not None and begin_s > at_s:
            notes["allocations that begin after the last sample: left out"] += 1
            continue
        found.add(Allocation(str(job_id), str(node), str(gpu), 1, begin_s))
    return Allocations(tuple(sorted(found, key=_order)), dict(notes))


def running_at(table: pa.Table, at_s: float) -> Allocations:
    """Nodes of the attempts that hold GPUs at an instant. Which GPUs of a node they hold, no history says.

    Of an id only the newest attempt counts; one that never ended although a newer one began is over.

    Args:
        table: attempts of one cluster, with `COLUMNS` at least.
        at_s: the instant, epoch seconds.
    """
    frame = table.select(list(COLUMNS)).to_pandas()
    edge_s = frame[["submit_s", "start_s", "end_s"]].max().max() if len(frame) else None
    frame = frame[frame["submit_s"] <= at_s].sort_values(["raw_id", "submit_s", "attempt"], kind="stable")
    frame = frame.drop_duplicates("raw_id", keep="last")
    is_open = frame["end_s"].isna() & frame["cause"].eq(EndCause.NOT_ENDED.value)
    frame = frame[(frame["start_s"] <= at_s) & (is_open | (frame["end_s"] > at_s))]
    notes: Counter[str] = Counter()
    found: list[Allocation] = []
    for row in frame.astype(object).where(frame.notna(), None).to_dict("records"):
        found += _of_attempt(row, notes)
    return Allocations(tuple(sorted(found, key=_order)), dict(sorted(notes.items())), edge_s)


def _of_attempt(row: Mapping[Any, Any], notes: Counter[str]) -> list[Allocation]:
    milli = row["gpus_given_milli"] if row["gpus_given_milli"] is not None else row["gpus_asked_milli"]
    if milli == 0:
        return []
    if row["nodes"] is None:
        notes["running jobs of which no node is told"] += 1
        return []
    try:
        nodes = expand_hosts(row["nodes"])
    except ValueError:
        notes["running jobs whose list of nodes cannot be read"] += 1
        return []
    is_even = milli is not None and milli % (MILLI * len(nodes)) == 0 if nodes else False
    is_whole = row["mig_profile"] is None and row["gpu_shards"] is None
    num_gpus = int(milli // (MILLI * len(nodes))) if is_even and is_whole else None
    name = str(row["shown_id"] or row["raw_id"])
    return [Allocation(name, node, None, num_gpus, float(row["start_s"])) for node in nodes]


def _order(one: Allocation) -> tuple[Any, ...]:
    return (one.job_id, one.node, one.gpu or "", one.since_s or 0.0)
