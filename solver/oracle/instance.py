"""What an oracle is asked: who runs how long, and by when each has to start at the latest."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job, submit_order
from solver.reference import fcfs_starts

IntArray = NDArray[np.int64]

_OFF_GRID_STEPS = 1e-6


@dataclass(frozen=True)
class Instance:
    """Jobs whose lives are known, each with the latest start that keeps the promise.

    Attributes:
        jobs: by (submit, id).
        durations_s: true length of each job, seconds.
        latest_s: latest allowed start of each job, seconds (m_j of the SIA paper, figure 5).
        quotas: GPUs of each pool.
        capacity_gpus: GPUs of the cluster; never above the sum of the quotas.

    Raises:
        ValueError: if the cluster is said to be larger than its pools together.
    """

    jobs: tuple[Job, ...]
    durations_s: Mapping[str, float]
    latest_s: Mapping[str, float]
    quotas: Mapping[str, int]
    capacity_gpus: int

    def __post_init__(self) -> None:
        if self.capacity_gpus > sum(self.quotas.values()):
            raise ValueError(
                f"capacity is {self.capacity_gpus} GPUs, the quotas add up to {sum(self.quotas.values())}"
            )

    @staticmethod
    def of(
        jobs: Iterable[Job],
        durations_s: Mapping[str, float],
        quotas: Mapping[str, int],
        *,
        tolerance_s: float = 0.0,
    ) -> "Instance":
        """The instance whose latest starts are those without sharing (first come, first served per pool).

        Args:
            jobs: in any order. Those wider than their own pool's quota have no reference and are left out.
            durations_s: true length of each job, seconds.
            quotas: GPUs of each pool.
            tolerance_s: how much later than in the reference a job may start, seconds.
        """
        kept = tuple(sorted((job for job in jobs if job.num_gpus <= quotas[job.pool]), key=submit_order))
        reference_s = fcfs_starts(kept, durations_s, quotas)
        latest_s = {job_id: start_s + tolerance_s for job_id, start_s in reference_s.items()}
        lengths_s = {job.job_id: durations_s[job.job_id] for job in kept}
        return Instance(kept, lengths_s, latest_s, dict(quotas), sum(quotas.values()))

    def waiting_s(self, starts_s: Mapping[str, float]) -> float:
        """Seconds from submit to start, added up over all jobs."""
        return math.fsum(starts_s[job.job_id] - job.submit_s for job in self.jobs)

    def impossible(self) -> str | None:
        """Why there is no schedule for a plain reason, if there is one."""
        for job in self.jobs:
            if job.num_gpus > self.capacity_gpus:
                return f"job {job.job_id} asks for {job.num_gpus} GPUs, the cluster has {self.capacity_gpus}"
            if self.latest_s[job.job_id] < job.submit_s:
                return f"job {job.job_id} would have to start before its submit at {job.submit_s:g} s"
        return None


@dataclass(frozen=True)
class Grid:
    """An instance in whole steps of time; arrays are in the order of the instance's jobs.

    Attributes:
        step_s: length of a step, seconds.
        submit, latest: (jobs,) first and last allowed start, steps.
        length: (jobs,) steps.
        width: (jobs,) GPUs.
    """

    step_s: float
    submit: IntArray
    latest: IntArray
    length: IntArray
    width: IntArray

    @staticmethod
    def of(instance: Instance, step_s: float) -> "Grid":
        """Put an instance on a grid, on which every submit and every length has to lie already.

        A latest start between two steps counts as the earlier one: it must not be passed.

        Raises:
            ValueError: if a submit or a length is no whole number of steps.
        """
        jobs = instance.jobs
        submit_s = np.array([job.submit_s for job in jobs])
        length_s = np.array([instance.durations_s[job.job_id] for job in jobs])
        latest_s = np.array([instance.latest_s[job.job_id] for job in jobs])
        latest = np.floor(latest_s / step_s + _OFF_GRID_STEPS).astype(np.int64)
        width = np.array([job.num_gpus for job in jobs], dtype=np.int64)
        return Grid(step_s, _whole(submit_s, step_s), latest, _whole(length_s, step_s), width)

    def steps(self, instance: Instance, starts_s: Mapping[str, float]) -> IntArray:
        """(jobs,) starts in steps."""
        return _whole(np.array([starts_s[job.job_id] for job in instance.jobs]), self.step_s)


def _whole(times_s: NDArray[np.float64], step_s: float) -> IntArray:
    steps = times_s / step_s
    nearest = np.rint(steps)
    off = np.flatnonzero(np.abs(steps - nearest) > _OFF_GRID_STEPS)
    if off.size:
        raise ValueError(f"{times_s[off[0]]:g} s is no whole number of steps of {step_s:g} s")
    return nearest.astype(np.int64)


def rounded_up(
    jobs: Iterable[Job], durations_s: Mapping[str, float], step_s: float
) -> tuple[list[Job], dict[str, float]]:
    """The same jobs with submits and lengths rounded up to whole steps: another, coarser workload."""
    coarse = [replace(job, submit_s=math.ceil(job.submit_s / step_s) * step_s) for job in jobs]
    lengths_s = {job_id: math.ceil(length / step_s) * step_s for job_id, length in durations_s.items()}
    return coarse, lengths_s
