"""Demand forecasts on a record: windows of every pool, ours beside three baselines."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from data.rules import Rule
from domain.errors import Fault, InputError, SettingError
from models.backtest import Progress, Record, known_at
from models.demand.levels import LevelDemand
from models.demand.pools import PoolDemand
from models.demand.scoring import score_demand, score_levels

Series = list[tuple[float, dict[str, tuple[float, float]]]]

_WINDOWS_S: Final = (300.0, 3600.0, 43_200.0)
_DAY_S: Final = 86_400.0


def evaluate_demand(
    record: Record,
    quotas: Mapping[str, int],
    *,
    train_until_s: float,
    eval_from_s: float,
    retrain_every_s: float | None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Fit on what was known at one instant, tell the rest as it happens, score the windows from another on.

    Starts and ends are told when they happened; what is scored is what would be held had each job started on
    arrival: demand is what pools ask for, and not what they got.

    Returns:
        by window in whole seconds, as text: see `models.demand.scoring.score_demand`. Windows longer than the
        span scored are left out.
    """
    own = [place for place, job in enumerate(record.jobs) if job.pool in quotas]
    until_cut_s = record.cut_s - record.submit_s()  # of a job that goes on, no more is known
    lives_s = np.where(record.has_ended, record.lived_s, until_cut_s)
    lived = [(record.jobs[k], float(lives_s[k])) for k in own]
    starts = {record.jobs[k].job_id: float(record.start_s[k]) for k in own}
    past, unended = known_at(record, train_until_s)
    demand = PoolDemand(dict(quotas), seed=seed, retrain_every_s=retrain_every_s, windows_s=_WINDOWS_S)
    demand.fit(
        [one for one in past if one[0].pool in quotas],
        [one for one in unended if one[0].pool in quotas],
        train_until_s,
    )
    scores = score_demand(
        demand,
        lived,
        from_s=train_until_s,
        until_s=max(job.submit_s for job in record.jobs),
        starts=starts,
        score_from_s=eval_from_s,
        progress=progress,
    )
    return {f"{window_s:g}": found for window_s, found in scores.items()}


def evaluate_levels(
    series: Series, *, train_until_s: float, retrain_every_s: float | None, seed: int = 0
) -> dict[str, Any]:
    """The same for GPUs wanted by pool over time, of which no arrivals are known."""
    every_s = _spacing_s(series)
    windows_s = tuple(window_s for window_s in _WINDOWS_S if window_s >= every_s)
    demand = LevelDemand(windows_s=windows_s, every_s=every_s, retrain_every_s=retrain_every_s, seed=seed)
    scores = score_levels(demand, series, from_s=train_until_s, until_s=series[-1][0])
    return {f"{window_s:g}": found for window_s, found in scores.items()}


def _spacing_s(series: Series) -> float:
    """Distance of the instants of a series, which is the same all along.

    Raises:
        SettingError: if there are not two instants, or they are no multiples of their smallest distance.
    """
    instants = np.array([at_s for at_s, _ in series])
    gaps = np.diff(instants)
    if not len(gaps):
        raise SettingError("a series of levels needs more than one instant")
    every_s = float(gaps.min())
    if np.any(instants % every_s):
        raise SettingError(
            f"the instants of a series must be multiples of their smallest distance, {every_s:g} s"
        )
    return every_s


def read_series(path: Any) -> Series:
    """GPUs wanted by pool over time: a CSV with the columns pool, time_s, gpus, quota_gpus.

    Raises:
        InputError: if the file cannot be read, columns are missing, or a value is no number or negative.
    """
    source = str(path)
    try:
        frame = pd.read_csv(path, dtype={"pool": str})
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError([Fault(source, None, Rule.UNREADABLE_FILE, str(error))]) from error
    missing = {"pool", "time_s", "gpus", "quota_gpus"} - set(frame.columns)
    if missing:
        raise InputError(
            [Fault(source, 1, Rule.MISSING_COLUMN, f"there is no column {name}") for name in sorted(missing)]
        )
    numbers = frame[["time_s", "gpus", "quota_gpus"]].apply(pd.to_numeric, errors="coerce")
    is_bad = ~np.isfinite(numbers).all(axis=1) | (numbers[["gpus", "quota_gpus"]] < 0).any(axis=1)
    is_bad |= frame["pool"].isna()
    if is_bad.any():
        line = int(np.flatnonzero(is_bad)[0]) + 2
        message = (
            f"{int(is_bad.sum())} rows have no pool, or a number that is missing or negative; the first one"
        )
        raise InputError([Fault(source, line, Rule.OUT_OF_RANGE, message)])
    frame = frame.assign(**{name: numbers[name] for name in numbers}).sort_values("time_s", kind="stable")
    return [
        (at_s, dict(zip(own["pool"], zip(own["gpus"], own["quota_gpus"], strict=True), strict=True)))
        for at_s, own in zip(*_by_instant(frame), strict=True)
    ]


def _by_instant(frame: pd.DataFrame) -> tuple[list[float], list[pd.DataFrame]]:
    groups = [own for _, own in frame.groupby("time_s", sort=True)]
    return [float(own["time_s"].iloc[0]) for own in groups], groups
