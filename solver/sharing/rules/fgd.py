"""Fragmentation gradient descent: where the expected fragmentation grows least.

Weng et al., USENIX ATC 2023. The authors round: the growth goes through a logistic function of 1000 milli and
is cut to whole per cents, so that placements within about 40 milli of each other are equal and the first node
of a fixed order gets the request. The rounding is no detail: `fgd-exact` goes without it, and allocates less.
"""

import numpy as np

from solver.sharing.fragmentation import expected_milli
from solver.sharing.nodes import FloatArray
from solver.sharing.options import Options
from solver.sharing.requests import TaskMix
from solver.sharing.rules.base import Workload


class GradientDescent:
    """Growth of the expected fragmentation of the node."""

    is_drawn = False

    def __init__(self, mix: TaskMix) -> None:
        self._mix = mix

    def cost(self, options: Options) -> FloatArray:
        """Growth, on the scale of the authors, from -100 (best) to 0."""
        growth_milli = growth(options, self._mix)
        return -np.floor(100.0 / (1.0 + np.exp(growth_milli / 1000.0)))


def growth(options: Options, mix: TaskMix) -> FloatArray:
    """By how much the expected fragmentation of the node grows with each option, in milli GPU."""
    return expected_milli(options.after, mix) - expected_milli(options.before, mix)[options.row]


def build(workload: Workload) -> GradientDescent:
    """The rule for this mix."""
    return GradientDescent(workload.mix)
