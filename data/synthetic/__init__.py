"""Generated workloads: the anticipatory-sharing paper's own, and one shaped like the Philly trace."""

from data.synthetic.fitting import fit
from data.synthetic.parameters import PhillyLikeParameters, PoolParameters, shipped_parameters
from data.synthetic.philly import philly_like
from data.synthetic.sia import sia_workload
from data.synthetic.workload import SyntheticWorkload, with_checkpoints, write_csv

__all__ = [
    "PhillyLikeParameters",
    "PoolParameters",
    "SyntheticWorkload",
    "fit",
    "philly_like",
    "shipped_parameters",
    "sia_workload",
    "with_checkpoints",
    "write_csv",
]
