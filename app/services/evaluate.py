"""How good forecasts are on a record: one document for everything that can be scored from the files given."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from data.history import History, content_hash
from data.pairs import read_pairs
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from data.splits import started_s
from domain.errors import SettingError
from domain.forecasts import LifetimeForecaster
from models import LIFETIME_MODELS, Training
from models.backtest import Progress, Record, record_of
from models.evaluation.demand import evaluate_demand, evaluate_levels, read_series
from models.evaluation.lives import evaluate_lives
from models.interference.scores import score_interference
from simulator.report import finite

DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Question:
    """What to score; the fields are the command line's options of the same names."""

    jobs: Path | None
    pools: Path | None
    history: Path | None
    series: Path | None
    pairs: Path | None
    train_until_s: float
    eval_from_s: float
    file_format: str = "csv"
    lives: str = "hazard"
    retrain_days: float = 0.0
    retrain_demand_days: float = 1.0
    series_train_until_s: float | None = None
    until_s: float | None = None
    parts: tuple[str, ...] = ("lifetime", "demand", "levels", "interference")
    seed: int = 0
    is_lenient: bool = False


def evaluate(question: Question, bar_for: Callable[[str], Progress]) -> dict[str, Any]:
    """Read the files and score everything they allow.

    Raises:
        InputError: with every fault found in a file.
        SettingError: for options that contradict each other, or where there is nothing to score.
    """
    unknown = set(question.parts) - set(PARTS)
    if unknown or not question.parts:
        raise SettingError(
            f"--parts takes {', '.join(PARTS)}; {', '.join(sorted(unknown)) or 'nothing'} is not one"
        )
    if question.lives not in LIFETIME_MODELS:
        raise SettingError(f"there is no lifetime model {question.lives!r}: {', '.join(LIFETIME_MODELS)}")
    history, quotas = _read(question)
    frame = history.frame
    _require_instants(frame, question)
    record = record_of(frame, math.inf if question.until_s is None else question.until_s)
    report: dict[str, Any] = {
        "inputs": {"source": history.source, "jobs": len(frame), "jobs_sha256": content_hash(frame)},
        "settings": {
            name: getattr(question, name)
            for name in (
                "train_until_s",
                "eval_from_s",
                "until_s",
                "lives",
                "retrain_days",
                "retrain_demand_days",
                "seed",
            )
        },
    }
    for part in question.parts:
        found = PARTS[part](question, record, quotas, bar_for)
        if found is not None:
            report[part] = found
    return report


def _lifetime(
    question: Question, record: Record, quotas: Mapping[str, int], bar_for: Callable[[str], Progress]
) -> dict[str, Any]:
    return evaluate_lives(
        record,
        {question.lives: lambda: _model(question, quotas)},
        train_until_s=question.train_until_s,
        eval_from_s=question.eval_from_s,
        progress_for=lambda name: bar_for(f"lives: {name}"),
    )


def _demand(
    question: Question, record: Record, quotas: Mapping[str, int], bar_for: Callable[[str], Progress]
) -> dict[str, Any]:
    return evaluate_demand(
        record,
        quotas,
        train_until_s=question.train_until_s,
        eval_from_s=question.eval_from_s,
        retrain_every_s=question.retrain_demand_days * DAY_S or None,
        seed=question.seed,
        progress=bar_for("demand"),
    )


def _levels(question: Question, *_others: object) -> dict[str, Any] | None:
    if question.series is None:
        return None
    return evaluate_levels(
        read_series(question.series),
        train_until_s=question.series_train_until_s or question.train_until_s,
        retrain_every_s=question.retrain_demand_days * DAY_S or None,
        seed=question.seed,
    )


def _interference(question: Question, *_others: object) -> dict[str, Any] | None:
    return None if question.pairs is None else score_interference(read_pairs(question.pairs))


PARTS: Final[dict[str, Callable[..., dict[str, Any] | None]]] = {
    "lifetime": _lifetime,
    "demand": _demand,
    "levels": _levels,
    "interference": _interference,
}
"""What can be scored; the last two only where their files are given."""


def write_report(out: Path, report: Mapping[str, Any]) -> Path:
    """Write DIR/report.json; numbers that are none become null."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "report.json"
    path.write_text(json.dumps(finite(report), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return path


def quotas_of(frame: pd.DataFrame, until_s: float) -> dict[str, int]:
    """Where no file says the quotas: the most GPUs each pool's jobs of before an instant held at once."""
    quotas: dict[str, int] = {}
    early = frame[frame["submit_s"] < until_s]
    for pool, own in early.groupby("pool", sort=True):
        start_s = started_s(own).to_numpy(np.float64)
        end_s = start_s + own["duration_s"].to_numpy(np.float64)
        gpus = own["num_gpus"].to_numpy(np.int64)
        order = np.lexsort((np.repeat([0, 1], len(own)), np.concatenate([end_s, start_s])))
        held = np.cumsum(np.concatenate([-gpus, gpus])[order])
        quotas[str(pool)] = int(max(held.max(), gpus.max()))
    return quotas


def read_history(path: Path, pools: Path | None, file_format: str, *, is_lenient: bool) -> History:
    """Read a file of jobs, held against the quotas where they are given.

    Raises:
        InputError: with every fault found in a file.
        SettingError: for an unknown format.
    """
    if file_format not in READERS:
        raise SettingError(f"unknown format {file_format!r}; there are: {', '.join(READERS)}")
    quotas = None if pools is None else read_pools(pools)
    return READERS[file_format](path, quotas, is_lenient=is_lenient)


def _read(question: Question) -> tuple[History, dict[str, int]]:
    path = question.jobs if question.history is None else question.history
    if path is None or (question.jobs is not None and question.history is not None):
        raise SettingError(
            "give either --jobs (with --pools), a benchmark file, or --history, an imported one"
        )
    if question.jobs is not None and question.pools is None:
        raise SettingError("--jobs needs --pools: demand is forecast within the quotas")
    history = read_history(path, question.pools, question.file_format, is_lenient=question.is_lenient)
    if question.pools is None:
        return history, quotas_of(history.frame, question.train_until_s)
    return history, dict(read_pools(question.pools))


def _require_instants(frame: pd.DataFrame, question: Question) -> None:
    if question.eval_from_s < question.train_until_s:
        raise SettingError(
            "--eval-from lies before --train-until: forecasts would be scored on what they learned"
        )
    first_s, last_s = float(frame["submit_s"].iloc[0]), float(frame["submit_s"].iloc[-1])
    if not first_s < question.train_until_s:
        raise SettingError(
            f"nothing is submitted before --train-until {question.train_until_s:g} s: "
            f"the first job is at {first_s:g} s, so there is nothing to learn from"
        )
    if question.eval_from_s > last_s:
        raise SettingError(
            f"nothing is submitted from --eval-from {question.eval_from_s:g} s on: "
            f"the last job is at {last_s:g} s"
        )


def _model(question: Question, quotas: Mapping[str, int]) -> LifetimeForecaster:
    """An untrained model as a replay would have it: `learn` trains it."""
    return LIFETIME_MODELS[question.lives](
        Training(
            quotas=quotas,
            past=(),
            censored=(),
            now_s=question.train_until_s,
            retrain_every_s=question.retrain_days * DAY_S or None,
            seed=question.seed,
        )
    )
