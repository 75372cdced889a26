"""Lifetimes as discrete-time hazards: a whole distribution per job, learned with what still runs."""

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from operator import neg
from typing import Final

import numpy as np

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.observers import Observer
from models.lifetime.boosted import HazardModel, train, untrained_survival
from models.lifetime.bulk import survival_at
from models.lifetime.features import FeatureHistory
from models.lifetime.lives import Floats, expand, running_lives, sweep
from models.lifetime.recalibration import Recalibration
from models.lifetime.sampling import Life, LifeSample
from models.lifetime.shape import time_within_s

LEAST_ENDED: Final = 500
"""Ended lives below which nothing is trained: the running life tables speak by themselves."""

MOST_SWEPT: Final = 500_000
"""Ended lives of a record that the features are built from, the latest: bounds the time of `fit`."""


class HazardLifetimes(Observer):
    """Survival curves from running life tables per key, corrected by gradient-boosted hazards.

    A forecast is made when it is first asked for, from the job's features as of its submit, and kept until
    the job ends or the model is trained anew. Causal as long as it is told facts when they happen. Ages are
    by the clock: a job that shares its GPU is taken to have done all the work of its age.

    Args:
        seed: of the training.
        retrain_every_s: the model is trained anew when it is asked at or after each multiple of this since
            `fit`; None: trained once. The features go on following what ends in either case.
        window_s: training looks back so far; None: at everything kept.
        half_life_s: age at which what happened counts half in training; None: all counts the same.

    Raises:
        ValueError: if an interval is not positive.
    """

    is_clairvoyant: Final = False

    def __init__(
        self,
        *,
        seed: int = 0,
        retrain_every_s: float | None = None,
        window_s: float | None = None,
        half_life_s: float | None = None,
    ) -> None:
        for interval_s in (retrain_every_s, window_s, half_life_s):
            if interval_s is not None and not interval_s > 0:
                raise ValueError(f"an interval is {interval_s}, must be positive")
        self._seed = seed
        self._retrain_every_s = retrain_every_s
        self._window_s = window_s
        self._half_life_s = half_life_s
        self._history = FeatureHistory()
        self._sample = LifeSample()
        self._model: HazardModel | None = None
        self._recalibration = Recalibration()
        self._raw: dict[str, Floats] = {}
        self._judged: dict[str, Floats] = {}
        self._forecasts: dict[str, tuple[float, ...]] = {}
        self._now_s = -math.inf
        self._retrain_at_s = math.inf
        self._lives_from_s = -math.inf

    def fit(
        self,
        past: Sequence[tuple[Job, float]],
        censored: Sequence[tuple[Job, float]],
        now_s: float,
        starts: Mapping[str, float] | None = None,
        cut_off: Collection[str] = frozenset(),
    ) -> None:
        """Forget everything and learn from a record.

        Args:
            past: (job, duration_s) of jobs that had ended by `now_s`, in the order of ending; of a long
                record the last `MOST_SWEPT`.
            censored: (job, age_s) of jobs that had not. They count up to that age; later only if `started`
                or `ended` is told of them.
            now_s: instant of training.
            starts: instant at which each job began to run, by id. Where it does not say, one that has ended
                counts as started at submit, and one that has not as started at its age before `now_s`.
            cut_off: ids of those of `past` that would have run longer: they count up to their duration.
        """
        kept = past[-MOST_SWEPT:]
        self._now_s = now_s
        self._history, self._sample = sweep(kept, censored, now_s, starts, cut_off)
        self._model = None
        self._recalibration = Recalibration()
        first = self._sample.first_seen_s
        self._lives_from_s = first if len(kept) < len(past) else -math.inf
        self._train()
        if self._retrain_every_s is None:
            self._sample.clear()
        else:
            self._retrain_at_s = now_s + self._retrain_every_s

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible: its features are those of now."""
        self._now_s = max(self._now_s, now_s)
        self._history.submitted(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        self._now_s = max(self._now_s, now_s)
        self._history.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate: it is as old as the work it has done."""
        self._now_s = max(self._now_s, now_s)
        self._history.rate_changed(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us: it has lived at least that long, and starts from zero."""
        self._now_s = max(self._now_s, now_s)
        self._history.stopped(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone."""
        self._now_s = max(self._now_s, now_s)
        known = self._history.ended(job, now_s, duration_s)
        self._forecasts.pop(job.job_id, None)
        raw, alive = self._raw.pop(job.job_id, None), self._judged.pop(job.job_id, None)
        if raw is not None and alive is not None:
            self._recalibration.add(1.0 - float(survival_at(raw[None], [duration_s])[0]), alive)
            if self._recalibration.is_due:
                self._recalibration.refresh(self._shares_lived())
        if self._retrain_every_s is not None:
            self._sample.add(Life(job, known.features, duration_s, True, now_s))

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn: it has lived at least as long as it ran, and nothing more is known of it."""
        self._now_s = max(self._now_s, now_s)
        known = self._history.submitted(job, now_s)
        self._history.withdrawn(job, now_s)
        if self._retrain_every_s is not None and known.reached_s > 0.0:
            self._sample.add(Life(job, known.features, known.reached_s, False, known.stopped_s))
        self._forecasts.pop(job.job_id, None)
        self._raw.pop(job.job_id, None)
        self._judged.pop(job.job_id, None)

    def survival(self, job: Job) -> tuple[float, ...]:
        """P(duration > edge) for each edge of `LIFE_EDGES_S`; in [0, 1], non-increasing."""
        self._retrain_if_due()
        forecast = self._forecasts.get(job.job_id)
        if forecast is None:
            features = self._history.submitted(job, max(self._now_s, job.submit_s)).features
            model = self._model
            raw = untrained_survival(features) if model is None else model.survival(features)
            self._raw[job.job_id] = raw
            self._judged[job.job_id] = self._recalibration.alive
            forecast = tuple(self._recalibration.apply(raw).tolist())
            self._forecasts[job.job_id] = forecast
        return forecast

    def foreseen(self, jobs: Sequence[Job], now_s: float, *, num_threads: int = 1) -> Floats:
        """What `survival` would say of jobs if each of them alone were submitted now, shape (jobs, edges).

        None is: nothing changes but that time passes. Of a job that has been told of it is what was forecast.

        Args:
            jobs: any.
            now_s: the instant; at least the last one told.
            num_threads: for the trees; does not change what is said.
        """
        self._now_s = max(self._now_s, now_s)
        self._retrain_if_due()
        said = np.empty((len(jobs), len(LIFE_EDGES_S)))
        unknown = [place for place, job in enumerate(jobs) if job.job_id not in self._history.open_jobs]
        for place in set(range(len(jobs))).difference(unknown):
            said[place] = self.survival(jobs[place])
        features = [self._history.foreseen(jobs[place], self._now_s) for place in unknown]
        if features:
            model = self._model
            if model is None:
                raw = np.stack([untrained_survival(one) for one in features])
            else:
                raw = model.survival_of_all(features, num_threads=num_threads)
            said[unknown] = self._recalibration.apply(raw)
        return said

    def table_survival(self, job: Job) -> tuple[float, ...]:
        """The same by the running tables alone, without the trained part and its correction."""
        features = self._history.submitted(job, max(self._now_s, job.submit_s)).features
        return tuple(untrained_survival(features).tolist())

    def quantile_s(self, job: Job, level: float) -> float:
        """Forecast of the job's `duration_s` at `level` in (0, 1), seconds.

        At the edges the survival curve holds. Between them lives lie where the recent lives of the most
        alike jobs did (`models.lifetime.shape`); where none lies in the bin ln S is linear in ln t, up to
        the first edge in t. Beyond the last edge lives are not told apart, and the
        last edge is said.

        Raises:
            ValueError: if the level leaves (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}, must lie in (0, 1)")
        curve = self.survival(job)
        known = self._history.open_jobs[job.job_id]
        return quantile_of(curve, level, known.features.atoms.tolist())

    def model_text(self) -> str:
        """The trees as LightGBM writes them; empty while nothing is trained."""
        return "" if self._model is None else self._model.text()

    def _shares_lived(self) -> Floats:
        """F(age) of the jobs that run and have been forecast, by the forecast before its correction."""
        running = [
            (self._raw[job_id], known.age_s(self._now_s))
            for job_id, known in self._history.open_jobs.items()
            if job_id in self._raw and known.age_s(self._now_s) > 0.0
        ]
        if not running:
            return np.zeros(0)
        curves, ages_s = zip(*running, strict=True)
        return 1.0 - survival_at(curves, ages_s)

    def _retrain_if_due(self) -> None:
        if self._now_s >= self._retrain_at_s and self._retrain_every_s is not None:
            self._train()
            missed = (self._now_s - self._retrain_at_s) // self._retrain_every_s
            self._retrain_at_s += (missed + 1.0) * self._retrain_every_s

    def _train(self) -> None:
        """Learn from the lives kept and from what runs; too few leave the model as it is."""
        self._forecasts.clear()
        self._raw.clear()
        self._judged.clear()
        if sum(life.has_ended for life in self._sample.lives) < LEAST_ENDED:
            return
        since_s = self._lives_from_s
        if self._window_s is not None:
            since_s = max(since_s, self._now_s - self._window_s)
            self._sample.forget_before(since_s, least=LEAST_ENDED)
        running = self._sample.among(running_lives(self._history, self._now_s))
        lives = [*self._sample.lives, *running]
        rows = expand(lives, self._now_s, since_s=since_s, half_life_s=self._half_life_s)
        if len(rows.life):
            self._model = train(lives, rows, seed=self._seed)


def quantile_of(survival: Sequence[float], level: float, atoms: Sequence[float] = ()) -> float:
    """Time by which a share `level` of lives has ended, seconds; see `HazardLifetimes.quantile_s`.

    Args:
        survival: S at the edges.
        level: in (0, 1).
        atoms: ln of recent lives of like jobs.
    """
    alive = 1.0 - level
    place = bisect_left(survival, -alive, key=neg)
    if place == len(survival):
        return float(LIFE_EDGES_S[-1])
    above = survival[place - 1] if place else 1.0
    below = survival[place]
    ln_ratio = math.log(max(below / above, math.ulp(0.0)))
    return time_within_s(place, (above - alive) / (above - below), ln_ratio, atoms)
