"""Whole distributions from one booster: the hazard of each of a row's bins, going up.

Discrete hazards (Singer and Willett, J. Educ. Stat. 18:2, 1993) on the scale of GPUs instead of time: of
the outcomes that exceed a bin's lower edge, which share does not exceed its upper one. A row has edges of its
own, and the booster sees how far each lies from what the pool asked for lately and from its quota: distances,
so that pools of all sizes, and one seen for the first time, speak through the same trees.
"""

from typing import Any, Final, NamedTuple, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_ROWS: Final = 120_000
_LEAST_ROWS: Final = 200
_TREES: Final = 80
_PARAMETERS: Final = {
    "objective": "binary",
    "num_leaves": 6,
    "learning_rate": 0.08,
    "min_data_in_leaf": 200,
    "lambda_l2": 20.0,
    "feature_fraction": 0.4,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


class Rows(NamedTuple):
    """What a distribution is asked of.

    Attributes:
        features: shape (rows, features).
        edges: upper edges of the bins, GPUs, non-decreasing; the last is the most an outcome can be, and
            where edges are equal, so is the bin empty; shape (rows, bins).
        anchors: what edges are measured against, GPUs, NaN where unknown, shape (rows, anchors).
        least: least that an outcome can be, GPUs, shape (rows,).
    """

    features: Floats
    edges: Floats
    anchors: Floats
    least: Floats

    def only(self, is_kept: NDArray[Any]) -> Self:
        """Some of the rows."""
        return type(self)(*(part[is_kept] for part in self))

    def expanded(self, row: NDArray[np.intp], column: NDArray[np.intp]) -> Floats:
        """Features of the bins: the row's, and the edge's distances."""
        edge = np.log1p(np.maximum(self.edges[row, column], 0.0))
        distances = edge[:, None] - np.log1p(np.maximum(self.anchors[row], 0.0))
        top = edge - np.log1p(self.edges[row, -1])
        return np.concatenate([self.features[row], edge[:, None], top[:, None], distances], axis=1)


class BinModel:
    """The hazards of the bins, learned from rows and their outcomes.

    Args:
        booster: LightGBM's, of the log-odds of the hazards.
    """

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    @classmethod
    def fit(cls, rows: Rows, observed: Floats, *, seed: int) -> "BinModel | None":
        """Learn from outcomes, GPUs, shape (rows,); None where there is too little to learn from."""
        if len(observed) < _LEAST_ROWS:
            return None
        place = (rows.edges < observed[:, None]).sum(axis=1)
        below = np.concatenate([rows.least[:, None] - 1.0, rows.edges[:, :-1]], axis=1)
        at_risk = (np.arange(rows.edges.shape[1]) <= place[:, None]) & (rows.edges > below)
        at_risk &= rows.edges < rows.edges[:, -1:]  # the last bin is certain
        row, column = np.nonzero(at_risk)
        is_over = place[row] == column
        if len(row) > _MOST_ROWS:
            drawn = np.random.default_rng(seed).permutation(len(row))[:_MOST_ROWS]
            kept = np.sort(drawn)
            row, column, is_over = row[kept], column[kept], is_over[kept]
        if is_over.all() or not is_over.any():
            return None
        data = lightgbm.Dataset(rows.expanded(row, column), is_over.astype(np.float64))
        return cls(lightgbm.train(_PARAMETERS | {"seed": seed}, data, num_boost_round=_TREES))

    def distribution(self, rows: Rows) -> "Distribution":
        """The distribution of each row's outcome."""
        shape = rows.edges.shape
        row, column = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
        raw = self._booster.predict(rows.expanded(row, column), raw_score=True, num_threads=1)
        hazard = 1.0 / (1.0 + np.exp(-np.asarray(raw).reshape(shape)))
        below = np.concatenate([rows.least[:, None] - 1.0, rows.edges[:, :-1]], axis=1)
        hazard = np.where(rows.edges >= rows.edges[:, -1:], 1.0, np.where(rows.edges > below, hazard, 0.0))
        alive = np.cumprod(1.0 - hazard, axis=1, dtype=np.float64)
        return Distribution(rows.edges, 1.0 - alive, rows.least)

    def text(self) -> str:
        """The booster as LightGBM writes it."""
        return str(self._booster.model_to_string())

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The model whose `text` this is."""
        return cls(lightgbm.Booster(model_str=text))


class Distribution(NamedTuple):
    """P(outcome <= edge) per row and bin; whole GPUs within a bin are equally likely.

    Attributes:
        edges: GPUs, shape (rows, bins), see `Rows`.
        cumulated: shape (rows, bins), non-decreasing, 1 in the last bin.
        least: GPUs, shape (rows,).
    """

    edges: Floats
    cumulated: Floats
    least: Floats

    def up_to(self, values: Floats) -> Floats:
        """P(outcome <= value) of one value per row, whole GPUs."""
        rows = np.arange(len(values))
        place = np.minimum((self.edges < values[:, None]).sum(axis=1), self.edges.shape[1] - 1)
        low_edge, low = self._below(rows, place)
        high_edge, high = self.edges[rows, place], self.cumulated[rows, place]
        share = (values - low_edge) / np.maximum(high_edge - low_edge, 1e-9)
        reached = low + np.minimum(np.maximum(share, 0.0), 1.0) * (high - low)
        reached = np.where(values < self.least, 0.0, reached)
        return np.where(values >= self.edges[:, -1], 1.0, reached)

    def places(self, observed: Floats) -> tuple[Floats, Floats]:
        """P(outcome <= observed - 1) and P(outcome <= observed), each of shape (rows,)."""
        return self.up_to(observed - 1.0), self.up_to(observed)

    def quantiles(self, levels: Floats) -> Floats:
        """Least whole number of GPUs that the outcome does not exceed with each probability.

        Args:
            levels: in [0, 1], shape (rows, levels).
        """
        wanted = np.minimum(levels, 1.0)
        place = (self.cumulated[:, None, :] < wanted[:, :, None] - 1e-12).sum(axis=2)
        place = np.minimum(place, self.edges.shape[1] - 1)
        rows = np.broadcast_to(np.arange(len(levels))[:, None], levels.shape)
        low_edge, low = self._below(rows, place)
        high_edge, high = self.edges[rows, place], self.cumulated[rows, place]
        share = (wanted - low) / np.maximum(high - low, 1e-12)
        share = np.minimum(np.maximum(share, 0.0), 1.0)
        value = low_edge + np.ceil(share * (high_edge - low_edge) - 1e-9)
        value = np.maximum(np.minimum(value, high_edge), self.least[:, None])
        return np.where(levels >= 1.0, self.edges[:, -1:], value)

    def _below(self, rows: NDArray[np.intp], place: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Lower edge of a bin, and P(outcome <= it)."""
        before = np.maximum(place - 1, 0)
        least = self.least[rows] - 1.0
        low_edge = np.where(place > 0, self.edges[rows, before], least)
        low = np.where(place > 0, self.cumulated[rows, before], 0.0)
        return low_edge, low
