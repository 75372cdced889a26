"""The trained part: running life tables stacked by a logistic regression, and trees on top.

The hazard of a bin given that it was reached, on a logit scale: Cox (J. R. Stat. Soc. B 34:2, 1972, section
6); with a learned function of the features, Gensheimer and Narasimhan (nnet-survival, PeerJ 7:e6257, 2019).
Here each row starts from what the running tables said of it, so the trees learn only what is to be
corrected, and what they learn still holds when the lives drift.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import lightgbm
import numpy as np
import numpy.typing as npt

from models.lifetime.features import PLAIN, RELATIVE, JobFeatures
from models.lifetime.lives import Floats, Life, Rows
from models.lifetime.tables import EDGES_S, MEMORIES, MIDDLE, NUM_BINS, Array, survival_of

NUM_TREES: Final = 60
_PARAMS: Final = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 7,
    "min_data_in_leaf": 500,
    "lambda_l2": 20.0,
    "boost_from_average": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}

_RIDGE: Final = 50.0
"""Pull of the stack towards the mean of its logits, in rows."""
_NEWTON_STEPS: Final = 6

_EVEN_DEATHS: Final = 30.0
"""Weighted deaths in a bin at which training and the middle table by itself are trusted alike."""

_LONG_RUN_SHARE: Final = 0.05
"""Chance that a job's lives are not like the latest but like the long run: today's regime may be over."""

_LN_EDGES: Final = np.log(EDGES_S).astype(np.float32)
_NUM_LEADING: Final = 2 + len(MEMORIES)
_NUM_COLUMNS: Final = _NUM_LEADING + len(RELATIVE) + len(PLAIN)


@dataclass(frozen=True)
class HazardModel:
    """Trained hazards.

    Attributes:
        stack: weight of each memory's logit and the intercept, shape (memories + 1,).
        trust: share of what training says, per bin, against the middle table, shape (bins,).
        columns: which of the columns the trees see.
        booster: the trees.
    """

    stack: Floats
    trust: Floats
    columns: npt.NDArray[np.intp]
    booster: lightgbm.Booster

    def survival(self, features: JobFeatures) -> Floats:
        """S of a job at each edge of the grid, shape (bins,): non-increasing in (0, 1]."""
        logits = features.logits
        offsets = _offsets(logits, self.stack)
        relative = _LN_EDGES[:, None] - features.relative
        table = _columns(logits, offsets, features.exposures, relative, features.plain)
        scores = self.booster.predict(
            table[:, self.columns], raw_score=True, num_threads=1, predict_disable_shape_check=True
        )
        middle = logits[MIDDLE]
        trained = survival_of(middle + self.trust * (offsets + scores - middle))
        long_run = survival_of(logits[-1])
        mixed: Floats = (1.0 - _LONG_RUN_SHARE) * trained + _LONG_RUN_SHARE * long_run
        return mixed

    def text(self) -> str:
        """The trees as LightGBM writes them: the same training gives the same bytes."""
        return str(self.booster.model_to_string())


def untrained_survival(features: JobFeatures) -> Floats:
    """What the running tables say of a job by themselves: S at each edge, shape (bins,)."""
    return survival_of(features.logits[MIDDLE])


def train(lives: Sequence[Life], rows: Rows, *, seed: int) -> HazardModel:
    """Fit the stack, then the trees on what it leaves over.

    Args:
        lives: whose features the rows use.
        rows: of `expand`, at least one.
        seed: of LightGBM's generators.
    """
    features = [life.features for life in lives]
    logits = np.stack([one.logits for one in features], axis=1)[:, rows.life, rows.bin]
    stack = _fit_stack(logits, rows)
    offsets = _offsets(logits, stack)
    table = _columns(
        logits,
        offsets,
        np.stack([one.exposures for one in features])[rows.life, rows.bin],
        _LN_EDGES[rows.bin][:, None] - np.stack([one.relative for one in features])[rows.life],
        np.stack([one.plain for one in features])[rows.life],
    )
    is_known = ~np.isnan(table).all(axis=0)
    data = lightgbm.Dataset(
        table[:, is_known],
        rows.has_died,
        weight=rows.weight,
        init_score=offsets,
        params={"max_bin": 63, "verbosity": -1},
    )
    booster = lightgbm.train({**_PARAMS, "seed": seed}, data, NUM_TREES)
    deaths = np.bincount(rows.bin, rows.weight * rows.has_died, NUM_BINS)
    trust = deaths / (deaths + _EVEN_DEATHS)
    return HazardModel(stack, trust, np.flatnonzero(is_known), booster)


def _fit_stack(logits: Array, rows: Rows) -> Floats:
    """Ridge logistic regression of `has_died` on the memories' logits, by Newton's method."""
    design = np.column_stack((*logits.astype(np.float64), np.ones(len(rows.bin))))
    start = np.append(np.full(len(MEMORIES), 1.0 / len(MEMORIES)), 0.0)
    stack = start
    ridge = _RIDGE * np.eye(len(start))
    for _ in range(_NEWTON_STEPS):
        expected = 1.0 / (1.0 + np.exp(-design @ stack))
        slope = design.T @ (rows.weight * (rows.has_died - expected)) - ridge @ (stack - start)
        weight = rows.weight * expected * (1.0 - expected)
        stack = stack + np.linalg.solve((design * weight[:, None]).T @ design + ridge, slope)
    return stack


def _offsets(logits: Array, stack: Floats) -> Floats:
    """Stacked logits, shape (rows,), of logits of shape (memories, rows)."""
    offsets: Floats = stack[:-1] @ logits + stack[-1]
    return offsets


def _columns(logits: Array, offsets: Floats, exposures: Array, relative: Array, plain: Array) -> Array:
    """What the trees see, shape (rows, columns).

    Args:
        logits: shape (memories, rows).
        offsets: stacked logits, shape (rows,).
        exposures: shape (rows,).
        relative: ln edge minus the values of `RELATIVE`, shape (rows, relative).
        plain: values of `PLAIN`, shape (rows, plain) or, when the same for all, (plain,).
    """
    table = np.empty((len(offsets), _NUM_COLUMNS), np.float32)
    table[:, 0] = offsets
    table[:, 1] = exposures
    table[:, 2:_NUM_LEADING] = (logits - offsets).T
    last = _NUM_LEADING + len(RELATIVE)
    table[:, _NUM_LEADING:last] = relative
    table[:, last:] = plain
    return table
