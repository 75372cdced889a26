"""GPUs in use before idle ones, and idle ones of nodes in use before idle nodes.

On GPUs in use the fullest first; otherwise the fewest idle GPUs first (Weng et al., MLaaS in the wild, NSDI
2022, as FGD's authors run it). Requests without a GPU go anywhere.
"""

import numpy as np

from solver.sharing.nodes import FloatArray
from solver.sharing.options import Options
from solver.sharing.rules.base import Workload

_IDLE_GPU = 50.0
_IDLE_NODE = 67.0


class Packing:
    """What a placement opens: nothing, idle GPUs of a node in use, or an idle node."""

    is_drawn = False

    def cost(self, options: Options) -> FloatArray:
        """0..10 on GPUs in use, from 50 on idle GPUs, from 67 on idle nodes."""
        if not options.demand.num_gpus:
            return np.zeros(len(options.row))
        idle_before = (options.before.gpu_milli == 1000).sum(axis=1)[options.row]
        opened = idle_before - (options.after.gpu_milli == 1000).sum(axis=1)
        used = options.before.gpu_milli[options.row] - options.after.gpu_milli > 0
        free_on_used = (used * options.before.gpu_milli[options.row]).sum(axis=1)
        whole_node = (options.before.gpu_milli[options.row] % 1000 == 0).all(axis=1) & (
            idle_before == (options.before.gpu_milli[options.row] > 0).sum(axis=1)
        )
        cost = np.where(opened > 0, _IDLE_GPU + opened, np.floor(free_on_used / 100.0))
        in_order: FloatArray = np.where(whole_node & (opened > 0), _IDLE_NODE + idle_before, cost)
        return in_order


def build(_: Workload) -> Packing:
    """The rule."""
    return Packing()
