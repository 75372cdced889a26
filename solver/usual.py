"""What the cluster's own jobs usually hold: the least that is expected of them far ahead.

Jobs that will run in half a day have mostly not come yet, and forecasts of their number and lives fall short
together: on days 9 to 19 of the Philly trace own use 16 to 24 hours ahead exceeded what was said at 0.9 in
17 of 100 cases. How much own jobs have held in the last two weeks, weekends and bursts included, is known.
"""

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_FAR_S: Final = 8 * 3600.0
"""From here on jobs of today tell less than what is usual."""
_EVERY_S: Final = 1800.0
_SAMPLES: Final = 14 * 48
_LEAST_SAMPLES: Final = 48
_SEED: Final = 0


class UsualUse:
    """GPUs held by own jobs, looked at every half hour, for two weeks.

    Args:
        begins_s: (cells,) beginnings of the cells of the grid, from now on.
    """

    def __init__(self, begins_s: FloatArray) -> None:
        self._is_far = begins_s >= _FAR_S
        self._seen: deque[float] = deque(maxlen=_SAMPLES)
        self._seen_s = -np.inf

    def note(self, now_s: float, own_gpus: int) -> None:
        """Own jobs hold so many GPUs now."""
        if now_s - self._seen_s >= _EVERY_S:
            self._seen_s = now_s
            self._seen.append(float(own_gpus))

    def floor(self, num_scenarios: int) -> FloatArray:
        """(scenarios, cells) GPUs that own jobs hold at least; 0 in near cells, and before a day was seen.

        Each scenario has a level of its own, spread evenly over those seen. A single one is no sample but
        what will happen, and has none.
        """
        levels = np.zeros(num_scenarios)
        if num_scenarios > 1 and len(self._seen) >= _LEAST_SAMPLES:
            spread = np.linspace(0, len(self._seen) - 1, num_scenarios).astype(int)
            levels = np.random.default_rng(_SEED).permutation(np.sort(self._seen)[spread])
        return np.asarray(levels[:, None] * self._is_far)
