"""Random demand, for ablations: what each pool asked for at some other time."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from domain.forecasts import Burst
from domain.jobs import Job
from domain.observers import Observer
from models.demand.features import ENDED, STARTED, Floats, history_facts
from models.demand.pools import refresh_s
from models.scenarios.random_stretches import RandomStretches

_SCENARIOS: Final = 1
"""One, said with certainty: many random ones would be the distribution itself, which is no bad forecast."""


class RandomDemand(Observer):
    """Draws from what each pool has done so far, whatever the instant: the forecast of somebody who guesses.

    Args:
        quotas: GPUs of each pool.
        seed: of the draws.
    """

    is_clairvoyant: Final = False

    def __init__(self, quotas: Mapping[str, int], *, seed: int = 0) -> None:
        self._quotas = dict(quotas)
        self._seed = seed
        self._begin(0.0, 0.0)

    def fit(
        self, past: Sequence[tuple[Job, float]], censored: Sequence[tuple[Job, float]], now_s: float
    ) -> None:
        """Forget everything and remember a history instead; see `PoolDemand.fit`."""
        facts = history_facts(past, censored, now_s)
        self._begin(facts[0][0] if facts else now_s, now_s)
        for instant_s, kind, job, duration_s in facts:
            if kind == ENDED:
                self.ended(job, instant_s, duration_s)
            else:
                (self.started if kind == STARTED else self.submitted)(job, instant_s)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible. Told twice, it counts once."""
        if job.pool in self._quotas and job.job_id not in self._told:
            self._told.add(job.job_id)
            self._arrivals[job.pool].append(now_s)
            self._gpus[job.pool].append(job.num_gpus)
            self._stretches.arrived(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        if job.job_id in self._told:
            self._stretches.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        if job.job_id in self._told:
            self._stretches.rate_changed(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us and waits again."""
        if job.job_id in self._told:
            self._stretches.stopped(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone."""
        if job.job_id in self._told:
            self._stretches.ended(job, now_s, duration_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn."""
        self.sent_back(job, now_s)

    def new_load_gpus(self, window_s: float, now_s: float) -> dict[str, float]:
        """GPUs that each pool asked for in a window of this length that began at some time before.

        Each instant of the record is as likely as any other. A draw stands for `refresh_s` of the clock; it
        is the whole quota while the record is no longer than the window.
        """
        slot = math.floor(now_s / refresh_s(window_s))
        at_s = slot * refresh_s(window_s)
        span_s = at_s - window_s - self._since_s
        if span_s <= 0.0:
            return {pool: float(quota) for pool, quota in self._quotas.items()}
        rng = np.random.default_rng([self._seed, slot % 2**32, round(window_s)])
        begins_s = self._since_s + span_s * rng.random(len(self._quotas))
        return {
            pool: self._load(pool, float(begin_s), float(begin_s) + window_s)
            for pool, begin_s in zip(self._quotas, begins_s, strict=True)
        }

    def peaks(self, now_s: float) -> Floats:
        """One scenario of the GPUs that jobs arriving after now will hold; see `PoolDemand.peaks`."""
        return self._stretches.draw(now_s)[0]

    def arrivals(self, now_s: float) -> Floats:
        """Jobs that arrive in each cell in the scenario of `peaks`; the same shape, read-only."""
        return self._stretches.draw(now_s)[1]

    def fresh(self, now_s: float) -> tuple[Floats, Floats]:
        """Peaks and arrivals of another past stretch; the same shapes."""
        return self._stretches.fresh(now_s)

    def bursts(self, now_s: float) -> tuple[Burst, ...]:  # noqa: ARG002
        """None: it knows of nothing that happens."""
        return ()

    def _begin(self, since_s: float, fitted_s: float) -> None:
        self._since_s = since_s
        self._told: set[str] = set()
        self._arrivals: dict[str, list[float]] = {pool: [] for pool in self._quotas}
        self._gpus: dict[str, list[int]] = {pool: [] for pool in self._quotas}
        self._stretches = RandomStretches(
            self._quotas, self._seed, _SCENARIOS, since_s=since_s, begin_s=fitted_s
        )

    def _load(self, pool: str, from_s: float, until_s: float) -> float:
        arrivals = self._arrivals[pool]
        first = bisect_right(arrivals, from_s)
        return float(sum(self._gpus[pool][first : bisect_right(arrivals, until_s, first)]))
