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

from models.lifetime.features import CLOCK, PLAIN, JobFeatures
from models.lifetime.lives import Floats, Indices, Rows
from models.lifetime.sampling import Life
from models.lifetime.tables import EDGES_S, MEMORIES, MIDDLE, NUM_BINS, Array, survival_of

NUM_TREES: Final = 150
_PARAMS: Final = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 200,
    "lambda_l2": 20.0,
    "boost_from_average": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}

_RIDGE: Final = 50.0
"""Pull of the stack towards the mean of its logits, in rows."""
_NEWTON_STEPS: Final = 8
_LEAST_STEP: Final = 1e-3

_EVEN_DEATHS: Final = 30.0
"""Weighted deaths in a bin at which training and the middle table by itself are trusted alike."""

_LONG_RUN_SHARE: Final = 0.08
"""Chance that a job's lives are not like the latest but like the long run: today's regime may be over."""

LEAST_SPAN_S: Final = 28 * 86_400.0
"""Span of the submits trained on from which the trees see the hour and the weekday."""

_LN_EDGES: Final = np.log(EDGES_S).astype(np.float32)
_NUM_MEMORIES: Final = len(MEMORIES)


@dataclass(frozen=True)
class Columns:
    """Which of the features a model uses: those that its training data had.

    Attributes:
        logits: chains and memories, the three of the first chain always; `JobFeatures.logits` has more.
        relative, plain: of `RELATIVE` and `PLAIN`.
    """

    logits: Indices
    relative: Indices
    plain: Indices

    @property
    def number(self) -> int:
        """Columns of the table that the trees see."""
        return 2 + len(self.logits) + len(self.relative) + len(self.plain)


@dataclass(frozen=True)
class HazardModel:
    """Trained hazards.

    Attributes:
        stack: weight of each of the logits used and the intercept, shape (logits + 1,).
        trust: share of what training says, per bin, against the middle table, shape (bins,).
        columns: what the trees see.
        booster: the trees.
    """

    stack: Floats
    trust: Floats
    columns: Columns
    booster: lightgbm.Booster

    def survival(self, features: JobFeatures) -> Floats:
        """S of a job at each edge of the grid, shape (bins,): non-increasing in (0, 1]."""
        survival: Floats = self.survival_of_all([features])[0]
        return survival

    def survival_of_all(self, features: Sequence[JobFeatures], *, num_threads: int = 1) -> Floats:
        """The same of many jobs, shape (jobs, bins); what is said of one does not depend on the others."""
        made = [self._table_of(one) for one in features]
        if not made:
            return np.zeros((0, NUM_BINS))
        logits, offsets, tables = zip(*made, strict=True)
        table = tables[0] if len(made) == 1 else np.concatenate(tables)
        scores = self.booster.predict(
            table, raw_score=True, num_threads=num_threads, predict_disable_shape_check=True
        )
        raised = np.stack(offsets) + np.asarray(scores).reshape(len(made), NUM_BINS)
        middle = np.stack([one[MIDDLE] for one in logits])
        trained = survival_of(middle + self.trust * (raised - middle))
        long_run = survival_of(np.stack([one[_NUM_MEMORIES - 1] for one in logits]))
        mixed: Floats = (1.0 - _LONG_RUN_SHARE) * trained + _LONG_RUN_SHARE * long_run
        return mixed

    def _table_of(self, features: JobFeatures) -> tuple[Array, Floats, Array]:
        """A job's logits, stacked logits and the rows that the trees see of it."""
        used = self.columns
        logits = features.logits[used.logits].astype(np.float32)
        offsets = _offsets(logits, self.stack)
        relative = _LN_EDGES[:, None] - features.relative[used.relative].astype(np.float32)
        table = _table(used, logits, offsets, features.exposures, relative, features.plain[used.plain])
        return logits, offsets, table

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
    relative = np.stack([one.relative for one in features])
    plain = np.stack([one.plain for one in features])
    used = Columns(_chains_used(features), _known(relative), _plain_used(lives, plain))
    halves = np.stack([one.logits[used.logits] for one in features])[rows.life, :, rows.bin]
    logits = np.ascontiguousarray(halves.T, np.float32)
    stack = _fit_stack(logits, rows)
    offsets = _offsets(logits, stack)
    exposures = np.stack([one.exposures for one in features])[rows.life, rows.bin]
    distances = _LN_EDGES[rows.bin][:, None] - relative[:, used.relative][rows.life].astype(np.float32)
    table = _table(used, logits, offsets, exposures, distances, plain[:, used.plain][rows.life])
    data = lightgbm.Dataset(
        table,
        rows.has_died,
        weight=rows.weight,
        init_score=offsets,
        params={"max_bin": 63, "verbosity": -1},
    )
    booster = lightgbm.train({**_PARAMS, "seed": seed}, data, NUM_TREES)
    deaths = np.bincount(rows.bin, rows.weight * rows.has_died, NUM_BINS)
    trust = deaths / (deaths + _EVEN_DEATHS)
    return HazardModel(stack, trust, used, booster)


def _known(values: npt.NDArray[np.float16]) -> Indices:
    """Columns with at least two different values, unknown counting as one of them."""
    is_same = (values == values[0]) | (np.isnan(values) & np.isnan(values[0]))
    return np.flatnonzero(~is_same.all(axis=0))


def _plain_used(lives: Sequence[Life], plain: npt.NDArray[np.float16]) -> Indices:
    submits_s = [life.job.submit_s for life in lives]
    used = _known(plain)
    if max(submits_s) - min(submits_s) >= LEAST_SPAN_S:
        return used
    return np.array([place for place in used if PLAIN[place] not in CLOCK], np.intp)


def _chains_used(features: Sequence[JobFeatures]) -> Indices:
    """Rows of the logits but for those of chains that only repeat the first one."""
    number = len(features[0].logits)
    used = [
        chain
        for chain in range(0, number, _NUM_MEMORIES)
        if chain == 0 or any(not np.array_equal(one.logits[chain], one.logits[0]) for one in features)
    ]
    return (np.array(used)[:, None] + np.arange(_NUM_MEMORIES)).ravel()


def _fit_stack(logits: Array, rows: Rows) -> Floats:
    """Ridge logistic regression of `has_died` on the logits, by Newton's method with halved steps."""
    design = np.column_stack((*logits.astype(np.float64), np.ones(len(rows.bin))))
    start = np.append(np.full(len(logits), 1.0 / len(logits)), 0.0)
    ridge = _RIDGE * np.eye(len(start))

    def loss(stack: Floats) -> float:
        scores = design @ stack
        misfit = rows.weight @ (np.logaddexp(0.0, scores) - rows.has_died * scores)
        return float(misfit + 0.5 * _RIDGE * ((stack - start) ** 2).sum())

    stack, reached = start, loss(start)
    for _ in range(_NEWTON_STEPS):
        expected = 1.0 / (1.0 + np.exp(-np.clip(design @ stack, -30.0, 30.0)))
        slope = design.T @ (rows.weight * (rows.has_died - expected)) - ridge @ (stack - start)
        weight = rows.weight * expected * (1.0 - expected)
        step = np.linalg.solve((design * weight[:, None]).T @ design + ridge, slope)
        share = 1.0
        while (there := loss(stack + share * step)) > reached and share > _LEAST_STEP:
            share /= 2.0
        if there > reached:
            break
        stack, reached = stack + share * step, there
    return stack


def _offsets(logits: Array, stack: Floats) -> Floats:
    """Stacked logits, shape (rows,), of logits of shape (logits, rows)."""
    offsets: Floats = stack[:-1] @ logits + stack[-1]
    return offsets


def _table(
    used: Columns,
    logits: Array,
    offsets: Floats,
    exposures: npt.NDArray[np.floating],
    relative: Array,
    plain: npt.NDArray[np.floating],
) -> Array:
    """What the trees see, shape (rows, columns).

    Args:
        used: which columns.
        logits: shape (logits, rows).
        offsets: stacked logits, shape (rows,).
        exposures: shape (rows,).
        relative: ln edge minus the values of `RELATIVE`, shape (rows, relative).
        plain: values of `PLAIN`, shape (rows, plain) or, when the same for all, (plain,).
    """
    table = np.empty((len(offsets), used.number), np.float32)
    table[:, 0] = offsets
    table[:, 1] = exposures
    first = 2 + len(used.logits)
    last = first + len(used.relative)
    table[:, 2:first] = (logits - offsets).T
    table[:, first:last] = relative
    table[:, last:] = plain
    return table
