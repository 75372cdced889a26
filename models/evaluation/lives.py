"""Lifetime forecasts on a record: ours and the baselines, told the same facts, scored on the same jobs."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LifetimeForecaster
from models.backtest import (
    Forecasts,
    Progress,
    Record,
    forecasts_at_submit,
    learn,
    life_scores,
    lived_of,
)
from models.calibration.life_monitor import LifeMonitor
from models.calibration.monitor import ForecastMonitor
from models.calibration.pits import pit_reliability
from models.calibration.reliability import brier_score
from models.lifetime.baselines import LastTwo, PoolWidthMedian
from models.lifetime.bulk import survival_at
from models.lifetime.empirical import EmpiricalLifetimes
from models.scores import NINE_LEVELS, concordance, covered, pinball_loss

Floats = NDArray[np.float64]
Makers = Mapping[str, Callable[[], LifetimeForecaster]]

BASELINES: Final[Makers] = {
    "pool-width median": PoolWidthMedian,
    "last two": LastTwo,
    "per-key quantiles": EmpiricalLifetimes,
}

LEAST_GROUP_JOBS: Final = 200
"""Jobs from which on the coverage within a pool or a group of users is held against its bounds."""

_TAIL_H: Final = (1.0, 4.0, 12.0, 48.0)
_LOW, _MEDIAN, _HIGH = 0, 4, 8


def evaluate_lives(
    record: Record,
    makers: Makers,
    *,
    train_until_s: float,
    eval_from_s: float,
    progress_for: Callable[[str], Progress] | None = None,
) -> dict[str, Any]:
    """Score forecasts made at submit; the first maker is ours, the others stand beside it.

    Every model learns from what had ended by `train_until_s` and is told the rest as it happens.

    Args:
        record: the jobs, cut where knowledge ends.
        makers: models by name, ours first; `BASELINES` are added.
        train_until_s: until when they learn at once.
        eval_from_s: jobs submitted from here on are scored.
        progress_for: of each model, by name.

    Returns:
        A document of plain numbers. `pinball` is the mean over nine levels, of ln seconds: a forecast off
        by a factor of two costs the same for a minute and for a week. `pinball_s` is that of seconds.
    """
    tables = {}
    ours = next(iter(makers))
    for name, make in {**makers, **BASELINES}.items():
        model, monitor = make(), ForecastMonitor()
        learn(model, record, train_until_s)
        told = LifeMonitor(model, monitor) if name == ours else model
        progress = None if progress_for is None else progress_for(name)
        made = forecasts_at_submit(told, record, train_until_s, math.inf, progress=progress)
        made = _from(record, made, eval_from_s)
        tables[name] = scores_of(record, made)
        if name == ours:
            detail = {
                "groups": groups(record, made),
                "tails": tails(record, made),
                "levels": levels(record, made),
                "monitor": [row.to_dict() for row in monitor.report()],
            }
    mine = tables[ours]
    best = {
        f"{what}_best_baseline": pick(tables[name][what] for name in BASELINES)
        for what, pick in (("pinball", min), ("pinball_s", min), ("c_index", max))
    }
    return {
        "model": ours,
        **mine,
        **best,
        "gain_pct": 100.0 * (1.0 - mine["pinball"] / best["pinball_best_baseline"]),
        "best_baseline": min(BASELINES, key=lambda name: tables[name]["pinball"]),
        **detail,
        "models": tables,
    }


def scores_of(record: Record, made: Forecasts) -> dict[str, float]:
    """`models.backtest.life_scores`, and the pinball loss in seconds of the lives that have ended."""
    lived_s, has_ended = lived_of(record, made)
    found = life_scores(record, made)
    found["pinball_s"] = (
        pinball_loss(lived_s[has_ended], made.quantiles_s[has_ended]) if has_ended.any() else math.nan
    )
    return found


def groups(record: Record, made: Forecasts) -> dict[str, Any]:
    """Share within .1 to .9 of each pool, and of each tenth of the users by their number of jobs.

    Only groups of at least `LEAST_GROUP_JOBS` jobs; the worst first.
    """
    jobs = [record.jobs[k] for k in made.places]
    lived_s, has_ended = lived_of(record, made)
    inside = covered(lived_s, made.quantiles_s[:, _LOW], made.quantiles_s[:, _HIGH])
    kinds = {"pools": [job.pool for job in jobs], "user_deciles": _user_deciles([job.user for job in jobs])}
    found: dict[str, Any] = {}
    for kind, names in kinds.items():
        labels, place = np.unique(np.array(names, dtype=str), return_inverse=True)
        rows: list[dict[str, Any]] = [
            {
                "group": str(label),
                "num_jobs": int((place == k).sum()),
                "coverage_80": float(inside[place == k].mean()),
                "c_index": concordance(
                    made.quantiles_s[place == k, _MEDIAN], lived_s[place == k], has_ended[place == k]
                ),
            }
            for k, label in enumerate(labels.tolist())
            if label
        ]
        rows = [row for row in rows if row["num_jobs"] >= LEAST_GROUP_JOBS]
        found[kind] = sorted(rows, key=lambda row: -abs(row["coverage_80"] - 0.8))
    shares = [row["coverage_80"] for rows in found.values() for row in rows]
    found["outside_70_90"] = sum(not 0.7 <= share <= 0.9 for share in shares)
    return found


def levels(record: Record, made: Forecasts) -> list[dict[str, object]]:
    """For each level, of all jobs and each pool: the share of lives that ended by then, and how sure that is.

    A life that goes on counts for what it says (`models.calibration.pits`).
    """
    lived_s, has_ended = lived_of(record, made)
    places = 1.0 - survival_at(made.survival, lived_s)
    pools = np.array([record.jobs[k].pool for k in made.places], dtype=str)
    groups_of = [("all", np.ones(len(pools), bool)), *((pool, pools == pool) for pool in np.unique(pools))]
    return [
        row.to_dict()
        for group, member in groups_of
        for row in pit_reliability(places[member], has_ended[member], NINE_LEVELS, group=str(group))
    ]


def tails(record: Record, made: Forecasts) -> list[dict[str, Any]]:
    """Said and seen shares of lives beyond some hours, at submit and given the hours before.

    Over the jobs that started at least so long before the cut, of which it is known.
    """
    lived_s, _ = lived_of(record, made)
    known_for_s = record.cut_s - record.start_s[made.places]
    rows: list[dict[str, Any]] = []
    given_h = 0.0
    for hours in _TAIL_H:
        at_s, given_s = 3600.0 * hours, 3600.0 * given_h
        is_there = (known_for_s >= at_s) & (lived_s > given_s)
        if is_there.any():
            alive = np.maximum(_beyond(made.survival[is_there], given_s), 1e-12)
            said = np.minimum(_beyond(made.survival[is_there], at_s) / alive, 1.0)
            is_longer = (lived_s > at_s)[is_there]
            rows.append(
                {
                    "beyond_h": hours,
                    "given_h": given_h,
                    "num_jobs": float(is_there.sum()),
                    "said": float(said.mean()),
                    "seen": float(is_longer.mean()),
                    "brier": brier_score(said, is_longer).to_dict(),
                }
            )
        given_h = hours
    return rows


def _from(record: Record, made: Forecasts, eval_from_s: float) -> Forecasts:
    is_scored = record.submit_s()[made.places] >= eval_from_s
    return Forecasts(made.places[is_scored], made.survival[is_scored], made.quantiles_s[is_scored])


def _beyond(survival: Floats, at_s: float) -> Floats:
    """P(life > at_s) of each job."""
    return survival_at(survival, np.full(len(survival), at_s))


def _user_deciles(users: Sequence[str | None]) -> list[str]:
    """Tenth of the users that each is in, 0 the rarest; empty where the record names nobody."""
    counts = Counter(user for user in users if user is not None)
    ranked = sorted(counts, key=lambda user: (counts[user], user))
    tenth = {user: 10 * place // len(ranked) for place, user in enumerate(ranked)}
    return ["" if user is None else f"users, tenth {tenth[user]}" for user in users]
