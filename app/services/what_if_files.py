"""What-ifs over files: the same questions and answers as the service's, without one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from app.services.evaluate import read_history
from app.services.node_fits import require_room
from app.services.what_if import check_world
from data.history import in_order
from data.readers.benchmark_csv import read_nodes, read_pools
from data.schema import COLUMNS
from domain.changes import Calendar, World, read_patch
from domain.errors import SettingError
from domain.questions import Question, world_to_json
from simulator.engine import Progress
from simulator.what_if.answer import answer, with_requeueable


@dataclass(frozen=True)
class Cluster:
    """A cluster as files say it; the fields are the command line's options of the same names."""

    jobs: Path
    pools: Path
    nodes: Path | None = None
    policy: str = "anticipatory"
    settings: Mapping[str, str] = field(default_factory=dict)
    file_format: str = "csv"
    is_lenient: bool = False
    origin: datetime | None = None
    requeueable_pools: Sequence[str] = ()


def ask(cluster: Cluster, question: Question, progress: Progress | None = None) -> dict[str, Any]:
    """Answer a what-if over files.

    Where nodes are given, gangs are put on them. Pools and nodes are taken by name, as elsewhere.

    Args:
        cluster: the files, and how they are read.
        question: what is asked.
        progress: told now and then how far it is.

    Returns:
        What `simulator.what_if.answer.answer` does.

    Raises:
        InputError: with every fault found in a file.
        ChangeError: for a change that cannot be; it names the entry.
        SettingError: for a policy or setting that is refused, or where nothing changes.
    """
    if not question.changes:
        raise SettingError("nothing is different: name a pool whose quota changes, a policy, settings, ...")
    base = _base(cluster)
    check_world(base)
    origin = cluster.origin
    if origin is not None:
        origin = origin.replace(tzinfo=UTC) if origin.tzinfo is None else origin.astimezone(UTC)
    read_patch(question.changes, Calendar(origin)).on_world(base, check_world)  # before jobs are read
    unknown = sorted(set(cluster.requeueable_pools) - set(base.quotas))
    if unknown:
        raise SettingError(f"there is no pool {unknown[0]!r}; there are: {', '.join(base.quotas)}")
    request = {
        "base": world_to_json(base),
        "question": question.to_json(),
        "origin": None if origin is None else origin.isoformat(),
    }
    frame = _jobs(cluster)
    return answer(with_requeueable(frame, cluster.requeueable_pools), request, progress)


def _base(cluster: Cluster) -> World:
    quotas = read_pools(cluster.pools)
    nodes = () if cluster.nodes is None else read_nodes(cluster.nodes)
    if cluster.nodes is not None:
        require_room(quotas, nodes, cluster.nodes)
    by_name = tuple(sorted(nodes, key=lambda node: node.name))
    return World(
        dict(sorted(quotas.items())), cluster.policy, dict(cluster.settings), by_name, is_placed=bool(nodes)
    )


def _jobs(cluster: Cluster) -> pd.DataFrame:
    """The columns of the schema alone, all of them: as the service keeps them."""
    history = read_history(cluster.jobs, None, cluster.file_format, is_lenient=cluster.is_lenient)
    return in_order(history.frame[[column.name for column in COLUMNS]])
