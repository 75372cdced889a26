"""The plan that stands, asked about one job at a time until the next one is made."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from domain.jobs import Job
from solver.lending.curves import FloatArray
from solver.lending.incremental import Arrival, OpenPlan
from solver.lending.problem import LendingPlan, LendingProblem
from solver.lending.value import ValueSettings, job_values


@dataclass(frozen=True, slots=True, eq=False)
class Yardstick:
    """What makes a job's value and need comparable with those that were planned.

    Attributes:
        mean_value: what values were divided by.
        factor: (pools,) by which values of a pool's jobs were multiplied.
        net: (pools, cells) part of a guest's width that adds to the need.
    """

    mean_value: float
    factor: FloatArray
    net: FloatArray


class StandingPlan:
    """An open plan (`solver.lending.incremental`) in the words of a policy.

    Args:
        problem: what was planned.
        plan: its answer.
        members: ids of each class's jobs, in the order in which they start.
        yardstick: of the plan.
    """

    def __init__(
        self,
        problem: LendingProblem,
        plan: LendingPlan,
        members: tuple[tuple[str, ...], ...],
        yardstick: Yardstick,
    ) -> None:
        exact, lines = plan.exact_risk_jobs, plan.risk_jobs - plan.ride_jobs
        margin = (exact - plan.ride_jobs) / lines if exact is not None and lines > 0.0 else 1.0
        rides: dict[str, float] = {}
        if problem.rides is not None:
            charges = problem.rides.charge_jobs.tolist()
            rides = {problem.rides.job_ids[k]: charges[k] for k in plan.rides}
            members = tuple(tuple(one for one in ids if one not in rides) for ids in members)
        self._open = OpenPlan(problem, plan.counts, members, margin, rides)
        self._yardstick = yardstick
        self._prices_send_backs = problem.send_back is not None

    def refresh(self, guest_ids: Collection[str], idle_gpus: int) -> None:
        """These are the guests that run, and so many GPUs may be lent; others of the plan hold nothing."""
        for job_id in sorted(self._open.guest_ids.difference(guest_ids)):
            self._open.ended(job_id)
        self._open.told_idle(idle_gpus)

    def charge_of(
        self, job: Job, now_s: float, *, rank: int, median_s: float, fresh: FloatArray, repeats: float | None
    ) -> float | None:
        """The jobs that lending to one more is expected to slow; None if the plan does not allow it.

        A plan made when nobody could be sent back has no price for that, and lends to nobody who can.

        Args:
            job: it then counts as a guest.
            now_s: the instant.
            rank: of its pool.
            median_s: forecast median of its life.
            fresh: (cells,) probability that it still runs when the cell begins, if it starts now.
            repeats: share of its run that being sent back would cost it; None if it must run to its end.
        """
        may_go = repeats is not None
        if may_go and not self._prices_send_backs:
            return None
        waited_s, width = np.array([now_s - job.submit_s]), np.array([float(job.num_gpus)])
        value = float(job_values(waited_s, np.array([median_s]), width, ValueSettings())[0])
        value *= float(self._yardstick.factor[rank]) / self._yardstick.mean_value
        alive_gpus = job.num_gpus * fresh * self._yardstick.net[rank]
        arrival = Arrival(
            job.job_id, job.num_gpus, value, alive_gpus, may_go, 1.0 if repeats is None else repeats
        )
        verdict = self._open.arrived(arrival)
        return verdict.charge_jobs if verdict.starts else None
