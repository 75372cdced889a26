"""Demand of the pools: new load per window after SIA, and joint scenarios of what will be held."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import lightgbm
import numpy as np

from domain.jobs import Job
from domain.observers import Observer
from models.demand.features import (
    ENDED,
    ROW_EVERY_S,
    STARTED,
    WINDOWS_S,
    Bools,
    Floats,
    LearningRows,
    PoolFacts,
    feature_rows,
    history_facts,
)
from models.scenarios.stretches import PastStretches

RECALLS: Final = {300.0: 0.85, 3600.0: 0.80, 43_200.0: 0.95}
"""Recall that the threshold of each window is set for; a miss slows jobs down, a false alarm holds GPUs."""

REFRESH_S: Final = {300.0: 60.0, 3600.0: 300.0, 43_200.0: 1800.0}
"""How long a forecast of each window stands."""

_HELD_OUT_FROM: Final = (0.4, 0.55, 0.7, 0.85)
_LEAST_ROWS: Final = 200
_TREES: Final = 60
_PARAMETERS: Final = {
    "objective": "binary",
    "num_leaves": 5,
    "learning_rate": 0.05,
    "min_data_in_leaf": 20,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


class ArrivalModel(NamedTuple):
    """WillJobsArrive for one window: a booster and the raw score from which on the answer is yes."""

    booster: Any
    threshold: float

    def will_arrive(self, rows: Floats) -> Bools:
        """Answer for each row of features, shape (pools,)."""
        return _scores(self.booster, rows) >= self.threshold


def fit_arrival_model(
    rows: Floats, labels: Bools, *, recall: float, gap: int, seed: int
) -> ArrivalModel | None:
    """Fit on all rows, with a threshold that reaches `recall` on each of four later parts of them.

    Each part is held out from a model of what lies before it (forward chaining, without the `gap` instants
    whose windows reach into the part). The lowest threshold is taken, that of the final model on its own
    rows included: arrivals drift, and one threshold for all parts fell short of its recall a week later.

    Args:
        rows: features, in the order of time, shape (instants, pools, features).
        labels: whether a job arrived within the window, shape (instants, pools).
        recall: share of the positive rows that must be found.
        gap: instants within one window.
        seed: of the boosters.

    Returns:
        None where there is too little to learn from: few rows, or one answer only.
    """
    cuts = [int(len(rows) * share) for share in (*_HELD_OUT_FROM, 1.0)]
    thresholds = []
    for begin, end in pairwise(cuts):
        known = labels[: max(0, begin - gap)]
        if labels[begin:end].any() and known.size >= _LEAST_ROWS and known.any() and not known.all():
            earlier = _boost(rows[: len(known)], known, seed)
            thresholds.append(_threshold(earlier, rows[begin:end], labels[begin:end], recall))
    if not thresholds:
        return None
    booster = _boost(rows, labels, seed)
    return ArrivalModel(booster, min(*thresholds, _threshold(booster, rows, labels, recall), 0.0))


def _threshold(booster: Any, rows: Floats, labels: Bools, recall: float) -> float:
    """The highest score that a share `recall` of the positive rows reaches."""
    scores = np.sort(_scores(booster, rows[labels]))
    return float(scores[math.floor((1 - recall) * len(scores))])


def _boost(rows: Floats, labels: Bools, seed: int) -> Any:
    data = lightgbm.Dataset(rows.reshape(-1, rows.shape[-1]), labels.ravel().astype(np.float64))
    return lightgbm.train(_PARAMETERS | {"seed": seed}, data, num_boost_round=_TREES)


def _scores(booster: Any, rows: Floats) -> Floats:
    """Log-odds. A booster does not keep its number of threads, and starting them costs more than trees."""
    scores: Floats = booster.predict(rows, raw_score=True, num_threads=1)
    return scores


class PoolDemand(Observer):
    """Forecasts of what the pools will ask for, learned from what it has been told and nothing else.

    Jobs of pools without a quota are left out. While there is too little to learn from, the answer is the
    safe one: every pool wants its whole quota.

    Args:
        quotas: GPUs of each pool.
        seed: of the boosters and the scenarios.
        retrain_every_s: WillJobsArrive is learned anew when asked so long after the last time; None: never.
        num_scenarios: how many scenarios `peaks` draws.
        count_quiet: see `PoolFacts.load_estimate`.

    Attributes:
        pools: names in the order of `quotas`, which is that of the axes of `peaks`.
    """

    is_clairvoyant: Final = False

    def __init__(
        self,
        quotas: Mapping[str, int],
        *,
        seed: int = 0,
        retrain_every_s: float | None = None,
        num_scenarios: int = 100,
        count_quiet: bool = False,
    ) -> None:
        self.pools = tuple(quotas)
        self._quotas = dict(quotas)
        self._seed = seed
        self._retrain_every_s = retrain_every_s
        self._num_scenarios = num_scenarios
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
            if job.pool in self._facts:
                self._stretches.stopped(job, now_s)
        for pool in self._facts.values():
            pool.leave_untold()
        self._learn(now_s)
        self._keeps_rows = self._retrain_every_s is not None

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible. Told twice, it counts once."""
        self._hear(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        if self._hear(job, now_s):
            self._facts[job.pool].started(job.job_id, now_s)
            self._stretches.started(job, now_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us and waits again."""
        if self._hear(job, now_s):
            self._facts[job.pool].stopped(job.job_id, now_s)
            self._stretches.stopped(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone. Told twice, it counts once."""
        if self._hear(job, now_s):
            self._has_ended[job.job_id] = True
            self._facts[job.pool].ended(job.job_id, now_s, duration_s)
            self._stretches.ended(job, now_s, duration_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn: it has arrived, and counts up to the age it reached."""
        if self._hear(job, now_s):
            self._has_ended[job.job_id] = True
            self._facts[job.pool].stopped(job.job_id, now_s)
            self._stretches.stopped(job, now_s)

    def will_jobs_arrive(self, window_s: float, now_s: float) -> dict[str, bool]:
        """SIA's WillJobsArrive: whether a job will arrive in (now, now + window], for each pool."""
        self._look(window_s, now_s)
        model = self._models.get(window_s)
        if model is None:
            return dict.fromkeys(self.pools, True)
        answers = model.will_arrive(feature_rows(self._in_order, window_s, now_s)).tolist()
        return dict(zip(self.pools, answers, strict=True))

    def new_load_gpus(self, window_s: float, now_s: float) -> dict[str, float]:
        """SIA's TotalNewLoad: GPUs that jobs arriving in (now, now + window] will ask for, for each pool.

        `PoolFacts.load_estimate` where WillJobsArrive says yes, else 0. A forecast stands for `REFRESH_S`,
        in slots of the clock: what is answered first in a slot is answered throughout it.

        Raises:
            ValueError: if `window_s` is not one of `WINDOWS_S`, or time runs backwards.
        """
        self._look(window_s, now_s)
        slot = math.floor(now_s / REFRESH_S[window_s])
        standing = self._standing.get(window_s)
        if standing is None or standing[0] != slot:
            standing = self._standing[window_s] = (slot, self._new_load(window_s, now_s))
        return dict(standing[1])

    def peaks(self, now_s: float) -> Floats:
        """Scenarios of the GPUs that jobs arriving after now will hold, each started at once.

        Returns:
            peak inside each cell of `default_grid()`, not capped by the quota; shape (scenarios, pools,
            cells), read-only, the same for an hour. Scenario i is one past stretch, see `PastStretches`.
        """
        self._pass_time(now_s)
        return self._stretches.draw(now_s)[0]

    def arrivals(self, now_s: float) -> Floats:
        """Jobs that arrive in each cell in the scenarios of `peaks`; the same shape, read-only."""
        self._pass_time(now_s)
        return self._stretches.draw(now_s)[1]

    def _begin(self, since_s: float, fitted_s: float | None) -> None:
        """Start an empty record; without `fit` the first fact or question does so."""
        self._now_s = since_s
        self._facts = {pool: PoolFacts(quota, since_s) for pool, quota in self._quotas.items()}
        self._in_order = list(self._facts.values())
        self._learned_s = since_s if fitted_s is None else fitted_s
        self._stretches = PastStretches(
            self._quotas, self._seed, self._num_scenarios, since_s=since_s, begin_s=self._learned_s
        )
        self._has_ended: dict[str, bool] = {}
        self._rows = LearningRows()
        self._keeps_rows = fitted_s is not None or self._retrain_every_s is not None
        self._models: dict[float, ArrivalModel | None] = {}
        self._standing: dict[float, tuple[int, dict[str, float]]] = {}

    def _hear(self, job: Job, now_s: float) -> bool:
        """Take note that a job exists; whether there is anything more to note of it."""
        if job.pool not in self._facts:
            return False
        self._pass_time(now_s)
        if job.job_id not in self._has_ended:
            self._has_ended[job.job_id] = False
            self._facts[job.pool].arrived(job.num_gpus, now_s)
            self._stretches.arrived(job, now_s)
        return not self._has_ended[job.job_id]

    def _pass_time(self, now_s: float) -> None:
        """Keep a row to learn from for each tick before `now_s`: by then all facts at the tick are in."""
        if self._now_s == -math.inf:
            self._begin(now_s, None)
        if now_s < self._now_s:
            raise ValueError(f"time runs backwards: told of {self._now_s}, now {now_s}")
        if self._keeps_rows:
            self._rows.keep(self._in_order, self._now_s, now_s)
        self._now_s = now_s

    def _look(self, window_s: float, now_s: float) -> None:
        """Check a question, and learn anew where that is due."""
        if window_s not in WINDOWS_S:
            raise ValueError(f"window_s is {window_s}, must be one of {WINDOWS_S}")
        self._pass_time(now_s)
        if self._retrain_every_s is not None and now_s >= self._learned_s + self._retrain_every_s:
            self._learn(now_s)

    def _learn(self, now_s: float) -> None:
        for window_s, recall in RECALLS.items():
            rows, labels = self._rows.labelled(self._in_order, window_s, now_s)
            gap = math.ceil(window_s / ROW_EVERY_S[window_s])
            self._models[window_s] = fit_arrival_model(rows, labels, recall=recall, gap=gap, seed=self._seed)
        self._learned_s = now_s
        self._standing.clear()

    def _new_load(self, window_s: float, now_s: float) -> dict[str, float]:
        if self._models.get(window_s) is None:
            return {pool: float(quota) for pool, quota in self._quotas.items()}
        will = self.will_jobs_arrive(window_s, now_s)
        return {
            pool: will[pool] * float(facts.load_estimate(window_s, now_s, count_quiet=self._count_quiet))
            for pool, facts in self._facts.items()
        }
