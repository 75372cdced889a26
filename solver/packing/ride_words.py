"""Words of riding: a ride, and what is known of those whom it concerns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.cluster import Gpu
from domain.jobs import Job
from solver.packing.candidates import PairRule

_KEPT_IN_RESERVE: Final = 0.5
"""Part of a host's slack that its riders leave it."""


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


class OnHost(NamedTuple):
    """A rider that a host has already.

    Attributes:
        job: the rider.
        tail_s: high quantile of how long it still runs, seconds.
    """

    job: Job
    tail_s: float


@dataclass(frozen=True, slots=True)
class HostNow:
    """A running job that may take riders.

    Attributes:
        job: it.
        free: its GPUs that nobody shares.
        riders: those that it has.
        slack_s: work that it may lose from now on and not be late, seconds.
        left_s: expected work left, seconds of running alone.
        tail_s: high quantile of the work left.
        head_s: low quantile of it.
        value: worth of a second in which it runs alone, in the unit of `Ride.value`.
    """

    job: Job
    free: tuple[Gpu, ...]
    riders: tuple[OnHost, ...]
    slack_s: float
    left_s: float
    tail_s: float
    head_s: float
    value: float

    @property
    def spare_s(self) -> float:
        """Work that riders may cost it, seconds."""
        return self.slack_s * (1.0 - _KEPT_IN_RESERVE)


@dataclass(frozen=True, slots=True)
class WaitingNow:
    """A job that waits beyond its lane.

    Attributes:
        job: it.
        slack_s: until it has to start not to be late, seconds.
        waited_s: so far, seconds.
        left_s: expected work, seconds of running alone.
        tail_s: high quantile of it.
        value: worth of its start, in the unit of `Ride.value`.
    """

    job: Job
    slack_s: float
    waited_s: float
    left_s: float
    tail_s: float
    value: float


@dataclass(frozen=True, slots=True)
class RideTerms:
    """What a ride has to keep to.

    Attributes:
        sigma: most of its speed that a host may lose.
        gain: least that a ride has to be worth, of what the rider would be worth alone.
        work: least work per second that it has to add, of what the rider would add alone.
        waits: how often a job waits for the time that sharing costs before it rides: while that is not over
            it may still get GPUs of its own. Whoever waits as long as a ride costs never loses more than
            twice what he who knew the future would (the ski rental rule).
        only_inside: riders are to have ended before their host does.
        node_gpus: GPUs of the largest node of each type.
    """

    sigma: float
    gain: float
    work: float
    waits: float
    only_inside: bool
    node_gpus: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RideRates:
    """Rates of pairs, at the median and at the lower quantile, and whether samples move (`PairRule`)."""

    median: PairRule
    lower: PairRule
    redistributes: bool

    def of_host(self, rule: PairRule, host: Job, riders: Iterable[Job]) -> float | None:
        """Rate of a host with riders; None if a pair must not share."""
        rates: list[float] = []
        for rider in riders:
            both = rule.pair(host.model, rider.model)
            if both is None:
                return None
            rates += [both[0]] * rider.num_gpus
        return rule.combine(rates + [1.0] * (host.num_gpus - len(rates)))
