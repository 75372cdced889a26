"""Random scenarios, for ablations: a past stretch per pool, whatever the hour, said with certainty."""

import math
from typing import ClassVar

import numpy as np

from models.scenarios.stretches import Floats, Ints, PastStretches


class RandomStretches(PastStretches):
    """What each pool did after some past instant of its own, the same in all scenarios.

    A forecast that is right on average over many draws and says nothing of now: neither the hour nor what
    has just arrived counts, and pools that peak together no longer do.
    """

    slot_s: ClassVar[float] = 300.0

    def _draw(self, at_s: float, salt: int = 0) -> Floats:
        rng = self._rng(math.floor(at_s / self.slot_s), salt)
        known_cells = int(self._known.max())
        cells = np.minimum(np.arange(len(self._edges) - 1), known_cells - 1)
        main, donors = (self._rows(least, rng) for least in (1, known_cells))
        rows = np.where(cells < self._known[main][:, None], main[:, None], donors[:, None])
        pools = np.arange(len(self._unknown))
        drawn = self._tables[:, rows, pools[:, None], cells[None, :]]
        lengths = np.diff(self._edges)
        drawn[1] *= lengths / lengths[cells]
        return np.repeat(drawn[:, None], self._num_scenarios, axis=1)

    def _rows(self, least_cells: int, rng: np.random.Generator) -> Ints:
        """For each pool a row of which `least_cells` are known."""
        candidates = np.flatnonzero(self._known >= least_cells)
        return np.asarray(rng.choice(candidates, len(self._unknown)), dtype=np.int64)
