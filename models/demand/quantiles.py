"""The distribution of the GPUs that will be asked for within a window, and of those still held at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from models.demand.bins import Rows
from models.demand.calibrated import CalibratedBins, Samples
from models.demand.facts import KeptRow, row_every_s
from models.demand.features import ANCHORS, FEATURE_NAMES, Floats

TARGETS: Final = ("requested", "held")

_ANCHOR_COLUMNS: Final = [FEATURE_NAMES.index(f"{anchor}_of_quota") for anchor in ANCHORS]


@dataclass(frozen=True)
class WindowQuantiles:
    """What pools will ask for in (now, now + window], whole GPUs.

    Attributes:
        levels: in (0, 1), ascending.
        requested: GPUs asked for by the jobs that arrive, capped by the quota; non-decreasing in level, shape
            (pools, levels).
        held: those of them that would still be held at the end of the window, had each job started on
            arrival; likewise.
    """

    levels: tuple[float, ...]
    requested: Floats
    held: Floats


def ladder(largest_gpus: float) -> Floats:
    """Upper edges of bins: 0, 1, 2, 3, 4 and then two to a doubling, up to the first at `largest_gpus`."""
    edges = [0.0, 1.0, 2.0, 3.0, 4.0]
    while edges[-1] < largest_gpus:
        edges.append(edges[-2] * 2.0)
    return np.array(edges)


class WindowForecaster:
    """Distributions of both targets for one window.

    Args:
        window_s: the window.
        quotas: GPUs of each pool, shape (pools,).
        seed: of the boosters.
    """

    def __init__(self, window_s: float, quotas: Floats, seed: int) -> None:
        self._quotas = quotas
        self._edges = np.minimum(ladder(float(quotas.max(initial=1.0))), quotas[:, None])
        every_s = row_every_s(window_s)
        self._of = {
            target: CalibratedBins(len(quotas), window_s, every_s, seed + place)
            for place, target in enumerate(TARGETS)
        }

    @property
    def settled_s(self) -> float:
        """Instant of the last row whose outcome was taken in."""
        return min(one.settled_s for one in self._of.values())

    def learn(self, rows: Sequence[KeptRow], now_s: float) -> None:
        """Learn from rows whose windows are over, in the order of time."""
        for place, one in enumerate(self._of.values()):
            one.learn(self._samples(rows, place), now_s)

    def catch_up(self, rows: Sequence[KeptRow], now_s: float) -> None:
        """Take in the outcomes that have become known since the last time, in their order."""
        for place, one in enumerate(self._of.values()):
            one.catch_up(self._samples(rows, place), now_s)

    def quantiles(self, features: Floats) -> dict[str, Floats]:
        """Quantiles of each target, shape (pools, levels); the quota where nothing is learned."""
        rows = self._rows(features[None])
        return {target: one.quantiles(rows) for target, one in self._of.items()}

    def state(self) -> dict[str, Any]:
        """Everything that was learned, as numbers, lists and texts."""
        return {target: one.state() for target, one in self._of.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for target, one in self._of.items():
            one.restore(state[target])

    def _samples(self, rows: Sequence[KeptRow], place: int) -> Samples:
        instants_s = np.array([row.instant_s for row in rows])
        shape = (0, len(self._quotas), len(FEATURE_NAMES))
        features = np.stack([row.features for row in rows]) if rows else np.empty(shape)
        observed = np.array([row.outcomes[place] for row in rows]).reshape(-1, len(self._quotas))
        return Samples(instants_s, self._rows(features), observed)

    def _rows(self, features: Floats) -> Rows:
        """Rows of features of shape (instants, pools, features), one below the other."""
        number, pools, width = features.shape
        flat = features.reshape(number * pools, width)
        quota = np.tile(self._quotas, number)
        anchors = flat[:, _ANCHOR_COLUMNS] * quota[:, None]
        return Rows(flat, np.tile(self._edges, (number, 1)), anchors, np.zeros(len(flat)))
