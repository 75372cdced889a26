"""Any node that can run the request, each as likely as the others: the floor of every comparison."""

import numpy as np

from solver.sharing.nodes import FloatArray
from solver.sharing.options import Options
from solver.sharing.rules.base import Workload


class AnyNode:
    """All placements cost the same."""

    is_drawn = True

    def cost(self, options: Options) -> FloatArray:
        """Nothing."""
        return np.zeros(len(options.row))


def build(_: Workload) -> AnyNode:
    """The rule."""
    return AnyNode()
