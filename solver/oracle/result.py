"""What an oracle answers, and the check that every answer passes before it leaves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from domain.schedules import Stretch
from solver.check import CheckOptions, check
from solver.oracle.instance import Instance

_TIME_S = 1e-6


class Status(StrEnum):
    """How good the schedule is."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class EndedBy(StrEnum):
    """Why the solver stopped."""

    PROOF = "proof"
    WORK_LIMIT = "work limit"
    WALL_LIMIT = "wall limit"


@dataclass(frozen=True, slots=True)
class Spent:
    """What solving has taken: deterministic seconds of CP-SAT, nodes of HiGHS, seconds by the clock."""

    work: float = 0.0
    nodes: int = 0
    wall_s: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.work + other.work, self.nodes + other.nodes, self.wall_s + other.wall_s)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a solver has to stop.

    Attributes:
        work: deterministic seconds of CP-SAT; the same result on every machine.
        nodes: branch-and-bound nodes of HiGHS; likewise.
        wall_s: kill switch, seconds. A result that it cut short says so and may differ the next time.
        workers: threads of CP-SAT; with more than one the result may differ from run to run.
        seed: of what is drawn at random.
        moves: tried to improve the schedule that a solver begins with, for each job that waits in it.
    """

    work: float = 60.0
    nodes: int = 10_000
    wall_s: float = 600.0
    workers: int = 1
    seed: int = 0
    moves: int = 100

    def after(self, spent: Spent) -> "Limits":
        """What is left of them."""
        return replace(
            self,
            work=max(0.0, self.work - spent.work),
            nodes=max(0, self.nodes - spent.nodes),
            wall_s=max(0.0, self.wall_s - spent.wall_s),
        )


@dataclass(frozen=True)
class OracleResult:
    """A schedule, and what is proven about all others.

    Attributes:
        status: whether it is proven best.
        starts_s: start of each job, seconds; empty where there is no schedule.
        waiting_s: submit to start, summed over the jobs, seconds.
        objective_s: what was minimised, seconds: `waiting_s`, plus the fairness term where one was asked.
        bound_s: no schedule has a smaller objective.
        ended_by: what stopped the solver.
        reason: in words, where there is no schedule or no proof; otherwise empty.
    """

    status: Status
    starts_s: Mapping[str, float]
    waiting_s: float
    objective_s: float
    bound_s: float
    ended_by: EndedBy
    reason: str = ""

    @property
    def gap(self) -> float:
        """(objective - bound) / objective, in [0, 1]; 0 where nobody waits."""
        return (self.objective_s - self.bound_s) / self.objective_s if self.objective_s > 0.0 else 0.0


def nothing_to_do() -> OracleResult:
    """The valid empty schedule of no jobs."""
    return OracleResult(Status.OPTIMAL, {}, 0.0, 0.0, 0.0, EndedBy.PROOF, "there are no jobs")


def no_schedule(
    reason: str, ended_by: EndedBy = EndedBy.PROOF, status: Status = Status.INFEASIBLE
) -> OracleResult:
    """The valid empty result, with the reason."""
    return OracleResult(status, {}, 0.0, 0.0, 0.0, ended_by, reason)


def checked(
    instance: Instance,
    starts_s: Mapping[str, float],
    *,
    bound_s: float,
    ended_by: EndedBy,
    fairness_s: float = 0.0,
) -> OracleResult:
    """A result around a schedule that keeps every rule.

    Args:
        instance: what was asked.
        starts_s: start of each job, seconds.
        bound_s: proven lower bound of the objective, seconds.
        ended_by: what stopped the solver; a proof closes the gap.
        fairness_s: fairness term of the schedule, seconds.

    Raises:
        RuntimeError: if the schedule breaks a rule: a fault of the solver or of its model.
    """
    _require_valid(instance, starts_s)
    waiting_s = instance.waiting_s(starts_s)
    objective_s = waiting_s + fairness_s
    if ended_by is EndedBy.PROOF:
        return OracleResult(Status.OPTIMAL, starts_s, waiting_s, objective_s, objective_s, ended_by)
    bound_s = min(max(bound_s, 0.0), objective_s)
    status = Status.OPTIMAL if bound_s >= objective_s - _TIME_S else Status.FEASIBLE
    reason = "" if status is Status.OPTIMAL else f"stopped by the {ended_by} before the proof"
    return OracleResult(status, starts_s, waiting_s, objective_s, bound_s, ended_by, reason)


def _require_valid(instance: Instance, starts_s: Mapping[str, float]) -> None:
    stretches = [
        Stretch(job_id, start_s, start_s + instance.durations_s[job_id])
        for job_id, start_s in starts_s.items()
    ]
    options = CheckOptions(has_own_lanes=False, capacity_steps=((-math.inf, instance.capacity_gpus),))
    report = check(instance.jobs, instance.durations_s, instance.quotas, stretches, options=options)
    if report.faults:
        raise RuntimeError(f"the oracle's schedule breaks a rule: {report.faults[0].message}")
    for job_id, start_s in starts_s.items():
        if start_s > instance.latest_s[job_id] + _TIME_S:
            raise RuntimeError(f"the oracle starts job {job_id} at {start_s:g} s, later than is allowed")
