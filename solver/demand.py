"""What policies may ask about arrivals."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import Burst


class DemandForecaster(Protocol):
    """Says what pools will ask for, from nothing but what it has been told by the instant it is asked.

    The clairvoyant one reads the truth: the policies it serves are starred.
    """

    @property
    def is_clairvoyant(self) -> bool:
        """Whether it reads the truth."""
        ...

    def new_load_gpus(self, window_s: float, now_s: float) -> Mapping[str, float]:
        """GPUs that jobs arriving in (now, now + window] will ask for, by pool: SIA's TotalNewLoad.

        0 where no arrival is expected, a high estimate otherwise (papers: SIA, section 4).
        """
        ...

    def peaks(self, now_s: float) -> NDArray[np.float64]:
        """Scenarios of the GPUs held by jobs that arrive after `now_s`, if each started at once.

        Returns:
            Array (scenarios, pools, cells of `domain.timegrid.default_grid()`): the peak in the first
            `LOOK_S` of each cell.
            What belongs to one scenario belongs together, so that correlation between pools is kept.
        """
        ...

    def arrivals(self, now_s: float) -> NDArray[np.float64]:
        """Scenarios of the number of jobs that arrive in each cell; same shape and order as `peaks`."""
        ...

    def fresh(self, now_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Peaks and arrivals drawn apart from those of `peaks` and `arrivals`, to check a plan on.

        Shapes as there. Asking changes none of the other answers. One who knows the future says it again.
        """
        ...

    def bursts(self, now_s: float) -> Sequence[Burst]:
        """What is too rare for the scenarios: bursts of the pools, with their rates."""
        ...


class NoDemand:
    """The forecaster of somebody who knows nothing: no arrival is ever expected."""

    is_clairvoyant: Final = False

    def new_load_gpus(self, window_s: float, now_s: float) -> Mapping[str, float]:  # noqa: ARG002
        """0 for every pool."""
        return defaultdict(float)

    def peaks(self, now_s: float) -> NDArray[np.float64]:  # noqa: ARG002
        """One scenario in which nothing arrives; broadcasts over pools and cells."""
        return np.zeros((1, 1, 1))

    def fresh(self, now_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same one scenario."""
        return self.peaks(now_s), self.arrivals(now_s)

    def bursts(self, now_s: float) -> Sequence[Burst]:  # noqa: ARG002
        """None."""
        return ()

    def arrivals(self, now_s: float) -> NDArray[np.float64]:  # noqa: ARG002
        """One scenario in which nothing arrives; broadcasts over pools and cells."""
        return np.zeros((1, 1, 1))
