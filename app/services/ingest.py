"""Files in: the arrow from a job history to a workload that can be replayed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.services.node_fits import on_nodes, require_room
from data.history import History, content_hash
from data.pairs import PairTable, read_pairs
from data.readers import READERS
from data.readers.benchmark_csv import read_nodes, read_pools
from domain.cluster import Node
from domain.errors import Fault, SettingError
from simulator.workload import Workload, make_workload

PAIRS_HASH: Final = "pairs_sha256"
"""Role of the pairs among the hashes."""


@dataclass(frozen=True)
class Inputs:
    """A workload and what was seen on the way to it.

    Attributes:
        workload: what is replayed.
        skipped: faults of the rows that were left out (lenient reading only).
        unused_columns: columns of the jobs file that nothing makes use of.
        hashes: SHA-256 of what each input holds, by role.
        pairs: measured rates of two jobs on one GPU; None where none were given.
    """

    workload: Workload
    skipped: tuple[Fault, ...]
    unused_columns: tuple[str, ...]
    hashes: dict[str, str]
    pairs: PairTable | None = None


@dataclass(frozen=True)
class Source:
    """Where a workload comes from; the fields are the command line's options of the same names."""

    jobs: Path
    pools: Path
    history: Path | None = None
    file_format: str = "csv"
    train_until_s: float = 0.0
    eval_from_s: float | None = None
    is_lenient: bool = False
    nodes: Path | None = None
    pairs: Path | None = None


def load(source: Source) -> Inputs:
    """Read and cut the inputs.

    Raises:
        InputError: with every fault found in a file, or if quotas or jobs do not fit the nodes.
        SettingError: for an unknown format, instants in the wrong order, or pairs without nodes.
    """
    if source.pairs is not None and source.nodes is None:
        raise SettingError("--pairs is for replays that know who is on which GPU: give it --nodes as well")
    if source.file_format not in READERS:
        raise SettingError(f"unknown format {source.file_format!r}; there are: {', '.join(READERS)}")
    read = READERS[source.file_format]
    quotas = read_pools(source.pools)
    nodes: tuple[Node, ...] = ()
    if source.nodes is not None:
        nodes = read_nodes(source.nodes)
        require_room(quotas, nodes, source.nodes)
    jobs = read(source.jobs, quotas, is_lenient=source.is_lenient)
    if nodes:
        jobs = on_nodes(jobs, nodes, source.train_until_s, is_lenient=source.is_lenient)
    earlier: History | None = None
    if source.history is not None:
        earlier = read(source.history, None, is_lenient=source.is_lenient)
    workload = make_workload(
        jobs,
        quotas,
        train_until_s=source.train_until_s,
        eval_from_s=source.train_until_s if source.eval_from_s is None else source.eval_from_s,
        earlier=earlier,
        nodes=nodes,
    )
    hashes = {"jobs_sha256": content_hash(jobs.frame)}
    skipped = jobs.skipped
    if earlier is not None:
        hashes["history_sha256"] = content_hash(earlier.frame)
        skipped += earlier.skipped
    pairs = None if source.pairs is None else read_pairs(source.pairs)
    if pairs is not None:
        hashes[PAIRS_HASH] = pairs.content_hash()
    return Inputs(workload, skipped, jobs.extra_columns, hashes, pairs)
