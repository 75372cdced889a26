"""The node on which least is left: CPU and GPU, each as a share of the largest node, weighed equally.

As FGD's authors run it: in whole per cents, so that nearly equal nodes are equal.
"""

import numpy as np

from solver.sharing.nodes import FloatArray
from solver.sharing.options import Options
from solver.sharing.rules.base import Workload


class BestFit:
    """What stays free on the node."""

    is_drawn = False

    def __init__(self, largest_cpu_milli: int, largest_gpu_milli: int) -> None:
        self._cpu_milli = max(largest_cpu_milli, 1)
        self._gpu_milli = max(largest_gpu_milli, 1)

    def cost(self, options: Options) -> FloatArray:
        """What is left, in whole per cents of the largest node."""
        left = options.after.cpu_milli / self._cpu_milli
        left = left + options.after.gpu_milli.sum(axis=1) / self._gpu_milli
        per_cent: FloatArray = np.ceil(50.0 * left)
        return per_cent


def build(workload: Workload) -> BestFit:
    """The rule for these nodes."""
    return BestFit(
        max(spec.cpu_milli for spec in workload.specs),
        max(1000 * spec.num_gpus for spec in workload.specs),
    )
