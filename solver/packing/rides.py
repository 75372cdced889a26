"""One more way to start a waiting job early: on the GPUs of a job that runs."""

from dataclasses import dataclass

from domain.cluster import Gpu
from domain.jobs import Job


@dataclass(frozen=True, slots=True)
class Ride:
    """One more way to start a waiting job early: beside a running host, on its GPUs.

    Attributes:
        job: the rider, that waits beyond its lane.
        host: the running job, at least as wide.
        gpus: the rider's GPUs, all of them the host's (fewest nodes).
        rate: forecast median rate of the rider (lower quantile in `rate_lower`).
        host_rate: median rate of the host with it (and its other riders).
        host_before: the same without it.
        host_lower: lower quantile of the host's rate with it.
        value: what it is worth to the objective, in the unit of `solver.lending.value.job_values`, net of
            what the host loses.
        charge: jobs it is expected to slow: the rider may hold GPUs beyond its host's end, and the host holds
            its own longer. 0 until it is priced.
    """

    job: Job
    host: Job
    gpus: tuple[Gpu, ...]
    rate: float
    rate_lower: float
    host_rate: float
    host_before: float
    host_lower: float
    value: float
    charge: float = 0.0
