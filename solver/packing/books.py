"""What a policy that packs knows of its jobs: who waits, who runs where, and how much of each is left."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S, LifetimeForecaster
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from domain.work import WorkDone
from solver.packing.floor import Floor, Place

FloatArray = NDArray[np.float64]

_EDGES_S: Final = np.concatenate([[0.0], LIFE_EDGES_S])
_LEAST_SURVIVAL: Final = 1e-4
_PRIOR_JOBS: Final = 5.0
"""Jobs that are taken to have needed all of the time to their deadline, before any has ended."""


class Rest:
    """What is left of one job's life, given how far it has come; from its forecast survival curve.

    Args:
        survival: at the edges of `LIFE_EDGES_S`.
    """

    __slots__ = ("_alive", "_area_s")

    def __init__(self, survival: Sequence[float]) -> None:
        alive = np.concatenate([[1.0], np.asarray(survival, dtype=float)])
        self._alive = alive
        slices = np.diff(_EDGES_S) * (alive[:-1] + alive[1:]) / 2.0
        self._area_s = np.concatenate([np.cumsum(slices[::-1])[::-1], [0.0]])

    def mean_s(self, done_s: float) -> float:
        """E[life - done | life > done], seconds; one that has outlived its curve has as much left as done."""
        alive = float(np.interp(done_s, _EDGES_S, self._alive))
        if alive < _LEAST_SURVIVAL or done_s >= _EDGES_S[-1]:
            return max(1.0, done_s)
        return max(1.0, float(np.interp(done_s, _EDGES_S, self._area_s)) / alive)

    def chance_by(self, done_s: float, more_s: float, most_s: float) -> float:
        """P(life <= done + more | done < life <= most)."""
        if done_s + more_s >= most_s:
            return 1.0
        alive, then, last = (
            float(np.interp(x, _EDGES_S, self._alive)) for x in (done_s, done_s + more_s, most_s)
        )
        if alive - last < _LEAST_SURVIVAL:
            return more_s / (most_s - done_s)
        return (alive - then) / (alive - last)


class PackingBooks:
    """Told every fact; keeps who waits, who runs where, and the work done of each (as if it ran alone).

    Args:
        floor: who is on which GPU.
        lives: forecaster of lives.
    """

    def __init__(self, floor: Floor, lives: LifetimeForecaster) -> None:
        self.floor = floor
        self.pending: dict[str, Job] = {}
        self.running: dict[str, Job] = {}
        self._lives = lives
        self._rest: dict[str, Rest] = {}
        self._work: dict[str, WorkDone] = {}
        self._proposed: dict[str, tuple[Place, tuple[int, int]]] = {}
        self._used_share = _PRIOR_JOBS
        self._num_used = _PRIOR_JOBS

    def submitted(self, job: Job) -> None:
        """A job waits."""
        self.pending[job.job_id] = job
        self._rest[job.job_id] = Rest(self._lives.survival(job))
        self._work[job.job_id] = WorkDone()

    def started(self, job: Job, now_s: float) -> None:
        """A job runs where it was proposed."""
        self.pending.pop(job.job_id, None)
        self.running[job.job_id] = job
        self._goes_on(job, now_s, 1.0)
        place = self._proposed.pop(job.job_id, None)
        if place is not None:
            self.floor.enter(job, place[0].gpus, place[1])

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._goes_on(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A running job was stopped with its work kept; it waits again."""
        self._goes_on(job, now_s, 0.0)
        self.running.pop(job.job_id, None)
        self.floor.leave(job.job_id)
        self.pending[job.job_id] = job

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        if job.job_id in self.running and job.deadline_s is not None and job.deadline_s > job.submit_s:
            self._used_share += self.done_s(job, now_s) / (job.deadline_s - job.submit_s)
            self._num_used += 1.0
        self.floor.leave(job.job_id)
        for known in (self.pending, self.running, self._rest, self._work, self._proposed):
            known.pop(job.job_id, None)

    def _goes_on(self, job: Job, now_s: float, rate: float) -> None:
        self._work[job.job_id] = WorkDone(self.done_s(job, now_s), rate, now_s)

    def rate(self, job_id: str) -> float:
        """Present rate of a running job."""
        return self._work[job_id].rate

    def done_s(self, job: Job, now_s: float) -> float:
        """Work done of a job, seconds of running alone."""
        return self._work[job.job_id].work_at(now_s)

    def left_s(self, job: Job, now_s: float) -> float:
        """Expected work left of a job, seconds of running alone."""
        return self._rest[job.job_id].mean_s(self.done_s(job, now_s))

    def chance_done(self, job: Job, now_s: float, more_s: float, most_s: float) -> float:
        """Chance that so much more work ends a job, if it takes no more than `most_s`; seconds alone."""
        return self._rest[job.job_id].chance_by(self.done_s(job, now_s), more_s, most_s)

    def usual_share(self) -> float:
        """Work of jobs that have ended over the time from submit to deadline, in the mean."""
        return self._used_share / self._num_used

    def propose(
        self, places: Sequence[tuple[Job, Place]], settings: Mapping[str, tuple[int, int]] | None = None
    ) -> Plan:
        """A plan that starts jobs in places; they count as running there once told so.

        Args:
            places: of each job that starts.
            settings: by the id of the job: its MPS share where it shares GPUs, and that of its mates there.
        """
        given = settings or {}
        self._proposed = {job.job_id: (place, given.get(job.job_id, (100, 100))) for job, place in places}
        return Plan(
            starts=tuple(Start(job, False) for job, _ in places),
            placements=tuple(Placement(job.job_id, place.gpus) for job, place in places),
        )
