"""Backtests: at each of several origins models learn what had ended, and the next stretch is scored."""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from app.services.demand_learner import make_demand
from data.history import History, to_jobs
from domain.errors import SettingError
from domain.jobs import Job
from models import LIFETIME_MODELS, Training
from models.backtest import Forecasts, Progress, Record, forecast, life_scores, origins, record_of
from models.demand.scoring import score_demand
from simulator.report import finite

Lived = tuple[Job, float]

_DAY_S: Final = 86_400.0
OVERALL: Final = "overall"

DEMAND_SCORES: Final = (
    "cells",
    "arrivals_in",
    "yes_in",
    "precision",
    "recall",
    "pinball",
    "pinball_best_baseline",
    "coverage_95",
)
"""Scores of a demand model's window: see `models.demand.scoring.score_demand`."""


@dataclass(frozen=True)
class Rolling:
    """Where the origins lie; the fields are the command line's options of the same names.

    Attributes:
        from_s: the first origin: what had ended by then is learned from.
        until_s: jobs submitted from here on are not asked about.
        every_days: days from one origin to the next.
        known_until_s: lives are scored as they are known at this instant.
    """

    from_s: float
    until_s: float
    every_days: float
    known_until_s: float = math.inf


@dataclass(frozen=True)
class Scored:
    """Scores of one model on one stretch, or on all of them together.

    Attributes:
        model: its name.
        origin_s, until_s: the stretch; the first and the last instant where it is all of them.
        is_overall: whether it is all of them.
        scores: see `models.backtest.life_scores`, or `DEMAND_SCORES`.
        window_s: of a demand model; None where it is about lives.
    """

    model: str
    origin_s: float
    until_s: float
    is_overall: bool
    scores: Mapping[str, float]
    window_s: float | None = None


def backtest_lives(
    history: History,
    quotas: Mapping[str, int],
    names: Sequence[str],
    rolling: Rolling,
    *,
    seed: int,
    progress_for: Callable[[str], Progress],
) -> list[Scored]:
    """Score lifetime models at rolling origins; each is trained anew at each of them.

    Returns:
        Of each model its stretches in the order of time, then all of them together.

    Raises:
        SettingError: for unknown models, instants out of order, or where nothing is to be learned or scored.
    """
    for name in names:
        if name not in LIFETIME_MODELS:
            raise SettingError(f"unknown lifetime model {name!r}; there are: {', '.join(LIFETIME_MODELS)}")
    if len(set(names)) < len(names):
        raise SettingError("a model is asked for twice")
    if rolling.known_until_s < rolling.until_s:
        raise SettingError("--known-until lies before --until: lives are known later than jobs are submitted")
    stretches = origins(rolling.from_s, rolling.until_s, rolling.every_days * _DAY_S)
    record = record_of(history.frame, rolling.known_until_s)
    _require_jobs(record, rolling)
    found: list[Scored] = []
    for name in names:
        parts = []
        for begin_s, end_s in stretches:
            training = Training(quotas, (), (), begin_s, seed=seed)
            progress = progress_for(f"{name} from day {begin_s / _DAY_S:g}")
            part = forecast(LIFETIME_MODELS[name](training), record, begin_s, end_s, progress=progress)
            parts.append(part)
            found.append(Scored(name, begin_s, end_s, False, life_scores(record, part)))
        whole = _joined(parts)
        found.append(Scored(name, rolling.from_s, rolling.until_s, True, life_scores(record, whole)))
    return found


def backtest_demand(
    history: History,
    quotas: Mapping[str, int],
    names: Sequence[str],
    rolling: Rolling,
    *,
    seed: int,
    progress_for: Callable[[str], Progress],
) -> list[Scored]:
    """Score demand models at rolling origins, window by window, beside the best baseline.

    A job counts as started on arrival, in what is told and in what is asked for.

    Returns:
        Of each model and window its stretches in the order of time, then all of them together.

    Raises:
        SettingError: as `backtest_lives`.
    """
    for name in names:
        make_demand(name, quotas, seed)
    stretches = origins(rolling.from_s, rolling.until_s, rolling.every_days * _DAY_S)
    jobs, outcomes = to_jobs(history.frame[history.frame["submit_s"] < rolling.until_s])
    lived = [(job, outcomes[job.job_id].duration_s) for job in jobs]
    found: list[Scored] = []
    for name in names:
        progress = progress_for(f"{name} demand")
        by_window: dict[float, list[Scored]] = {}
        for done, (begin_s, end_s) in enumerate(stretches):
            model = make_demand(name, quotas, seed)
            model.fit(*_as_of(lived, begin_s), begin_s)
            known = [(job, life_s) for job, life_s in lived if job.submit_s < end_s]
            for window_s, scores in score_demand(model, known, from_s=begin_s, until_s=end_s).items():
                kept = {key: float(scores[key]) for key in DEMAND_SCORES}
                by_window.setdefault(window_s, []).append(Scored(name, begin_s, end_s, False, kept, window_s))
            progress(done + 1, len(stretches))
        for window_s, rows in by_window.items():
            whole = _pooled([row.scores for row in rows])
            found += [*rows, Scored(name, rolling.from_s, rolling.until_s, True, whole, window_s)]
    return found


def _as_of(lived: Sequence[Lived], at_s: float) -> tuple[list[Lived], list[Lived]]:
    """What had ended by an instant, and what ran then with its age, each job having started on arrival."""
    submitted = [(job, life_s) for job, life_s in lived if job.submit_s < at_s]
    past = [(job, life_s) for job, life_s in submitted if job.submit_s + life_s <= at_s]
    past.sort(key=lambda one: (one[0].submit_s + one[1], one[0].job_id))
    return past, [(job, at_s - job.submit_s) for job, life_s in submitted if job.submit_s + life_s > at_s]


def _pooled(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Scores of all stretches together: each a mean over the cells that it is taken over."""
    cells = np.array([part["cells"] for part in parts])
    weights = {
        "precision": cells * [part["yes_in"] for part in parts],
        "recall": cells * [part["arrivals_in"] for part in parts],
    }
    pooled = {}
    for key in DEMAND_SCORES:
        weight = weights.get(key, cells)
        values = np.array([part[key] for part in parts])
        pooled[key] = float((values * weight).sum() / weight.sum()) if weight.sum() > 0 else math.nan
    return pooled | {"cells": float(cells.sum())}


def write_backtest(out: Path, found: Sequence[Scored], inputs: Mapping[str, Any]) -> list[Path]:
    """Write `backtest.csv`, one row a model and stretch, and `backtest.json` with the inputs besides."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [flat(one) for one in found]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table, document = out / "backtest.csv", out / "backtest.json"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(finite({**inputs, "rows": rows}), indent=1, allow_nan=False)
    document.write_text(text + "\n", encoding="utf-8")
    return [table, document]


def flat(one: Scored) -> dict[str, Any]:
    """Scores as one flat record."""
    stretch = OVERALL if one.is_overall else "stretch"
    kind = "lifetime" if one.window_s is None else "demand"
    place = {"kind": kind, "model": one.model, "rows": stretch, "origin_s": one.origin_s}
    return {**place, "until_s": one.until_s, "window_s": one.window_s, **one.scores}


def _require_jobs(record: Record, rolling: Rolling) -> None:
    submit_s = record.submit_s()
    if not len(record) or not submit_s[0] < rolling.from_s:
        raise SettingError(f"nothing is submitted before --from {rolling.from_s:g} s: nothing to learn from")
    if not ((submit_s >= rolling.from_s) & (submit_s < rolling.until_s)).any():
        raise SettingError(
            f"nothing is submitted from --from {rolling.from_s:g} s until --until {rolling.until_s:g} s: "
            "nothing to score"
        )


def _joined(parts: Sequence[Forecasts]) -> Forecasts:
    return Forecasts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
