"""What calibration can be for: one file and one line here for each objective."""

from collections.abc import Mapping

from antecast_executor.calibration.objectives import deadline, jct, makespan, promise
from antecast_executor.calibration.objectives.base import BROKEN, Objective

OBJECTIVES: Mapping[str, Objective] = {
    "jct": jct,
    "deadline": deadline,
    "makespan": makespan,
    "promise": promise,
}

__all__ = ["BROKEN", "OBJECTIVES", "Objective"]
