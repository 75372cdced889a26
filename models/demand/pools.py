"""Demand of the pools: new load per window after SIA, and joint scenarios of what will be held."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from domain.forecasts import Burst
from domain.jobs import Job
from domain.observers import Observer
from models.demand.arrivals import ArrivalForecaster
from models.demand.calibrated import LEVELS
from models.demand.facts import DemandFacts, LearningRows
from models.demand.features import (
    ENDED,
    STARTED,
    WINDOWS_S,
    Floats,
    between_anchors,
    check_windows,
    history_facts,
)
from models.demand.quantiles import WindowForecaster, WindowQuantiles
from models.scenarios import scenario_model

_REFRESH_S: Final = ((300.0, 60.0), (3600.0, 300.0), (43_200.0, 1800.0))


def refresh_s(window_s: float) -> float:
    """How long a forecast of new load stands, for a window."""
    return float(round(between_anchors(_REFRESH_S, window_s)))


class PoolDemand(Observer):
    """Forecasts of what the pools will ask for, learned from what it has been told and nothing else.

    Jobs of pools without a quota are left out. While there is too little to learn from, the answer is the
    safe one: every pool wants its whole quota.

    Args:
        quotas: GPUs of each pool.
        seed: of the boosters and the scenarios.
        retrain_every_s: WillJobsArrive is learned anew when asked so long after the last time; None: never.
        num_scenarios: how many scenarios `peaks` draws.
        scenarios: how they are drawn, one of `models.scenarios.SCENARIO_MODELS`.
        count_quiet: see `PoolFacts.load_estimate`.
        windows_s: lengths of the windows that will be asked about, seconds.
        has_quantiles: whether `quantiles` is learned and corrected on the way; it costs time.

    Attributes:
        quotas: GPUs of each pool.
        pools: names in the order of `quotas`, which is that of the axes of `peaks`.
        windows_s: in ascending order.
    """

    is_clairvoyant: Final = False

    def __init__(  # noqa: PLR0913 - each is a choice of its own, and all but one have a default
        self,
        quotas: Mapping[str, int],
        *,
        seed: int = 0,
        retrain_every_s: float | None = None,
        num_scenarios: int = 100,
        scenarios: str = "bootstrap",
        count_quiet: bool = False,
        windows_s: Sequence[float] = WINDOWS_S,
        has_quantiles: bool = True,
    ) -> None:
        self.pools = tuple(quotas)
        self.windows_s = check_windows(windows_s)
        self._has_quantiles = has_quantiles
        self.quotas = dict(quotas)
        self._seed = seed
        self._retrain_every_s = retrain_every_s
        self._num_scenarios = num_scenarios
        self._make_stretches = scenario_model(scenarios)
        self._count_quiet = count_quiet
        self._begin(0.0, None)
        self._now_s = -math.inf

    def fit(
        self, past: Sequence[tuple[Job, float]], censored: Sequence[tuple[Job, float]], now_s: float
    ) -> None:
        """Forget everything and learn from a history.

        The record has no starts, so each job of the past is taken to have run from its submit on. As
        nothing need be told of the others (a replay begins on an empty cluster), their ages stay what they
        are and they count as running until their expected ends.

        Args:
            past: jobs that had ended by `now_s`, each with its `duration_s`.
            censored: jobs that had not, each with its age in seconds, 0 where it had not started.
            now_s: instant up to which the two hold every arrival.

        Raises:
            ValueError: if a job was submitted, or one of the past had ended, after `now_s`.
        """
        facts = history_facts(past, censored, now_s)
        self._begin(facts[0][0] if facts else now_s, now_s)
        for instant_s, kind, job, duration_s in facts:
            if kind == ENDED:
                self.ended(job, instant_s, duration_s)
            else:
                (self.started if kind == STARTED else self.submitted)(job, instant_s)
        self._pass_time(now_s)
        for job, _ in censored:
            if job.pool in self.quotas:
                self._stretches.stopped(job, now_s)
        self._facts.leave_untold(now_s)
        self._learn(now_s)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible. Told twice, it counts once."""
        self._hear(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        if self._hear(job, now_s):
            self._facts.started(job, now_s)
            self._stretches.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate: it is as old as the work it has done."""
        if self._hear(job, now_s):
            self._facts.rate_changed(job, now_s, rate)
            self._stretches.rate_changed(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us and waits again."""
        if self._hear(job, now_s):
            self._facts.stopped(job, now_s)
            self._stretches.stopped(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone. Told twice, it counts once."""
        if self._hear(job, now_s):
            self._has_ended[job.job_id] = True
            self._facts.ended(job, now_s, duration_s)
            self._stretches.ended(job, now_s, duration_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn: it has arrived, and counts up to the age it reached."""
        if self._hear(job, now_s):
            self._has_ended[job.job_id] = True
            self._facts.withdrawn(job, now_s)
            self._stretches.stopped(job, now_s)

    def will_jobs_arrive(self, window_s: float, now_s: float) -> dict[str, bool]:
        """SIA's WillJobsArrive: whether a job will arrive in (now, now + window], for each pool."""
        self._look(window_s, now_s)
        arrivals = self._arrivals[window_s]
        arrivals.catch_up(self._rows.over(window_s, arrivals.settled_s))
        answers = arrivals.will_arrive(self._facts.features(window_s, now_s)).tolist()
        return dict(zip(self.pools, answers, strict=True))

    def new_load_gpus(self, window_s: float, now_s: float) -> dict[str, float]:
        """SIA's TotalNewLoad: GPUs that jobs arriving in (now, now + window] will ask for, for each pool.

        `PoolFacts.load_estimate` where WillJobsArrive says yes, else 0. A forecast stands for `refresh_s`,
        in slots of the clock: what is answered first in a slot is answered throughout it.

        Raises:
            ValueError: if `window_s` is not one of `windows_s`, or time runs backwards.
        """
        self._look(window_s, now_s)
        slot = math.floor(now_s / refresh_s(window_s))
        standing = self._standing.get(window_s)
        if standing is None or standing[0] != slot:
            standing = self._standing[window_s] = (slot, self._new_load(window_s, now_s))
        return dict(standing[1])

    def quantiles(self, window_s: float, now_s: float) -> WindowQuantiles:
        """What jobs arriving in (now, now + window] will ask for, and what of it they will still hold.

        Raises:
            ValueError: if `window_s` is not one of `windows_s`, time runs backwards, or the forecaster was
                made without quantiles.
        """
        if not self._has_quantiles:
            raise ValueError("made without quantiles: has_quantiles is False")
        self._look(window_s, now_s)
        forecaster = self._forecasters[window_s]
        forecaster.catch_up(self._rows.over(window_s, forecaster.settled_s), now_s)
        said = forecaster.quantiles(self._facts.features(window_s, now_s))
        return WindowQuantiles(LEVELS, said["requested"], said["held"])

    def peaks(self, now_s: float) -> Floats:
        """Scenarios of the GPUs that jobs arriving after now will hold, each started at once.

        Returns:
            peak inside each cell of `default_grid()`, not capped by the quota; shape (scenarios, pools,
            cells), read-only, the same for a slot of the clock. What is scenario i in one pool is scenario i
            in all, see `models.scenarios`.
        """
        self._pass_time(now_s)
        return self._stretches.draw(now_s)[0]

    def arrivals(self, now_s: float) -> Floats:
        """Jobs that arrive in each cell in the scenarios of `peaks`; the same shape, read-only."""
        self._pass_time(now_s)
        return self._stretches.draw(now_s)[1]

    def fresh(self, now_s: float) -> tuple[Floats, Floats]:
        """Peaks and arrivals drawn apart from `peaks` and `arrivals`; the same shapes."""
        self._pass_time(now_s)
        return self._stretches.fresh(now_s)

    def bursts(self, now_s: float) -> tuple[Burst, ...]:
        """Bursts of the pools and how often they happen; see `models.scenarios.bursts`."""
        self._pass_time(now_s)
        return self._stretches.bursts(now_s)

    def _begin(self, since_s: float, fitted_s: float | None) -> None:
        """Start an empty record; without `fit` the first fact or question does so."""
        self._now_s = since_s
        self._facts = DemandFacts(self.quotas, since_s, self.windows_s)
        self._learned_s = since_s if fitted_s is None else fitted_s
        self._stretches = self._make_stretches(
            self.quotas, self._seed, self._num_scenarios, since_s=since_s, begin_s=self._learned_s
        )
        self._has_ended: dict[str, bool] = {}
        self._rows = LearningRows(self.windows_s)
        self._keeps_rows = fitted_s is not None or self._retrain_every_s is not None
        self._arrivals = {window_s: ArrivalForecaster(window_s, self._seed) for window_s in self.windows_s}
        quotas = np.array(list(self.quotas.values()), np.float64)
        self._forecasters = {
            window_s: WindowForecaster(window_s, quotas, self._seed) for window_s in self.windows_s
        }
        self._standing: dict[float, tuple[int, dict[str, float]]] = {}

    def _hear(self, job: Job, now_s: float) -> bool:
        """Take note that a job exists; whether there is anything more to note of it."""
        if job.pool not in self.quotas:
            return False
        self._pass_time(now_s)
        if job.job_id not in self._has_ended:
            self._has_ended[job.job_id] = False
            self._facts.arrived(job, now_s)
            self._stretches.arrived(job, now_s)
        return not self._has_ended[job.job_id]

    def _pass_time(self, now_s: float) -> None:
        """Keep a row to learn from for each tick before `now_s`: by then all facts at the tick are in."""
        if self._now_s == -math.inf:
            self._begin(now_s, None)
        if now_s < self._now_s:
            raise ValueError(f"time runs backwards: told of {self._now_s}, now {now_s}")
        if self._keeps_rows:
            self._rows.keep(self._facts, self._now_s, now_s)
        self._now_s = now_s

    def _look(self, window_s: float, now_s: float) -> None:
        """Check a question, and learn anew where that is due."""
        if window_s not in self.windows_s:
            raise ValueError(f"window_s is {window_s}, must be one of {self.windows_s}")
        self._pass_time(now_s)
        if self._retrain_every_s is not None and now_s >= self._learned_s + self._retrain_every_s:
            self._learn(now_s)

    def _learn(self, now_s: float) -> None:
        for window_s in self.windows_s:
            rows = self._rows.over(window_s)
            self._arrivals[window_s].learn(rows)
            if self._has_quantiles:
                self._forecasters[window_s].learn(rows, now_s)
        self._learned_s = now_s
        self._standing.clear()

    def _new_load(self, window_s: float, now_s: float) -> dict[str, float]:
        if not self._arrivals[window_s].is_learned:
            return {pool: float(quota) for pool, quota in self.quotas.items()}
        will = self.will_jobs_arrive(window_s, now_s)
        return {
            pool: will[pool] * float(facts.load_estimate(window_s, now_s, count_quiet=self._count_quiet))
            for pool, facts in zip(self.pools, self._facts.pools, strict=True)
        }
