"""Forecasts held against the last part of the record they learn from, beside a plain baseline.

What is served is scored: the model is trained anew on what had happened before that part, told the rest as it
happens, and asked as a client would ask.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from models.backtest import Floats, Forecasts, Record, forecasts_at_submit, learn, life_losses, lived_of
from models.demand.steps import StepDemand
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.remaining import Remaining
from models.scores import NINE_LEVELS
from models.training import Training

DAY_S: Final = 86_400.0
HORIZON_S: Final = DAY_S
STEP_S: Final = 3_600.0
LONGEST_S: Final = 7 * DAY_S
"""At most the last week is held out, and at most the last third of the record."""

LEAST_JOBS: Final = 100
"""Jobs, or cells of demand, below which nothing is said."""

MOST_ASKED: Final = 2_000
MOST_INSTANTS: Final = 24

LIVES_BASELINE: Final = "quantiles of the last lives of the same user, name, pool and width"
POOL_BASELINE: Final = "quantiles of the last lives of the same pool and width"
DEMAND_BASELINE: Final = "the same hours of the last seven days"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A score and the baseline's.

    Attributes:
        what: is scored, with its unit.
        model: name.
        baseline: in words.
        pinball: mean pinball loss at nine levels, the less the better.
        baseline_pinball: of the baseline.
        coverage_80: share within the .1 and the .9 quantile; .8 would be right.
        number: outcomes scored.
        from_s, until_s: stretch that was held out.
    """

    what: str
    model: str
    baseline: str
    pinball: float
    baseline_pinball: float
    coverage_80: float
    number: int
    from_s: float
    until_s: float

    @property
    def beats_baseline(self) -> bool:
        """Whether its loss is less."""
        return self.pinball < self.baseline_pinball

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "beats_baseline": self.beats_baseline}


def record_of_training(training: Training) -> Record:
    """What a model learns from, as a record that can be told again from its beginning."""
    rows = [(job, life_s, True) for job, life_s in training.past]
    rows += [(job, age_s, False) for job, age_s in training.censored]
    rows.sort(key=lambda row: (row[0].submit_s, row[0].job_id))
    was_cut_off = np.array([is_past and job.job_id in training.cut_off for job, _, is_past in rows], np.bool_)
    start_s = [_start_s(training, job, life_s, is_past=is_past) for job, life_s, is_past in rows]
    return Record(
        jobs=tuple(job for job, _, _ in rows),
        start_s=np.array(start_s, np.float64),
        lived_s=np.array([life_s for _, life_s, _ in rows], np.float64),
        has_ended=np.array([is_past for _, _, is_past in rows], np.bool_) & ~was_cut_off,
        cut_s=training.now_s,
        was_cut_off=was_cut_off,
    )


def held_out_from_s(record: Record) -> float:
    """Where the part begins that is held out."""
    first_s = record.jobs[0].submit_s if record.jobs else record.cut_s
    return max(record.cut_s - LONGEST_S, first_s + (record.cut_s - first_s) * 2.0 / 3.0)


def score_lives(record: Record, name: str, make: Callable[[], LifetimeForecaster]) -> HeldOut | None:
    """Score forecasts of lives at submit.

    Args:
        record: what is known.
        name: of the model; `learned` is the usual baseline itself and is held against a plainer one.
        make: the model, told nothing.

    Returns:
        Losses are of ln seconds; None where too few jobs were submitted in the part held out.
    """
    from_s = held_out_from_s(record)
    every = max(1, math.ceil(int((record.submit_s() >= from_s).sum()) / MOST_ASKED))
    model = make()
    learn(model, record, from_s)
    made = forecasts_at_submit(model, record, from_s, record.cut_s, every=every)
    if len(made.places) < LEAST_JOBS:
        return None
    plain = POOL_BASELINE if name == "learned" else LIVES_BASELINE
    other = _PoolLives() if name == "learned" else EmpiricalLifetimes()
    learn(other, record, from_s)
    baseline = forecasts_at_submit(other, record, from_s, record.cut_s, every=every)
    lived_s, has_ended = lived_of(record, made)
    quantiles_s = _served(made)
    losses = life_losses(lived_s, has_ended, quantiles_s)
    is_over = has_ended | (lived_s > quantiles_s[:, -1])
    inside = (lived_s >= quantiles_s[:, 0]) & (lived_s <= quantiles_s[:, -1])
    return HeldOut(
        "total lifetime at submit, ln seconds",
        name,
        plain,
        float(losses.mean()),
        float(life_losses(lived_s, has_ended, _served(baseline)).mean()),
        float(inside[is_over].mean()) if is_over.any() else math.nan,
        len(lived_s),
        from_s,
        record.cut_s,
    )


def score_steps(demand: StepDemand, record: Record) -> dict[str, HeldOut]:
    """Score demand an hour at a time for a day ahead, asked of instants spread over the part held out.

    Args:
        demand: told the whole record; it is asked as of each instant and looks at nothing later.
        record: gives the part.

    Returns:
        `peak_gpus` and `arrivals`; neither where the part is too short.
    """
    from_s, last_s = held_out_from_s(record), record.cut_s - HORIZON_S
    if not demand.quotas or last_s < from_s:
        return {}
    instants_s = np.unique(np.floor(np.linspace(from_s, last_s, MOST_INSTANTS) / STEP_S) * STEP_S)
    came: list[Floats] = []
    said: dict[bool, list[Floats]] = {False: [], True: []}
    for at_s in instants_s[instants_s >= from_s].tolist():
        came.append(demand.asked_for(at_s, record.cut_s, horizon_s=HORIZON_S, step_s=STEP_S))
        for is_seasonal, rows in said.items():
            made = demand.forecast(
                at_s, horizon_s=HORIZON_S, step_s=STEP_S, levels=NINE_LEVELS, is_seasonal=is_seasonal
            )
            rows.append(np.array([made.peak_gpus, made.arrivals]))
    if not came:
        return {}
    truth, ours, theirs = np.array(came), np.array(said[False]), np.array(said[True])
    found = {}
    for place, (name, what) in enumerate(_STEP_SCORES.items()):
        y, q = truth[:, place, ..., None], ours[:, place]
        inside = (y[..., 0] >= q[..., 0]) & (y[..., 0] <= q[..., -1])
        found[name] = HeldOut(
            what, "stretches", DEMAND_BASELINE, _pinball(y, q), _pinball(y, theirs[:, place]),
            float(inside.mean()), int(y.size), from_s, record.cut_s,
        )  # fmt: skip
    return found


_STEP_SCORES: Final = {
    "peak_gpus": "peak GPUs of a pool within an hour, GPUs",
    "arrivals": "jobs of a pool that arrive within an hour, jobs",
}


class _PoolLives(EmpiricalLifetimes):
    """Quantiles of the last lives of the pool and width, whoever asks."""

    def observe(self, job: Job, duration_s: float) -> None:
        """Learn from a job that had ended, whoever submitted it."""
        super().observe(Job(job.job_id, job.pool, job.submit_s, job.num_gpus), duration_s)


def _served(made: Forecasts) -> Any:
    """The quantiles that are served, of the curves said."""
    return Remaining(made.survival, np.zeros(len(made.survival))).totals_s(NINE_LEVELS)


def _pinball(came: Any, said: Any) -> float:
    at = np.asarray(NINE_LEVELS)
    off = came - said
    return float(np.maximum(at * off, (at - 1.0) * off).mean())


def _start_s(training: Training, job: Job, life_s: float, *, is_past: bool) -> float:
    known = training.starts.get(job.job_id)
    if known is not None:
        return known
    if is_past:
        return job.submit_s
    return training.now_s - life_s if life_s > 0.0 else math.inf
