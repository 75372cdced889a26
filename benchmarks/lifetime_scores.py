"""How good lifetime forecasts are: jobs are forecast at their submit by models told the record as it happens.

python -m benchmarks.lifetime_scores --jobs ../shared/bench/philly-pools/jobs.csv
python -m benchmarks.lifetime_scores --jobs var/traces/venus.csv --shares 0.5,0.7

Any file in the canonical columns will do. Trained on what had ended by --train-until, scored on the jobs
submitted from then until --valid-until; nothing submitted later is told to anybody. With --shares the two
instants are those at which these shares of the jobs had been submitted. A job runs from its `start_s`, or
from its submit where the record does not say, and is learned from when it ends and not before. What a scored
job lived beyond --cut is not looked at: it counts with its age. A share of lives beyond t is taken over the
jobs that started at least t before the cut, of which it is known.
"""

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from data.history import to_jobs
from data.readers import READERS
from data.splits import started_s
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from models.lifetime.baselines import LastTwo, PointLifetimes, PoolWidthMedian
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.hazard import HazardLifetimes
from models.scores import NINE_LEVELS, concordance, covered, ln_pinball_loss, pinball_loss, too_short_share

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Score = dict[str, float]

DAY_S = 86_400.0
HOURS = (1.0, 4.0, 12.0, 48.0)
LEAST_GROUP = 200
EDGES_S = np.array(LIFE_EDGES_S)
_END, _SUBMIT, _START, _END_AT_ONCE = range(4)


class Record(NamedTuple):
    """Jobs, when each began to run, how long it has lived by the cut, and whether it has ended by then."""

    jobs: list[Job]
    start_s: Floats
    lived_s: Floats
    has_ended: Bools
    cut_s: float


class Forecasts(NamedTuple):
    """Of the scored jobs: places in the record, S at the edges (None: only points), quantiles, the cost."""

    places: npt.NDArray[np.intp]
    survival: Floats | None
    quantiles_s: Floats
    fit_s: float
    forecast_us: float


Model = PointLifetimes | EmpiricalLifetimes | HazardLifetimes


def load(path: Path, cut_s: float) -> Record:
    """A record up to the cut."""
    frame = READERS["csv"](path, None).frame
    frame = frame[frame["submit_s"] < cut_s]
    jobs, outcomes = to_jobs(frame)
    start_s = started_s(frame).to_numpy(float)
    durations_s = np.array([outcomes[job.job_id].duration_s for job in jobs])
    known_s = np.maximum(cut_s - start_s, 0.0)
    return Record(jobs, start_s, np.minimum(durations_s, known_s), durations_s <= known_s, cut_s)


def until_shares(record: Record, shares: tuple[float, ...]) -> list[float]:
    """Instants by which these shares of the jobs had been submitted."""
    submits_s = [job.submit_s for job in record.jobs]
    return [submits_s[min(int(share * len(submits_s)), len(submits_s) - 1)] for share in shares]


def facts(record: Record, until_s: float) -> list[tuple[float, int, int]]:
    """(instant, kind, place of the job) before `until_s` as it happened: ends, submits, starts."""
    happened = []
    for k, job in enumerate(record.jobs):
        if job.submit_s >= until_s:
            continue
        happened.append((job.submit_s, _SUBMIT, k))
        happened.append((float(record.start_s[k]), _START, k))
        if record.has_ended[k]:
            end_s = float(record.start_s[k] + record.lived_s[k])
            happened.append((end_s, _END if end_s > record.start_s[k] else _END_AT_ONCE, k))
    return sorted(fact for fact in happened if fact[0] < until_s)


def learn(model: Model, record: Record, until_s: float) -> None:
    past, censored, starts = [], [], {}
    ends_s = record.start_s + record.lived_s
    for k in np.lexsort((np.arange(len(ends_s)), ends_s)).tolist():
        job = record.jobs[k]
        if job.submit_s >= until_s:
            continue
        start_s = float(record.start_s[k])
        if start_s <= until_s:
            starts[job.job_id] = start_s
        if record.has_ended[k] and ends_s[k] <= until_s:
            past.append((job, float(record.lived_s[k])))
        else:
            censored.append((job, max(0.0, until_s - start_s)))
    if isinstance(model, HazardLifetimes):
        model.fit(past, censored, until_s, starts)
    else:
        for job, duration_s in past:
            model.observe(job, duration_s)


def forecast(model: Model, record: Record, train_until_s: float, valid_until_s: float) -> Forecasts:
    begun_s = time.process_time()
    learn(model, record, train_until_s)
    fit_s = time.process_time() - begun_s
    places, curves, quantiles = [], [], []
    told = facts(record, valid_until_s)
    begun_s = time.process_time()
    for now_s, kind, k in told:
        job = record.jobs[k]
        if now_s < train_until_s or (kind != _SUBMIT and now_s == train_until_s):
            continue
        if kind in (_END, _END_AT_ONCE):
            model.ended(job, now_s, float(record.lived_s[k]))
        elif kind == _START:
            model.started(job, now_s)
        else:
            model.submitted(job, now_s)
            places.append(k)
            if not isinstance(model, PointLifetimes):
                curves.append(model.survival(job))
            quantiles.append([model.quantile_s(job, level) for level in NINE_LEVELS])
    each_us = 1e6 * (time.process_time() - begun_s) / max(1, len(places))
    survival = np.array(curves) if curves else None
    return Forecasts(np.array(places, np.intp), survival, np.array(quantiles), fit_s, each_us)


def beyond(survival: Floats, at_s: float) -> Floats:
    """P(life > at_s), ln S linear in ln t between the edges."""
    k = int(np.searchsorted(EDGES_S, at_s))
    share = np.log(at_s / EDGES_S[k - 1]) / np.log(EDGES_S[k] / EDGES_S[k - 1])
    ends = np.log(np.maximum(survival[:, k - 1 : k + 1], 1e-12))
    return np.asarray(np.exp(ends[:, 0] * (1.0 - share) + ends[:, 1] * share))


def user_deciles(users: list[str | None]) -> list[str]:
    """Tenth of the users that each one is in, by their number of jobs: "user decile 9" has the busiest."""
    counts = Counter(users)
    ranked = sorted(counts, key=lambda user: (counts[user], str(user)))
    tenth = {user: 10 * place // len(ranked) for place, user in enumerate(ranked)}
    return [f"user decile {tenth[user]}" for user in users]


def group_coverage(record: Record, made: Forecasts) -> dict[str, list[tuple[str, int, float]]]:
    """(group, jobs, share within .1 to .9) of each pool, user decile and single user with enough jobs."""
    jobs = [record.jobs[k] for k in made.places]
    inside = covered(record.lived_s[made.places], made.quantiles_s[:, 0], made.quantiles_s[:, -1])
    kinds = {"pools": [f"pool {job.pool}" for job in jobs]}
    if any(job.user for job in jobs):
        kinds["user deciles"] = user_deciles([job.user for job in jobs])
        kinds["single users"] = [f"user {job.user}" for job in jobs]
    found = {}
    for kind, names in kinds.items():
        labels, place = np.unique(names, return_inverse=True)
        number = np.bincount(place)
        share = np.bincount(place, inside) / number
        rows = [(str(labels[k]), int(number[k]), 100 * float(share[k])) for k in range(len(labels))]
        found[kind] = sorted((row for row in rows if row[1] >= LEAST_GROUP), key=lambda row: row[2])
    return found


def scores(record: Record, made: Forecasts) -> Score:
    lived_s, has_ended = record.lived_s[made.places], record.has_ended[made.places]
    quantiles_s = made.quantiles_s
    inside = covered(lived_s, quantiles_s[:, 0], quantiles_s[:, -1])
    found = {
        "pinball ln": ln_pinball_loss(lived_s, quantiles_s),
        "pinball s": pinball_loss(lived_s, quantiles_s),
        "inside .1-.9 %": 100 * float(inside.mean()),
        "beyond .9 %": 100 * float((lived_s > quantiles_s[:, -1]).mean()),
        "too short at .9 %": 100 * too_short_share(lived_s, quantiles_s[:, -1]),
        "C-index": concordance(quantiles_s[:, 4], lived_s, has_ended),
    }
    for kind, rows in group_coverage(record, made).items():
        out = sum(not 70.0 <= row[2] <= 90.0 for row in rows)
        found[f"{kind}: lowest inside %"] = rows[0][2] if rows else math.nan
        found[f"{kind}: highest inside %"] = rows[-1][2] if rows else math.nan
        found[f"{kind}: outside 70-90, of {len(rows)}"] = out
    found |= tails(record, made)
    return found | {"fit, CPU s": made.fit_s, "all per forecast, CPU us": made.forecast_us}


def tails(record: Record, made: Forecasts) -> Score:
    """Forecast ("said") and observed ("seen") shares of lives beyond some hours, also given fewer hours."""
    lived_s = record.lived_s[made.places]
    known_for_s = record.cut_s - record.start_s[made.places]
    found: Score = {}
    given_h = 0.0
    for hours in HOURS:
        at_s, given_s = 3600.0 * hours, 3600.0 * given_h
        is_known = known_for_s >= at_s
        is_there = is_known & (lived_s > given_s)
        said = np.full(len(lived_s), np.nan) if made.survival is None else beyond(made.survival, at_s)
        found[f">{hours:g}h said %"] = 100 * float(said[is_known].mean())
        found[f">{hours:g}h seen %"] = 100 * float((lived_s > at_s)[is_known].mean())
        if given_h:
            alive = 1.0 if made.survival is None else np.maximum(beyond(made.survival, given_s), 1e-12)
            found[f">{hours:g}h|>{given_h:g}h said %"] = 100 * float((said / alive)[is_there].mean())
            found[f">{hours:g}h|>{given_h:g}h seen %"] = 100 * float((lived_s > at_s)[is_there].mean())
        given_h = hours
    return found


class RunningTables(HazardLifetimes):
    """The hazard model's running life tables by themselves: told the same, never trained."""

    def survival(self, job: Job) -> tuple[float, ...]:
        return self.table_survival(job)


MODELS: dict[str, Callable[[], Model]] = {
    "pool-width median": PoolWidthMedian,
    "last two": LastTwo,
    "per-key quantiles": EmpiricalLifetimes,
    "running tables": RunningTables,
    "hazard": lambda: HazardLifetimes(half_life_s=10 * DAY_S),
    "hazard, unforgetting": HazardLifetimes,
    "hazard, retrained": lambda: HazardLifetimes(
        retrain_every_s=2 * DAY_S, window_s=21 * DAY_S, half_life_s=7 * DAY_S
    ),
}


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--train-until", type=float, default=12 * DAY_S)
    parser.add_argument("--valid-until", type=float, default=18 * DAY_S)
    parser.add_argument("--cut", type=float, help="default: day 19, or with --shares no cut")
    parser.add_argument("--shares", help="two shares of the jobs by submit, in place of the instants")
    parser.add_argument("--models", default=";".join(MODELS), help="which ones, by name, between semicolons")
    parser.add_argument("--groups", type=int, default=0, help="print so many of the worst covered groups")
    return parser.parse_args()


def main() -> None:
    options = chosen()
    default_cut_s = math.inf if options.shares else 19 * DAY_S
    record = load(options.jobs, default_cut_s if options.cut is None else options.cut)
    train_until_s, valid_until_s = options.train_until, options.valid_until
    if options.shares:
        shares = tuple(map(float, options.shares.split(",")))
        train_until_s, valid_until_s = until_shares(record, shares)
    made = {
        name: forecast(MODELS[name](), record, train_until_s, valid_until_s)
        for name in options.models.split(";")
    }
    columns = {name: scores(record, one) for name, one in made.items()}
    number = len(next(iter(made.values())).places)
    print(f"{number:,} jobs submitted from {train_until_s:,.0f} to {valid_until_s:,.0f} s\n")
    print(f"| {'':28} | " + " | ".join(f"{name:>17}" for name in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for measure in next(iter(columns.values())):
        cells = (f"{column[measure]:17,.3f}" for column in columns.values())
        print(f"| {measure:28} | " + " | ".join(cells) + " |")
    for name, one in made.items() if options.groups else ():
        for kind, rows in group_coverage(record, one).items():
            worst = sorted(rows, key=lambda row: -abs(row[2] - 80.0))[: options.groups]
            print(f"\n{name}, {kind}: " + ", ".join(f"{r[0]} {r[2]:.1f} % of {r[1]}" for r in worst))


if __name__ == "__main__":
    main()
