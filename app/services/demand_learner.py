"""Demand of the pools, to be trained: how it is made, tried on a stretch of a record, and stored."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from app.services.learners import Run
from domain.errors import SettingError
from models.artifacts.store import Store
from models.backtest import Progress, Record, facts, tell
from models.demand.calibrated import LEVELS
from models.demand.pools import PoolDemand
from models.demand.recent_windows import RecentWindows
from models.demand.state import STORE
from models.scores import NINE_LEVELS

_RASTER_S: Final = 3600.0
_NINE: Final = [LEVELS.index(level) for level in NINE_LEVELS]
_HIGH: Final = LEVELS.index(0.95)

STORED_DEMAND: Final[Mapping[str, Mapping[str, Any]]] = {
    "learned": {"count_quiet": True},
    "cautious": {"count_quiet": False},
    "nearest": {"count_quiet": True, "scenarios": "nearest"},
    "corrected": {"count_quiet": True, "scenarios": "corrected"},
}
"""Demand models that can be stored: their names in `models.DEMAND_MODELS`, and how each is set."""


def make_demand(
    name: str, quotas: Mapping[str, int], seed: int, retrain_every_s: float | None = None
) -> PoolDemand:
    """A demand model that says quantiles too, told nothing yet.

    Raises:
        SettingError: if there is none of that name.
    """
    if name not in STORED_DEMAND:
        raise SettingError(f"unknown demand model {name!r}; there are: {', '.join(STORED_DEMAND)}")
    return PoolDemand(quotas, seed=seed, retrain_every_s=retrain_every_s, **STORED_DEMAND[name])


@dataclass(frozen=True)
class DemandLearner:
    """A demand model: asked on the hour for the GPUs requested; missed where they exceed its .95 quantile."""

    name: str
    quotas: Mapping[str, int]
    seed: int = 0

    kind: Final = "demand"
    baseline: Final = "the baseline (quantiles of last week's windows)"

    def __post_init__(self) -> None:
        if self.name not in STORED_DEMAND:
            known = ", ".join(STORED_DEMAND)
            raise SettingError(f"no demand model {self.name!r} can be stored; there are: {known}")

    @property
    def recipe(self) -> dict[str, Any]:
        """Pools and quotas: where they change the model is learned anew from the whole record."""
        return {"pools": list(self.quotas), "quotas": list(self.quotas.values())}

    @property
    def store(self) -> Store:
        """How it is stored."""
        return STORE

    def make(self, from_s: float) -> Any:
        """A model that keeps what it would be trained anew on, and is trained only when told to."""
        model = make_demand(self.name, self.quotas, self.seed, math.inf)
        model.fit((), (), from_s)
        return model

    def make_baseline(self, from_s: float) -> Any:  # noqa: ARG002 - it needs no beginning
        """Quantiles of what the windows of the last week asked for."""
        return RecentWindows(self.quotas)

    def run(
        self,
        model: Any,
        record: Record,
        span: tuple[float, float],
        *,
        most_asked: int,
        progress: Progress | None = None,
    ) -> Run:
        """Ask on the hour, for each window that is over by the end of the span.

        Losses are in units of what the window's cells were asked for on average, so that a window of twelve
        hours does not count for more than one of five minutes.
        """
        truth = _Requested(record, self.quotas)
        instants = _raster(span, most_asked)
        rows: list[tuple[float, float, Any, Any]] = []
        for done, now_s in enumerate(_told(model, record, span, instants)):
            for window_s in model.windows_s:
                if now_s + window_s <= span[1]:
                    came = truth.within(now_s, now_s + window_s)
                    rows.append((now_s, window_s, _requested(model, window_s, now_s), came))
            if progress is not None:
                progress(done + 1, len(instants))
        return _scored(rows, model.windows_s)

    def renamed(self, name: str, seed: int) -> "DemandLearner":
        """The same for another model, such as the one in use."""
        return replace(self, name=name, seed=seed)

    def can_face(self, recipe: Mapping[str, Any]) -> bool:
        """Only a model of the same pools, in the same order, says as many numbers."""
        return recipe.get("pools") == list(self.quotas)


class _Requested:
    """What the pools were asked for: GPUs of the jobs that arrived within a window, capped by the quota."""

    def __init__(self, record: Record, quotas: Mapping[str, int]) -> None:
        place = {pool: k for k, pool in enumerate(quotas)}
        self._quotas = np.array(list(quotas.values()), np.float64)
        of_pool = np.array([place.get(job.pool, -1) for job in record.jobs])
        gpus, submit_s = np.array([float(job.num_gpus) for job in record.jobs]), record.submit_s()
        self._pools = [
            (submit_s[of_pool == k], np.concatenate(([0.0], np.cumsum(gpus[of_pool == k]))))
            for k in range(len(quotas))
        ]

    def within(self, from_s: float, until_s: float) -> Any:
        """GPUs asked for in (from, until], shape (pools,)."""
        found = [
            np.diff(summed[np.searchsorted(submit_s, (from_s, until_s), "right")])[0]
            for submit_s, summed in self._pools
        ]
        return np.minimum(found, self._quotas)


def _raster(span: tuple[float, float], most: int) -> list[float]:
    first, last = math.ceil(span[0] / _RASTER_S), math.floor(span[1] / _RASTER_S)
    step = max(1, math.ceil((last - first) / max(1, most)))
    return [tick * _RASTER_S for tick in range(first, last, step)]


def _told(model: Any, record: Record, span: tuple[float, float], instants: list[float]) -> Iterator[float]:
    """Tell what happens up to and at each instant, then yield it; and all the rest of the span at the end."""
    waiting = iter(instants)
    next_s = next(waiting, math.inf)
    for fact in facts(record, *span):
        while fact.at_s > next_s:
            yield next_s
            next_s = next(waiting, math.inf)
        tell(model, record, fact)
    while next_s < math.inf:
        yield next_s
        next_s = next(waiting, math.inf)


def _requested(model: Any, window_s: float, now_s: float) -> Any:
    """Quantiles of the GPUs requested, shape (pools, levels)."""
    if isinstance(model, RecentWindows):
        return model.requested(window_s, now_s)
    return model.quantiles(window_s, now_s).requested


def _scored(rows: list[tuple[float, float, Any, Any]], windows_s: tuple[float, ...]) -> Run:
    """One row of the run for each window, instant and pool."""
    at_s, losses, missed, scores = [], [], [], {}
    for window_s in windows_s:
        own = [row for row in rows if row[1] == window_s]
        if not own:
            continue
        said, came = np.stack([row[2] for row in own]), np.stack([row[3] for row in own])
        at = np.asarray(NINE_LEVELS)
        off = came[:, :, None] - said[:, :, _NINE]
        loss = np.maximum(at * off, (at - 1.0) * off).mean(axis=2)
        is_missed = came > said[:, :, _HIGH]
        at_s.append(np.repeat([row[0] for row in own], came.shape[1]))
        losses.append((loss / max(float(came.mean()), 1e-9)).ravel())
        missed.append(is_missed.ravel())
        scores[f"pinball_{window_s:g}"] = float(loss.mean())
        scores[f"covered_95_{window_s:g}"] = float((~is_missed).mean())
    if not at_s:
        return Run(np.empty(0), np.empty(0), np.empty(0, np.bool_), {})
    whole = np.concatenate(losses)
    scores = {"pinball": float(whole.mean()), **scores, "num_cells": float(len(whole))}
    return Run(np.concatenate(at_s), whole, np.concatenate(missed), scores)
