"""How good demand forecasts are over (pool, instant) windows, beside three baselines.

Seasonal naive: what the same window saw a day before. Last-hour mean: the last hour's, stretched to the
window. Sliding max: the largest of the last three windows. Each is a single number, said at every level.

Coverage of a level counts ties by part, as a randomised tie would on average (`tie_coverage`): where most
windows see nothing, a true 95 % quantile of 0 covers nearly all of them, and neither "below" nor "at or
below" is the level. A forecast that knows the true distribution scores exactly the level here.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from models.calibration.adaptive import tie_coverage
from models.calibration.monitor import ForecastMonitor, StreamKey
from models.calibration.reliability import quantile_reliability
from models.demand.calibrated import LEVELS
from models.demand.changes import DAY_S, daily_gpu_hours, largest_change
from models.demand.features import ENDED, HOUR_S, STARTED, SUBMITTED, history_facts
from models.demand.levels import LevelDemand
from models.demand.pools import PoolDemand
from models.scores import NINE_LEVELS, pinball_loss, quantile_coverage

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BASELINES: Final = ("seasonal_naive", "last_hour_mean", "sliding_max")
AFTER_CHANGE_S: Final = 7 * DAY_S
_MEAN_OF: Final = 4
_TABLE_LEVELS: Final = (0.5, 0.9, 0.95)
_LEAST_EVERY_S: Final = 300.0


def coverage_parts(observed: Floats, quantiles: Floats, levels: Sequence[float], level: float) -> Floats:
    """How far each observation is covered at a level, in [0, 1]; see the module.

    Args:
        observed: shape (rows,).
        quantiles: shape (rows, levels), non-decreasing.
        levels: those of the quantiles; `level` is one of them.
        level: the one that is asked about.
    """
    at = np.asarray(levels)
    place = int(np.flatnonzero(np.isclose(at, level))[0])
    # the atom at the observation reaches from somewhere after the last level below it to somewhere before
    # the first one above it: the middles are taken
    bounds = np.concatenate([[0.0], at, [1.0]])
    middles = (bounds[:-1] + bounds[1:]) / 2.0
    below = (quantiles < observed[:, None]).sum(axis=1)
    upto = (quantiles <= observed[:, None]).sum(axis=1)
    low = np.where((below == 0) & (observed <= 0.0), 0.0, middles[below])
    parts = tie_coverage(low, middles[upto], np.full(len(observed), level))
    said = quantiles[:, place]
    return np.where(observed < said, 1.0, np.where(observed > said, 0.0, parts))


@dataclass
class _PoolTruth:
    """What one pool was asked for, each job having started on arrival."""

    quota: float
    submit_s: Floats
    end_s: Floats
    gpus: Floats
    _summed: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._summed = np.concatenate([[0.0], np.cumsum(self.gpus)])

    def outcome(self, from_s: float, until_s: float) -> tuple[float, float]:
        """GPUs asked for in (from, until], and those still held at its end, capped by the quota."""
        first, beyond = np.searchsorted(self.submit_s, (from_s, until_s), "right")
        held = self.gpus[first:beyond][self.end_s[first:beyond] > until_s].sum()
        return min(self.quota, float(self._summed[beyond] - self._summed[first])), min(
            self.quota, float(held)
        )

    def baselines(self, window_s: float, now_s: float) -> Floats:
        """Values of `BASELINES` for both targets, shape (2, baselines); nothing after `now_s` is used."""
        ago = self.outcome(now_s - DAY_S, min(now_s - DAY_S + window_s, now_s))
        last = self.outcome(now_s - HOUR_S, now_s)[0] * window_s / HOUR_S
        ends_s = [now_s - HOUR_S * part / _MEAN_OF for part in range(_MEAN_OF)]
        held = np.mean([self.outcome(end_s - window_s, end_s)[1] for end_s in ends_s])
        slid = [self.outcome(now_s - (k + 1) * window_s, now_s - k * window_s) for k in range(3)]
        most = np.max(slid, axis=0)
        return np.array([[ago[0], min(self.quota, last), most[0]], [ago[1], held, most[1]]])


@dataclass
class _Cells:
    """What was said and what came, instant by instant."""

    instants_s: list[float] = field(default_factory=list)
    said: list[Floats] = field(default_factory=list)
    came: list[Floats] = field(default_factory=list)
    baselines: list[Floats] = field(default_factory=list)
    will: list[Bools] = field(default_factory=list)


def score_demand(
    demand: PoolDemand,
    lived: Sequence[tuple[Job, float]],
    *,
    from_s: float,
    until_s: float,
    starts: Mapping[str, float] | None = None,
    score_from_s: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[float, dict[str, Any]]:
    """Tell a forecaster what happens, ask it on a raster, and score what it says.

    Args:
        demand: fitted on what was known at `from_s`; it learns on as it is told.
        lived: every job submitted before `until_s`, with its duration, in any order. Those from before
            `from_s` serve the baselines and the change points.
        from_s: instant as of which it is fitted; it is told what happens from there on.
        until_s: no window scored ends later.
        starts: by id, when jobs began to run, where it was not on arrival: their ends are told when they
            happened. What is scored is what would be held had each started on arrival, whatever became of it.
        score_from_s: first instant scored; None: `from_s`.
        progress: told now and then how many seconds of how many have passed.

    Returns:
        for each window in seconds: `precision` and `recall` of WillJobsArrive; `cells`, `arrivals_in` and
        `yes_in` (shares of the cells); and of the GPUs requested `pinball` (GPUs, nine levels),
        `pinball_best_baseline`, `baselines` by name, `coverage_95`, `coverage_95_after_change` (NaN where no
        pool changed), `coverage_95_below` and `coverage_95_at_or_below` (raw shares), `coverage_95_of_pools`
        (least and most of a pool). `held` has the same of the GPUs held at the window's end.
    """
    truth = _truths(demand, lived)
    cells = {window_s: _Cells() for window_s in demand.windows_s}
    first_s = from_s if score_from_s is None else score_from_s
    for now_s in _told(demand, _facts(lived, starts or {}, from_s), from_s, until_s):
        if progress is not None and now_s % DAY_S == 0.0:
            progress(int(now_s - from_s), int(until_s - from_s))
        if now_s < first_s:
            continue
        for window_s, own in cells.items():
            if now_s + window_s <= until_s and now_s % _asked_every_s(window_s) == 0.0:
                _ask(demand, truth, own, window_s, now_s)
    changed = np.array([_changed_s(one, first_s, until_s) for one in truth])
    return {
        window_s: {
            **_scores(own, changed),
            "levels": _reliability(own, demand.pools),
            "monitor": _watched(own, demand.pools, window_s),
        }
        for window_s, own in cells.items()
        if own.instants_s
    }


def score_levels(
    demand: LevelDemand,
    series: Sequence[tuple[float, Mapping[str, tuple[float, float]]]],
    *,
    from_s: float,
    until_s: float,
) -> dict[float, dict[str, Any]]:
    """The same for levels by the minute: GPUs wanted at the end of the window.

    Args:
        demand: nothing observed yet; it is shown everything, and learns at `from_s`.
        series: (instant, (GPUs wanted, quota) by pool), in the order of time.
        from_s: first instant scored.
        until_s: no window scored ends later.

    Returns:
        for each window in seconds the keys of `score_demand` without WillJobsArrive and `held`, and
        `pinball_last_value`: what it costs to say that the level stays what it is.
    """
    seen = [one for one in series if one[0] <= until_s]
    names = tuple(dict.fromkeys(name for _, levels in seen for name in levels))
    table, instants = _table(seen, names), np.array([instant_s for instant_s, _ in seen])
    cells = {window_s: _Cells() for window_s in demand.windows_s}
    is_learned = False
    for number, (now_s, levels) in enumerate(seen):
        demand.observe(now_s, levels)
        if now_s < from_s:
            continue
        if not is_learned:
            demand.learn()
            is_learned = True
        for window_s, own in cells.items():
            if now_s % max(1800.0, _asked_every_s(window_s)) == 0.0 and now_s + window_s <= until_s:
                _ask_level(demand, (table, instants, names), own, window_s, number)
    changed = np.array([_level_changed_s(table[:, k], instants, from_s, until_s) for k in range(len(names))])
    scores = {}
    for window_s, own in cells.items():
        if own.instants_s:
            scores[window_s] = _target_scores(own, 0, changed)
            last = [baselines[0, -1] for baselines in own.baselines]
            came, said = np.array(own.came)[:, 0].ravel(), np.array(last).ravel()
            is_there = ~np.isnan(came) & ~np.isnan(said)
            scores[window_s]["pinball_last_value"] = _point_loss(came[is_there], said[is_there])
    return scores


def _asked_every_s(window_s: float) -> float:
    """Raster of the questions: a twelfth of the window, at least 5 min."""
    return max(_LEAST_EVERY_S, math.floor(window_s / 12.0 / _LEAST_EVERY_S) * _LEAST_EVERY_S)


def _truths(demand: PoolDemand, lived: Sequence[tuple[Job, float]]) -> list[_PoolTruth]:
    truth = []
    for pool, quota in demand.quotas.items():
        own = sorted(
            (job.submit_s, job.submit_s + life_s, float(job.num_gpus))
            for job, life_s in lived
            if job.pool == pool
        )
        columns = np.array(own).reshape(-1, 3).T
        truth.append(_PoolTruth(float(quota), columns[0], columns[1], columns[2]))
    return truth


def _facts(
    lived: Sequence[tuple[Job, float]], starts: Mapping[str, float], from_s: float
) -> list[tuple[float, int, Job, float]]:
    """What happens from an instant on, in the order of time; starts and ends as late as they were."""
    late_s = {job.job_id: max(0.0, starts.get(job.job_id, job.submit_s) - job.submit_s) for job, _ in lived}
    facts = [
        (at_s + (0.0 if kind == SUBMITTED else late_s[job.job_id]), kind, job, duration_s)
        for at_s, kind, job, duration_s in history_facts(lived, (), math.inf)
    ]
    facts.sort(key=lambda fact: (fact[0], fact[1], fact[2].job_id))
    return [fact for fact in facts if fact[0] >= from_s]


def _told(
    demand: PoolDemand, facts: Sequence[tuple[float, int, Job, float]], from_s: float, until_s: float
) -> Iterator[float]:
    """Tell what happens up to each instant of the raster, then yield it."""
    place, first = 0, math.ceil(from_s / _LEAST_EVERY_S)
    for tick in range(first, math.floor(until_s / _LEAST_EVERY_S) + 1):
        now_s = tick * _LEAST_EVERY_S
        while place < len(facts) and facts[place][0] <= now_s:
            at_s, kind, job, duration_s = facts[place]
            if kind == ENDED:
                demand.ended(job, at_s, duration_s)
            else:
                (demand.started if kind == STARTED else demand.submitted)(job, at_s)
            place += 1
        yield now_s


def _ask(demand: PoolDemand, truth: Sequence[_PoolTruth], own: _Cells, window_s: float, now_s: float) -> None:
    will, said = demand.will_jobs_arrive(window_s, now_s), demand.quantiles(window_s, now_s)
    own.instants_s.append(now_s)
    own.will.append(np.array(list(will.values())))
    own.said.append(np.stack([said.requested, said.held]))
    own.came.append(np.array([one.outcome(now_s, now_s + window_s) for one in truth]).T)
    own.baselines.append(np.stack([one.baselines(window_s, now_s) for one in truth], axis=2))


def _ask_level(
    demand: LevelDemand,
    seen: tuple[Floats, Floats, tuple[str, ...]],
    own: _Cells,
    window_s: float,
    number: int,
) -> None:
    table, instants, names = seen
    now_s = float(instants[number])
    said = demand.quantiles(window_s)
    quantiles = np.full((1, len(names), len(said.levels)), np.nan)
    quantiles[0, [names.index(pool) for pool in said.pools]] = said.gpus

    def at(instant_s: float) -> Floats:
        place = int(np.searchsorted(instants, instant_s, "right")) - 1
        is_known = place >= 0 and instants[place] == instant_s
        return table[place] if is_known else np.full(len(names), np.nan)

    hour, slid = (instants > now_s - span_s for span_s in (HOUR_S, 3 * window_s))
    past = slice(0, number + 1)
    ago = at(now_s + window_s - DAY_S) if window_s <= DAY_S else at(now_s - DAY_S)
    last_hour, most = table[past][hour[past]], table[past][slid[past]]
    mean = np.nansum(last_hour, axis=0) / np.maximum(1, (~np.isnan(last_hour)).sum(axis=0))
    own.instants_s.append(now_s)
    own.said.append(quantiles)
    own.came.append(at(now_s + window_s)[None])
    own.baselines.append(np.stack([ago, mean, np.fmax.reduce(most, axis=0), table[number]])[None])


def _table(seen: Sequence[tuple[float, Mapping[str, tuple[float, float]]]], names: tuple[str, ...]) -> Floats:
    nothing = (math.nan, math.nan)
    return np.array([[levels.get(name, nothing)[0] for name in names] for _, levels in seen])


def _changed_s(one: _PoolTruth, from_s: float, until_s: float) -> float:
    """Instant of a pool's largest change within the span scored; NaN where there is none."""
    daily = daily_gpu_hours(one.submit_s, one.end_s, one.gpus, math.ceil(until_s / DAY_S))
    return _change_within(daily, from_s, until_s)


def _level_changed_s(levels: Floats, instants: Floats, from_s: float, until_s: float) -> float:
    day = np.floor(instants / DAY_S).astype(np.intp)
    is_known = ~np.isnan(levels)
    number = math.ceil(until_s / DAY_S)
    daily = np.bincount(day[is_known], levels[is_known], number)[:number].astype(np.float64)
    return _change_within(daily, from_s, until_s)


def _change_within(daily: Floats, from_s: float, until_s: float) -> float:
    first, last = math.ceil(from_s / DAY_S), math.floor(until_s / DAY_S) - 1
    day = largest_change(daily, first=first, last=last)
    return math.nan if day is None else day * DAY_S


def _scores(own: _Cells, changed_s: Floats) -> dict[str, Any]:
    will, came = np.array(own.will), np.array(own.came)[:, 0] > 0.0
    hits = float((will & came).sum())
    return {
        "precision": hits / max(1.0, float(will.sum())),
        "recall": hits / max(1.0, float(came.sum())),
        "arrivals_in": float(came.mean()),
        "yes_in": float(will.mean()),
        **_target_scores(own, 0, changed_s),
        "held": _target_scores(own, 1, changed_s),
    }


def _reliability(own: _Cells, pools: Sequence[str]) -> list[dict[str, object]]:
    """Said and seen shares of GPUs requested, at a few levels, for all pools and for each."""
    said, came = np.array([one[0] for one in own.said]), np.array([one[0] for one in own.came])
    places = [LEVELS.index(level) for level in _TABLE_LEVELS]
    quantiles = said[..., places].reshape(-1, len(places))
    rows = quantile_reliability(came.ravel(), quantiles, _TABLE_LEVELS, list(pools) * len(came))
    return [row.to_dict() for row in rows]


def _watched(own: _Cells, pools: Sequence[str], window_s: float) -> list[dict[str, object]]:
    """What a monitor of the 95 % level of each pool's requests says at the end of the span."""
    monitor, place = ForecastMonitor(), LEVELS.index(0.95)
    weight = min(1.0, _asked_every_s(window_s) / window_s)
    for instant_s, said, came in zip(own.instants_s, own.said, own.came, strict=True):
        for pool, is_miss in zip(pools, (came[0] > said[0][:, place]).tolist(), strict=True):
            monitor.observe(
                StreamKey("load", pool, window_s), 0.95, is_miss, instant_s + window_s, weight=weight
            )
    return [row.to_dict() for row in monitor.report()]


def _target_scores(own: _Cells, target: int, changed_s: Floats) -> dict[str, Any]:
    came = np.array([one[target] for one in own.came])
    said = np.array([one[target] for one in own.said])
    baselines = np.array([one[target][: len(BASELINES)] for one in own.baselines])
    is_there = ~np.isnan(came) & ~np.isnan(said[..., 0]) & ~np.isnan(baselines).any(axis=1)
    observed, quantiles = came[is_there], said[is_there]
    nine = [LEVELS.index(level) for level in NINE_LEVELS]
    parts = np.full(came.shape, np.nan)
    parts[is_there] = coverage_parts(observed, quantiles, LEVELS, 0.95)
    since_s = np.array(own.instants_s)[:, None] - changed_s
    after = is_there & (since_s >= 0.0) & (since_s < AFTER_CHANGE_S)
    losses = {
        name: _point_loss(observed, np.moveaxis(baselines, 1, 2)[is_there][:, place])
        for place, name in enumerate(BASELINES)
    }
    below, upto = quantile_coverage(observed, quantiles[:, LEVELS.index(0.95)])
    of_pools = [float(np.nanmean(part)) for part in parts.T if not np.isnan(part).all()]
    return {
        "cells": int(is_there.sum()),
        "pinball": pinball_loss(observed, quantiles[:, nine]),
        "pinball_best_baseline": min(losses.values()),
        "baselines": losses,
        "coverage_95": float(parts[is_there].mean()),
        "coverage_95_after_change": float(parts[after].mean()) if after.any() else math.nan,
        "coverage_95_below": below,
        "coverage_95_at_or_below": upto,
        "coverage_95_of_pools": [min(of_pools), max(of_pools)],
    }


def _point_loss(observed: Floats, said: Floats) -> float:
    return pinball_loss(observed, np.repeat(said[:, None], len(NINE_LEVELS), axis=1))
