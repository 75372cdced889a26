"""Forecasts as clients ask for them, from files or of a live cluster: one computation, the same words."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import pandas as pd

from domain.errors import SettingError
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from models import LIFETIME_MODELS, Training
from models.demand.steps import StepDemand
from models.evaluation.held_out import HeldOut, record_of_training, score_lives, score_steps
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.remaining import Remaining
from simulator.workload import before, cut_off_before, starts_before

LIVES: Final = "hazard"
"""Lifetime model where the policy asks for none."""

NOT_LIVE: Final = "no live job of that id waits or runs"
"""Why there is no forecast of a job that is asked about by its id."""

_MOST_THREADS: Final = 4


@dataclass(frozen=True)
class Foresight:
    """Trained forecasters.

    Attributes:
        name: of the lifetime model, one of `models.LIFETIME_MODELS`.
        lives: the lifetime model.
        demand: what pools ask for.
        training: what they were trained on.
    """

    name: str
    lives: LifetimeForecaster
    demand: StepDemand
    training: Training

    @classmethod
    def trained(cls, name: str, training: Training, unfinished: Sequence[tuple[Job, float]] = ()) -> Self:
        """Train on what is known; `unfinished` are jobs that are told of later, with their ages in seconds.

        The lifetime model is trained once, whatever the training says of doing so again.
        """
        once = replace(training, retrain_every_s=None)
        demand = StepDemand(once.quotas, seed=once.seed)
        demand.fit(once.past, [*once.censored, *unfinished], once.now_s, once.starts, once.cut_off)
        return cls(name, LIFETIME_MODELS[name](once), demand, once)

    def rests_on(self) -> dict[str, Any]:
        """Which model and which history what is said rests on."""
        return {
            "model": self.name,
            "trained_as_of_s": self.training.now_s,
            "jobs_learned_from": len(self.training.past),
            "seed": self.training.seed,
        }

    def lifetimes(
        self,
        jobs: Sequence[Job],
        ages_s: Sequence[float],
        now_s: float,
        *,
        levels: Sequence[float],
        within_s: Sequence[float],
    ) -> list[dict[str, Any]]:
        """Quantiles and chances of jobs, given how long each has run.

        A job that the model was never told of is taken as if it, alone, were submitted now.

        Args:
            jobs: whose.
            ages_s: how long each has run, 0 or more.
            now_s: the instant.
            levels: in (0, 1), ascending.
            within_s: chances to end within so many seconds from now are said.

        Raises:
            SettingError: if the model needs what a job does not have, such as a limit.
        """
        if not jobs:
            return []
        of = Remaining(self._curves(jobs, now_s), ages_s)
        totals, left = of.totals_s(levels), of.left_s(levels)
        chances = of.chances(within_s) if len(within_s) else np.zeros((len(jobs), 0))
        rows = zip(jobs, ages_s, totals.tolist(), left.tolist(), chances.tolist(), strict=True)
        return [
            {
                "job_id": job.job_id,
                "elapsed_s": float(age_s),
                "total_s": [round(one, 3) for one in total],
                "remaining_s": [round(one, 3) for one in rest],
                "chances": [round(one, 6) for one in chance],
            }
            for job, age_s, total, rest, chance in rows
        ]

    def rows(
        self,
        heads: Sequence[Mapping[str, Any]],
        known: Sequence[tuple[Job, float]],
        now_s: float,
        *,
        levels: Sequence[float],
        within_s: Sequence[float],
    ) -> list[dict[str, Any]]:
        """An item for each job asked about; with nothing said where its head has a `why_not`.

        Args:
            heads: `job_id` as it was asked, `pool` and `why_not` of each.
            known: those without a `why_not`, in their order, with how long each has run.
            now_s: the instant.
            levels: as of `lifetimes`.
            within_s: likewise.
        """
        jobs, ages_s = [job for job, _ in known], [age_s for _, age_s in known]
        said = iter(self.lifetimes(jobs, ages_s, now_s, levels=levels, within_s=within_s))
        nothing = {"elapsed_s": None, "total_s": None, "remaining_s": None, "chances": None}
        return [{**(nothing if head["why_not"] else next(said)), **head} for head in heads]

    def steps(
        self,
        now_s: float,
        *,
        pools: Sequence[str] | None,
        horizon_s: float,
        step_s: float,
        levels: Sequence[float],
    ) -> dict[str, Any]:
        """What pools ask for, step by step; see `models.demand.steps.StepForecast`.

        Raises:
            ValueError: if the horizon is no whole number of steps, or a pool is unknown.
        """
        said = self.demand.forecast(now_s, horizon_s=horizon_s, step_s=step_s, levels=levels, pools=pools)
        begins = [k * step_s for k in range(said.peak_gpus.shape[1])]
        return {
            "samples": said.samples,
            "pools": [
                {
                    "pool": pool,
                    "quota_gpus": self.demand.quotas[pool],
                    "steps": [
                        {
                            "begins_s": begin_s,
                            "peak_gpus": said.peak_gpus[p, k].tolist(),
                            "peak_gpus_mean": round(float(said.peak_gpus_mean[p, k]), 6),
                            "arrivals": said.arrivals[p, k].tolist(),
                            "arrivals_mean": round(float(said.arrivals_mean[p, k]), 6),
                        }
                        for k, begin_s in enumerate(begins)
                    ],
                }
                for p, pool in enumerate(said.pools)
            ],
        }

    def _curves(self, jobs: Sequence[Job], now_s: float) -> Any:
        if isinstance(self.lives, HazardLifetimes):
            threads = min(os.cpu_count() or 1, _MOST_THREADS)
            return self.lives.foreseen(jobs, now_s, num_threads=threads)
        return np.array([self.lives.survival(job) for job in jobs])


def of_record(frame: pd.DataFrame, quotas: Mapping[str, int], at_s: float, name: str, seed: int) -> Foresight:
    """Train on what a record of jobs says had happened by an instant.

    Raises:
        SettingError: if there is no such lifetime model.
    """
    if name not in LIFETIME_MODELS:
        raise SettingError(f"there is no lifetime model {name!r}; there are: {', '.join(LIFETIME_MODELS)}")
    past, censored = before(frame, at_s)
    training = Training(
        quotas=dict(sorted(quotas.items())),
        past=past,
        censored=censored,
        now_s=at_s,
        seed=seed,
        starts=starts_before(frame, at_s),
        cut_off=cut_off_before(frame, at_s),
    )
    return Foresight.trained(name, training)


def held_out(name: str, training: Training) -> dict[str, Any]:
    """How the forecasts have done on the last part of what they learn from, beside a plain baseline.

    Returns:
        `lifetime`, `peak_gpus` and `arrivals`: fields of `models.evaluation.held_out.HeldOut`; None where
        there is too little history.
    """
    once = replace(training, retrain_every_s=None)
    record = record_of_training(once)
    empty = replace(once, past=(), censored=(), starts={}, cut_off=frozenset())
    demand = StepDemand(once.quotas, seed=once.seed)
    demand.fit(once.past, once.censored, once.now_s, once.starts, once.cut_off)
    found: dict[str, HeldOut | None] = {"lifetime": None, "peak_gpus": None, "arrivals": None}
    if len(record):
        found["lifetime"] = score_lives(record, name, lambda: LIFETIME_MODELS[name](empty))
        found |= score_steps(demand, record)
    return {what: None if one is None else _finite(one.to_dict()) for what, one in found.items()}


def _finite(said: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in said.items()
    }
