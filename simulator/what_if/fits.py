"""Jobs that could never start in one of the worlds; they are left out of both, and counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from domain.changes import Submitted, World
from domain.jobs import Job
from solver.placement.board import Board


class Fits:
    """Whether a job could start in all of several worlds if they were empty.

    Args:
        worlds: base and scenario.
    """

    def __init__(self, worlds: Sequence[World]) -> None:
        self._worlds = worlds
        self._boards = [Board(world.nodes) for world in worlds if world.is_placed]
        self._known: dict[tuple[int, str | None], bool] = {}

    def __call__(self, job: Job) -> bool:
        """Whether it could: no wider than its pool's quota, and the nodes hold it."""
        if any(job.num_gpus > world.quotas.get(job.pool, 0) for world in self._worlds):
            return False
        asked = (job.num_gpus, job.gpu_type)
        if asked not in self._known:
            self._known[asked] = all(board.find(job, 0.0) is not None for board in self._boards)
        return self._known[asked]


def counted(left_out: Iterable[Submitted]) -> dict[str, Any]:
    """How many jobs were left out, in all and by pool."""
    by_pool = Counter(one.job.pool for one in left_out)
    listed = [{"pool": pool, "jobs": by_pool[pool]} for pool in sorted(by_pool)]
    return {"jobs": by_pool.total(), "by_pool": listed}
