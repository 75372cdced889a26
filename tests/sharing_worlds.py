"""Small worlds in which jobs share GPUs whenever they may: for tests of how fast they then go."""

import math
from collections.abc import Mapping, Sequence

from domain.cluster import Node
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job, JobOutcome
from domain.plans import Placement, Plan, Start
from domain.schedules import Schedule
from simulator.calibrated import CalibratedPace, Coordination
from simulator.colocation import Colocation, TrueRates
from simulator.engine import Engine
from simulator.pace import Pace
from solver.packing.floor import Floor


class Alike:
    """Forecasts an exponential life of 1,000 s of all jobs, so that about so much is left of each, always."""

    def quantile_s(self, _job: Job, level: float) -> float:
        return -1000.0 * math.log(1.0 - level)

    def survival(self, _job: Job) -> Sequence[float]:
        return [math.exp(-edge / 1000.0) for edge in LIFE_EDGES_S]


class AsTold:
    """Rates by the shares of both, whatever their models.

    Args:
        table: rates of two jobs by their shares, the larger share first; the same for both at equal shares.
        other: at all shares that are not in the table; of the job with the larger share first.
    """

    def __init__(
        self, table: Mapping[tuple[int, int], tuple[float, float]], other: tuple[float, float]
    ) -> None:
        self._table, self._other = table, other

    def rates(self, _a: str, _b: str, shares_pct: tuple[int, int] = (100, 100)) -> tuple[float, float] | None:
        a, b = shares_pct
        more, less = self._table.get((max(a, b), min(a, b)), self._other)
        return (more, less) if a >= b else (less, more)


class Sharer:
    """Starts whom it can: on idle GPUs, else beside others. Writes down the rates that it hears of."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._floor = Floor(nodes)
        self._waiting: list[Job] = []
        self.heard: list[tuple[float, str, float]] = []

    def submitted(self, job: Job, _now_s: float) -> None:
        self._waiting.append(job)

    def started(self, job: Job, _now_s: float) -> None:
        self._waiting.remove(job)

    def ended(self, job: Job, _now_s: float) -> None:
        self._floor.leave(job.job_id)

    def sent_back(self, _job: Job, _now_s: float) -> None:
        raise AssertionError("nobody is sent back here")

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        self.heard.append((now_s, job.job_id, rate))

    def decide(self, _now_s: float, _idle_gpus: int) -> Plan:
        starts, placements = [], []
        for job in self._waiting:
            place = self._floor.idle_place(job.num_gpus) or next(self._floor.shared_places(job), None)
            if place is not None:
                self._floor.enter(job, place.gpus)
                starts.append(Start(job, False))
                placements.append(Placement(job.job_id, place.gpus))
        return Plan(starts=tuple(starts), placements=tuple(placements))


class World:
    """A replay of jobs, each with its true length, under `Sharer`.

    Attributes:
        pace: that it went by.
        policy: with what it has heard.
        schedule: what happened.
    """

    def __init__(
        self,
        jobs: Sequence[tuple[Job, float]],
        rates: TrueRates,
        *,
        node_gpus: Sequence[int] = (1,),
        redistributes: bool = True,
        most_gain: float | None = None,
        how: Coordination | None = None,
    ) -> None:
        nodes = [Node(f"n{k}", width) for k, width in enumerate(node_gpus)]
        floor = Colocation(nodes, rates, redistributes=redistributes, most_gain=most_gain)
        self.pace = Pace(floor) if how is None else CalibratedPace(floor, how)
        self.policy = Sharer(nodes)
        self.schedule: Schedule = Engine(
            jobs=[job for job, _ in jobs],
            outcomes={job.job_id: JobOutcome(job.job_id, length) for job, length in jobs},
            capacity_gpus=sum(node_gpus),
            policy=self.policy,
            pace=self.pace,
        ).run()

    def of(self, job_id: str) -> list[tuple[float, float, float]]:
        """(start, end, rate) of each stretch of a job, in order of time."""
        return sorted((s.start_s, s.end_s, s.rate) for s in self.schedule.stretches if s.job_id == job_id)


def gang(
    job_id: str,
    submit_s: float = 0.0,
    num_gpus: int = 1,
    *,
    model: str = "m",
    deadline_s: float | None = None,
) -> Job:
    """A job that shares GPUs."""
    return Job(job_id, "a", submit_s, num_gpus, model=model, deadline_s=deadline_s)
