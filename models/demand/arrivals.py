"""WillJobsArrive after SIA (SoCC 2023): whether a pool will be asked for anything within a window."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import lightgbm
import numpy as np

from models.demand.facts import KeptRow
from models.demand.features import FEATURE_NAMES, Bools, Floats, between_anchors

_RECALLS: Final = ((300.0, 0.85), (3600.0, 0.80), (43_200.0, 0.95))
_HELD_OUT_FROM: Final = (0.4, 0.55, 0.7, 0.85, 1.0)
_LEAST_ROWS: Final = 200
_MARGIN: Final = 0.01
_STEP: Final = 0.02
_TREES: Final = 100
_HIGHEST: Final = 0.0
"""No threshold is higher, log-odds: what is more likely than not is a yes."""
_RISING: Final = ("arrivals_", "load_", "days_", "slots_", "cadence_within", "arrival_soon")
_FALLING: Final = ("since_arrival",)
_PARAMETERS: Final = {
    "objective": "binary",
    "num_leaves": 8,
    "learning_rate": 0.05,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.4,
    "max_bin": 63,
    "monotone_constraints": [
        int(name.startswith(_RISING)) - int(name.startswith(_FALLING)) for name in FEATURE_NAMES
    ],
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


def recall_target(window_s: float) -> float:
    """Recall that a window's threshold is set for: a miss slows jobs down, a false alarm holds GPUs."""
    return between_anchors(_RECALLS, window_s)


class ArrivalForecaster:
    """WillJobsArrive for one window: a booster for all pools, and the score from which on the answer is yes.

    The threshold is first the one that reaches the recall on later parts of what is learned from, each held
    out from a model of what lies before it. Then it moves with each window that is over and in which jobs
    arrived: down after a miss, up by less after a hit, so that the recall is kept in the long run whatever
    drifts (quantile tracking, see `models.calibration.adaptive`). A hundredth more than that is aimed at.

    Args:
        window_s: the window.
        seed: of the boosters.
    """

    def __init__(self, window_s: float, seed: int) -> None:
        self._window_s = window_s
        self._recall = min(1.0 - _MARGIN, recall_target(window_s) + _MARGIN)
        self._seed = seed
        self._booster: Any = None
        self._threshold: float | None = None
        self.settled_s = -math.inf

    @property
    def is_learned(self) -> bool:
        """Whether there was enough to learn from."""
        return self._booster is not None

    def learn(self, rows: Sequence[KeptRow]) -> None:
        """Learn from rows whose window is over, in the order of time; too few leave it as it was."""
        if not rows:
            return
        features = np.stack([row.features for row in rows])
        labels = np.stack([row.outcomes[0] for row in rows]) > 0
        if self.is_learned:
            self.catch_up(rows)
        elif not self._set_out(rows, features, labels):
            return
        self._booster = _boost(features, labels, self._seed)
        if labels.any() and self._threshold is not None:
            own = _threshold(_scores(self._booster, features)[labels], self._recall)
            self._threshold = min(self._threshold, own, _HIGHEST)
        self.settled_s = rows[-1].instant_s

    def catch_up(self, rows: Sequence[KeptRow]) -> None:
        """Take in the outcomes that have become known since the last time, in their order."""
        if not self.is_learned:
            return
        new = [row for row in rows if row.instant_s > self.settled_s]
        if not new:
            return
        scores = _scores(self._booster, np.stack([row.features for row in new]))
        for row, of_pools in zip(new, scores, strict=True):
            self._track(of_pools[row.outcomes[0] > 0])
        self.settled_s = new[-1].instant_s

    def will_arrive(self, features: Floats) -> Bools:
        """Answer for each row of features, shape (pools,); yes where nothing is learned."""
        if self._threshold is None:
            return np.ones(len(features), dtype=np.bool_)
        return np.asarray(_scores(self._booster, features[None])[0] >= self._threshold)

    def probability(self, features: Floats) -> Floats:
        """P(a job arrives within the window) for each row of features; 1 where nothing is learned."""
        if not self.is_learned:
            return np.ones(len(features))
        return np.asarray(1.0 / (1.0 + np.exp(-_scores(self._booster, features[None])[0])))

    def state(self) -> dict[str, Any]:
        """Everything that was learned, as numbers and a text."""
        text = self._booster.model_to_string() if self.is_learned else None
        return {"booster": text, "threshold": self._threshold, "settled_s": self.settled_s}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        text = state["booster"]
        self._booster = None if text is None else lightgbm.Booster(model_str=text)
        self._threshold, self.settled_s = state["threshold"], state["settled_s"]

    def _set_out(self, rows: Sequence[KeptRow], features: Floats, labels: Bools) -> bool:
        """Find a threshold on parts held out; whether there is enough for one."""
        cuts = [int(len(rows) * share) for share in _HELD_OUT_FROM]
        found = []
        for begin, end in pairwise(cuts):
            is_over = [row.instant_s + self._window_s <= rows[begin].instant_s for row in rows[:begin]]
            known = labels[: sum(is_over)]
            if known.size >= _LEAST_ROWS and known.any() and not known.all() and labels[begin:end].any():
                earlier = _boost(features[: len(known)], known, self._seed)
                found.append(_scores(earlier, features[begin:end])[labels[begin:end]])
        if not found:
            return False
        self._threshold = _threshold(np.concatenate(found), self._recall)
        return True

    def _track(self, scores: Floats) -> None:
        """Move the threshold after windows in which jobs arrived, given their scores."""
        if self._threshold is not None:
            hits = float((scores >= self._threshold).sum())
            moved = self._threshold + _STEP * (hits - self._recall * len(scores))
            self._threshold = min(moved, _HIGHEST)


def _threshold(scores: Floats, recall: float) -> float:
    """The highest score that a share `recall` of the scores reaches."""
    return float(np.sort(scores)[math.floor((1.0 - recall) * len(scores))])


def _boost(features: Floats, labels: Bools, seed: int) -> Any:
    data = lightgbm.Dataset(features.reshape(-1, features.shape[-1]), labels.ravel().astype(np.float64))
    return lightgbm.train(_PARAMETERS | {"seed": seed}, data, num_boost_round=_TREES)


def _scores(booster: Any, features: Floats) -> Floats:
    """Log-odds, shape (instants, pools), of features of shape (instants, pools, features).

    A booster does not keep its number of threads, and starting them costs more than trees.
    """
    flat = features.reshape(-1, features.shape[-1])
    scores: Floats = booster.predict(flat, raw_score=True, num_threads=1)
    return scores.reshape(features.shape[:2])
