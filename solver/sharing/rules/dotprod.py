"""The node whose free CPU and GPU point least in the direction of the request: Tetris's dot product.

As FGD's authors run it: free and asked amounts as shares of the largest node, the smaller product first, in
whole per cents. (Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014, prefer the
larger product.)
"""

import numpy as np

from solver.sharing.nodes import FloatArray
from solver.sharing.options import Options
from solver.sharing.rules.base import Workload


class DotProduct:
    """Free amounts times asked amounts."""

    is_drawn = False

    def __init__(self, largest_cpu_milli: int, largest_gpu_milli: int) -> None:
        self._cpu_milli = max(largest_cpu_milli, 1)
        self._gpu_milli = max(largest_gpu_milli, 1)

    def cost(self, options: Options) -> FloatArray:
        """Half the product of the shares, in whole per cents."""
        demand, free = options.demand, options.before
        asked_milli = demand.num_gpus * demand.gpu_milli
        product = free.cpu_milli * (demand.cpu_milli / self._cpu_milli**2)
        product = product + free.gpu_milli.sum(axis=1) * (asked_milli / self._gpu_milli**2)
        per_cent: FloatArray = np.ceil(50.0 * product[options.row])
        return per_cent


def build(workload: Workload) -> DotProduct:
    """The rule for these nodes."""
    return DotProduct(
        max(spec.cpu_milli for spec in workload.specs),
        max(1000 * spec.num_gpus for spec in workload.specs),
    )
