"""Whether quotas and jobs fit the nodes they come with; asked before a replay, which could only get stuck."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from data.history import History, to_jobs
from data.rules import FaultLog, Rule, shown
from domain.cluster import Node
from domain.errors import Fault, InputError
from domain.jobs import Job
from solver.placement.board import Board
from solver.placement.greedy import may_use

_NAMED_TYPES = 5


def require_room(quotas: Mapping[str, int], nodes: Sequence[Node], source: Path) -> None:
    """Refuse nodes that have fewer GPUs than the quotas promise; with more, the rest is nobody's own.

    Args:
        quotas: GPUs of each pool.
        nodes: what there is.
        source: file that the nodes were read from.

    Raises:
        InputError: if the quotas add up to more than the nodes have.
    """
    promised, there = sum(quotas.values()), sum(node.num_gpus for node in nodes)
    if promised > there:
        message = (
            f"the {len(nodes)} nodes have {there} GPUs, the quotas of the pools add up to {promised}; "
            "add the missing nodes, or lower the quotas"
        )
        raise InputError([Fault(str(source), None, Rule.QUOTAS_ABOVE_NODES, message)])


def on_nodes(history: History, nodes: Sequence[Node], from_s: float, *, is_lenient: bool) -> History:
    """The history without jobs to replay that no nodes could ever hold, not even when all are idle.

    Jobs submitted before the replay begins are only learned from and may have run on what is gone by now.

    Args:
        history: jobs to replay and to learn from.
        nodes: where they run.
        from_s: instant at which the replay begins.
        is_lenient: whether such jobs are left out and listed instead of refused.

    Raises:
        InputError: with every such job; when lenient, never.
    """
    due = history.frame[history.frame["submit_s"] >= from_s]
    places = _Places(nodes)
    log = FaultLog(history.source)
    misfits: set[str] = set()
    for job in to_jobs(due)[0]:
        fault = places.why_not(job)
        if fault is not None:
            misfits.add(job.job_id)
            log.add(None, *fault)
    if not misfits:
        return history
    if not is_lenient:
        raise InputError(log.listed())
    return replace(
        history,
        frame=_without(history.frame, misfits),
        skipped=(*history.skipped, *log.listed()),
        num_skipped_rows=history.num_skipped_rows + len(misfits),
    )


def _without(frame: pd.DataFrame, job_ids: set[str]) -> pd.DataFrame:
    return frame[~frame["job_id"].isin(job_ids)].reset_index(drop=True)


class _Places:
    """Which gangs the nodes hold when all are idle; each width and type is tried once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._board = Board(nodes)
        self._types = sorted({node.gpu_type for node in nodes})
        self._holds: dict[tuple[int, str | None], bool] = {}

    def why_not(self, job: Job) -> tuple[Rule, str] | None:
        """The rule that a job breaks and what was found; None if it can be placed."""
        if not any(may_use(job.gpu_type, one) for one in self._types):
            there = ", ".join(map(shown, self._types[:_NAMED_TYPES]))
            more = ", ..." if len(self._types) > _NAMED_TYPES else ""
            message = (
                f"job {shown(job.job_id)} asks for gpu_type {shown(job.gpu_type)}, nodes have: {there}{more}"
            )
            return Rule.UNKNOWN_GPU_TYPE, message
        asked = (job.num_gpus, job.gpu_type)
        if asked not in self._holds:
            self._holds[asked] = self._board.find(job, 0.0) is not None
        if self._holds[asked]:
            return None
        of_type = f" of type {shown(job.gpu_type)}" if job.gpu_type else ""
        message = (
            f"job {shown(job.job_id)} asks for {job.num_gpus} GPUs{of_type} on the fewest nodes of one type, "
            "which none could give even if all were idle"
        )
        return Rule.FITS_NO_NODES, message
