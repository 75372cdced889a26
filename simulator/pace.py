"""How fast jobs go that share GPUs, as a replay goes: who is beside whom, and under which shares."""

import math
from collections.abc import Iterable, Sequence

from domain.cluster import Gpu
from domain.jobs import Job
from domain.plans import WorkerShares
from simulator.colocation import Colocation


class Pace:
    """Rates of jobs that share GPUs, under free competition or shares that a plan sets.

    Args:
        floor: who is on which GPU.
    """

    def __init__(self, floor: Colocation) -> None:
        self.floor = floor
        self._touched: dict[str, None] = {}

    def enter(self, job: Job, gpus: Sequence[Gpu], now_s: float, kept_s: float = 0.0) -> int:  # noqa: ARG002
        """A job starts, with work kept of earlier attempts; returns how many of its GPUs were idle.

        Raises:
            PlanError: if it may not be there.
        """
        taken = self.floor.enter(job, gpus)
        self._touch(job.job_id, *self.floor.neighbours(job.job_id))
        return taken

    def leave(self, job_id: str, now_s: float) -> int:  # noqa: ARG002
        """A job ends or is stopped; returns how many of its GPUs are idle now."""
        beside = self.floor.neighbours(job_id)
        freed = self.floor.leave(job_id)
        self._touched.pop(job_id, None)
        self._touch(*beside)
        return freed

    def set_shares(self, shares: Iterable[WorkerShares], now_s: float) -> None:  # noqa: ARG002
        """Workers are capped as a plan says."""
        for one in shares:
            self.floor.set_shares(one.job_id, one.shares_pct)
            self._touch(one.job_id, *self.floor.neighbours(one.job_id))

    def next_s(self) -> float:
        """Next instant at which rates change by themselves; infinite if none."""
        return math.inf

    def settle(self, now_s: float) -> list[str]:  # noqa: ARG002
        """Jobs whose rate may have changed since the last call, in the order in which that was noticed."""
        touched = [job_id for job_id in self._touched if self.floor.runs(job_id)]
        self._touched.clear()
        return touched

    def rate(self, job_id: str) -> float:
        """Work that a job does per second relative to running alone, from now on."""
        return self.floor.rate(job_id)

    def _touch(self, *job_ids: str) -> None:
        self._touched.update(dict.fromkeys(job_ids))
