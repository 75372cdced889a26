"""What a policy that packs knows of its jobs: who waits, who runs where, and how much of each is left."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S, LifetimeForecaster
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
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

    def quantile_s(self, done_s: float, level: float) -> float:
        """Smallest t with P(life <= done + t | life > done) >= level, seconds."""
        alive = float(np.interp(done_s, _EDGES_S, self._alive))
        if alive < _LEAST_SURVIVAL:
            return max(1.0, done_s * level / (1.0 - level))
        wanted = (1.0 - level) * alive
        k = int(np.searchsorted(-self._alive, -wanted, side="left"))
        if k >= len(_EDGES_S):
            return max(1.0, done_s)
        high, low = self._alive[k - 1], self._alive[k]
        share = 1.0 if high <= low else (high - wanted) / (high - low)
        at_s = _EDGES_S[k - 1] + share * (_EDGES_S[k] - _EDGES_S[k - 1])
        return max(1.0, float(at_s) - done_s)


class PackingBooks:
    """Told every fact; keeps who waits, who runs where, and the work done of each, seconds of running alone.

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
        self._done_s: dict[str, float] = {}
        self._pace: dict[str, tuple[float, float]] = {}
        self._proposed: dict[str, Place] = {}
        self._used_share = _PRIOR_JOBS
        self._num_used = _PRIOR_JOBS

    def submitted(self, job: Job) -> None:
        """A job waits."""
        self.pending[job.job_id] = job
        self._rest[job.job_id] = Rest(self._lives.survival(job))
        self._done_s[job.job_id] = 0.0

    def started(self, job: Job, now_s: float) -> None:
        """A job runs where it was proposed."""
        self.pending.pop(job.job_id, None)
        self.running[job.job_id] = job
        self._pace[job.job_id] = (now_s, 1.0)
        place = self._proposed.pop(job.job_id, None)
        if place is not None:
            self.floor.enter(job, place.gpus)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._done_s[job.job_id] = self.done_s(job, now_s)
        self._pace[job.job_id] = (now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A running job was stopped with its work kept; it waits again."""
        self._done_s[job.job_id] = self.done_s(job, now_s)
        self._pace.pop(job.job_id, None)
        self.running.pop(job.job_id, None)
        self.floor.leave(job.job_id)
        self.pending[job.job_id] = job

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        if job.job_id in self.running and job.deadline_s is not None and job.deadline_s > job.submit_s:
            self._used_share += self.done_s(job, now_s) / (job.deadline_s - job.submit_s)
            self._num_used += 1.0
        self.floor.leave(job.job_id)
        for known in (self.pending, self.running, self._rest, self._done_s, self._pace, self._proposed):
            known.pop(job.job_id, None)

    def rate(self, job_id: str) -> float:
        """Present rate of a running job."""
        return self._pace[job_id][1]

    def done_s(self, job: Job, now_s: float) -> float:
        """Work done of a job, seconds of running alone."""
        since_s, rate = self._pace.get(job.job_id, (now_s, 0.0))
        return self._done_s[job.job_id] + rate * (now_s - since_s)

    def left_s(self, job: Job, now_s: float) -> float:
        """Expected work left of a job, seconds of running alone."""
        return self._rest[job.job_id].mean_s(self.done_s(job, now_s))

    def chance_done(self, job: Job, now_s: float, more_s: float, most_s: float) -> float:
        """Chance that so much more work ends a job, if it takes no more than `most_s`; seconds alone."""
        return self._rest[job.job_id].chance_by(self.done_s(job, now_s), more_s, most_s)

    def usual_share(self) -> float:
        """Work of jobs that have ended, as a mean share of the time from their submit to their deadline."""
        return self._used_share / self._num_used

    def left_quantile_s(self, job: Job, now_s: float, level: float) -> float:
        """Quantile of the work left of a job, seconds of running alone."""
        return self._rest[job.job_id].quantile_s(self.done_s(job, now_s), level)

    def propose(self, places: Sequence[tuple[Job, Place]]) -> Plan:
        """A plan that starts jobs in places; they count as running there once told so."""
        self._proposed = {job.job_id: place for job, place in places}
        return Plan(
            starts=tuple(Start(job, False) for job, _ in places),
            placements=tuple(Placement(job.job_id, place.gpus) for job, place in places),
        )
