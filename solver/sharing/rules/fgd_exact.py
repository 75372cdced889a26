"""Fragmentation gradient descent as the paper writes it, without the rounding of its authors' simulator.

Differences of a few milli say nothing about what comes next, but they scatter requests over more nodes than a
fixed order does; docs/fragmentation.md has what that costs.
"""

from solver.sharing.nodes import FloatArray
from solver.sharing.options import Options
from solver.sharing.requests import TaskMix
from solver.sharing.rules.base import Workload
from solver.sharing.rules.fgd import growth


class ExactDescent:
    """Growth of the expected fragmentation of the node, to the last digit."""

    is_drawn = False

    def __init__(self, mix: TaskMix) -> None:
        self._mix = mix

    def cost(self, options: Options) -> FloatArray:
        """Growth, in milli GPU."""
        return growth(options, self._mix)


def build(workload: Workload) -> ExactDescent:
    """The rule for this mix."""
    return ExactDescent(workload.mix)
