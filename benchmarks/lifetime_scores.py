"""How good lifetime forecasts are: jobs are forecast at their submit by models told the record as it happens.

python -m benchmarks.lifetime_scores --jobs ../shared/bench/philly-pools/jobs.csv

Nothing that happens after --cut is looked at: jobs submitted later are left out, and a job that runs then
is known to have lived at least so long. Trained on what ended before --train-until, scored on the jobs
submitted from then until --valid-until. A share of lives beyond t is taken over the jobs submitted at
least t before the cut, of which it is known; elsewhere a job that runs at the cut counts with its age.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from data.history import to_jobs
from data.readers import READERS
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.observers import Observer
from models.lifetime.empirical import LEAST_JOBS, EmpiricalLifetimes
from models.lifetime.hazard import HazardLifetimes

Floats = npt.NDArray[np.float64]
Score = dict[str, float]
Lived = Sequence[tuple[Job, float]]

DAY_S = 86_400.0
LEVELS = np.arange(1, 10) / 10
HOURS = (1.0, 4.0, 12.0, 48.0)
SAMPLE_JOBS = 4_000
EDGES_S = np.array(LIFE_EDGES_S)


class Record(NamedTuple):
    """Jobs submitted before the cut, how long each has lived by then, and whether it has ended."""

    jobs: list[Job]
    lived_s: Floats
    has_ended: npt.NDArray[np.bool_]
    cut_s: float


class Forecasts(NamedTuple):
    """Of the scored jobs: places in the record, S at the edges, quantiles at the levels, and what it took."""

    places: npt.NDArray[np.intp]
    survival: Floats
    quantiles_s: Floats
    fit_s: float
    forecast_us: float


class PoolWidthTable(Observer):
    """Empirical lives per pool and width, of what had ended when training began and nothing later."""

    def __init__(self) -> None:
        self._lives: dict[object, list[float]] = {}

    def observe(self, job: Job, duration_s: float) -> None:
        for key in ((job.pool, job.num_gpus), None):
            self._lives.setdefault(key, []).append(duration_s)

    def quantile_s(self, job: Job, level: float) -> float:
        return float(np.quantile(self._of(job), level))

    def survival(self, job: Job) -> tuple[float, ...]:
        lives = np.sort(self._of(job))
        return tuple((1.0 - np.searchsorted(lives, EDGES_S, side="right") / len(lives)).tolist())

    def _of(self, job: Job) -> list[float]:
        lives = self._lives.get((job.pool, job.num_gpus), [])
        return lives if len(lives) >= LEAST_JOBS else self._lives[None]


Model = PoolWidthTable | EmpiricalLifetimes | HazardLifetimes


def load(path: Path, cut_s: float) -> Record:
    frame = READERS["csv"](path, None).frame
    jobs, outcomes = to_jobs(frame[frame["submit_s"] < cut_s])
    durations_s = np.array([outcomes[job.job_id].duration_s for job in jobs])
    until_cut_s = cut_s - np.array([job.submit_s for job in jobs])
    return Record(jobs, np.minimum(durations_s, until_cut_s), durations_s <= until_cut_s, cut_s)


def facts(record: Record) -> Iterator[tuple[float, bool, int]]:
    """(instant, whether it is a submit, place of the job) in the order of the instants, ends first."""
    happened = [(job.submit_s, True, k) for k, job in enumerate(record.jobs)]
    for k, (job, lived_s) in enumerate(zip(record.jobs, record.lived_s.tolist(), strict=True)):
        if record.has_ended[k]:
            happened.append((job.submit_s + lived_s, False, k))
    return iter(sorted(happened))


def learn(model: Model, record: Record, until_s: float) -> None:
    past, running = [], {}
    for now_s, is_submit, k in facts(record):
        if now_s > until_s or (is_submit and now_s >= until_s):
            break
        job = record.jobs[k]
        if is_submit:
            running[job.job_id] = job
        else:
            past.append((job, float(record.lived_s[k])))
            del running[job.job_id]
    if isinstance(model, HazardLifetimes):
        model.fit(past, [(job, until_s - job.submit_s) for job in running.values()], until_s)
    else:
        for job, duration_s in past:
            model.observe(job, duration_s)


def forecast(model: Model, record: Record, train_until_s: float, valid_until_s: float) -> Forecasts:
    begun_s = time.process_time()
    learn(model, record, train_until_s)
    fit_s = time.process_time() - begun_s
    places, curves, quantiles = [], [], []
    begun_s = time.process_time()
    for now_s, is_submit, k in facts(record):
        job = record.jobs[k]
        if now_s < train_until_s or (not is_submit and now_s == train_until_s):
            continue
        if now_s >= valid_until_s:
            break
        if not is_submit:
            model.ended(job, now_s, float(record.lived_s[k]))
            continue
        model.submitted(job, now_s)
        model.started(job, now_s)
        places.append(k)
        curves.append(model.survival(job))
        quantiles.append([model.quantile_s(job, level) for level in LEVELS])
    each_us = 1e6 * (time.process_time() - begun_s) / max(1, len(places))
    return Forecasts(np.array(places, np.intp), np.array(curves), np.array(quantiles), fit_s, each_us)


def beyond(survival: Floats, at_s: float) -> Floats:
    """P(life > at_s), ln S linear in ln t between the edges."""
    k = int(np.searchsorted(EDGES_S, at_s))
    share = np.log(at_s / EDGES_S[k - 1]) / np.log(EDGES_S[k] / EDGES_S[k - 1])
    ends = np.log(np.maximum(survival[:, k - 1 : k + 1], 1e-12))
    return np.asarray(np.exp(ends[:, 0] * (1.0 - share) + ends[:, 1] * share))


def pinball(lives: Floats, quantiles: Floats) -> float:
    missed = lives[:, None] - quantiles
    return float(np.maximum(LEVELS * missed, (LEVELS - 1.0) * missed).mean())


def concordance(medians_s: Floats, lived_s: Floats, has_ended: npt.NDArray[np.bool_]) -> float:
    """Harrell's C: share of comparable pairs in the right order, on a fixed sample of jobs."""
    sample = np.random.Generator(np.random.PCG64(0)).permutation(len(lived_s))[:SAMPLE_JOBS]
    said, lived, ended = medians_s[sample], lived_s[sample], has_ended[sample]
    is_pair = (lived[:, None] < lived[None]) & ended[:, None]
    right = (said[:, None] < said[None]) + 0.5 * (said[:, None] == said[None])
    return float((is_pair * right).sum() / is_pair.sum())


def scores(record: Record, made: Forecasts) -> Score:
    lived_s, has_ended = record.lived_s[made.places], record.has_ended[made.places]
    quantiles_s = made.quantiles_s
    is_inside = (lived_s >= quantiles_s[:, 0]) & (lived_s <= quantiles_s[:, -1])
    return {
        "pinball ln": pinball(np.log(np.maximum(lived_s, 1.0)), np.log(np.maximum(quantiles_s, 1.0))),
        "pinball s": pinball(lived_s, quantiles_s),
        "inside .1-.9 %": 100 * float(is_inside.mean()),
        "beyond .9 %": 100 * float((lived_s > quantiles_s[:, -1]).mean()),
        "C-index": concordance(quantiles_s[:, 4], lived_s, has_ended),
        **tails(record, made),
        "fit, CPU s": made.fit_s,
        "all per forecast, CPU us": made.forecast_us,
    }


def tails(record: Record, made: Forecasts) -> Score:
    """Forecast ("said") and observed ("seen") shares of lives beyond some hours, also given fewer hours."""
    lived_s = record.lived_s[made.places]
    known_for_s = record.cut_s - np.array([record.jobs[k].submit_s for k in made.places])
    found: Score = {}
    given_h = 0.0
    for hours in HOURS:
        at_s, given_s = 3600.0 * hours, 3600.0 * given_h
        is_known = known_for_s >= at_s
        said = beyond(made.survival, at_s)
        found[f">{hours:g}h said %"] = 100 * float(said[is_known].mean())
        found[f">{hours:g}h seen %"] = 100 * float((lived_s > at_s)[is_known].mean())
        if given_h:
            is_there = is_known & (lived_s > given_s)
            share = said / np.maximum(beyond(made.survival, given_s), 1e-12)
            found[f">{hours:g}h|>{given_h:g}h said %"] = 100 * float(share[is_there].mean())
            found[f">{hours:g}h|>{given_h:g}h seen %"] = 100 * float((lived_s > at_s)[is_there].mean())
        given_h = hours
    return found


class RunningTables(HazardLifetimes):
    """The hazard model's running life tables by themselves: told the same, never trained."""

    def fit(self, past: Lived, censored: Lived, now_s: float) -> None:
        super().fit(past, censored, now_s)
        self._model = None


MODELS: dict[str, Callable[[], Model]] = {
    "pool-width table": PoolWidthTable,
    "empirical": EmpiricalLifetimes,
    "running tables": RunningTables,
    "hazard, once": HazardLifetimes,
    "hazard, retrained": lambda: HazardLifetimes(
        retrain_every_s=2 * DAY_S, window_s=21 * DAY_S, half_life_s=7 * DAY_S
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--train-until", type=float, default=12 * DAY_S)
    parser.add_argument("--valid-until", type=float, default=18 * DAY_S)
    parser.add_argument("--cut", type=float, default=19 * DAY_S)
    options = parser.parse_args()
    record = load(options.jobs, options.cut)
    columns = {
        name: scores(record, forecast(make(), record, options.train_until, options.valid_until))
        for name, make in MODELS.items()
    }
    print(f"| {'':24} | " + " | ".join(f"{name:>18}" for name in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for measure in next(iter(columns.values())):
        cells = (f"{column[measure]:18,.3f}" for column in columns.values())
        print(f"| {measure:24} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
