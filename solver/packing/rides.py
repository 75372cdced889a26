"""Rides: which waiting job may start on GPUs of which running one, and what that is worth.

A ride is one more way to start a job early. It makes nobody late by itself: what the rider loses to sharing
fits into the time until it is due, and what the host loses to all of its riders into its slack. Both are
reckoned with lower quantiles of rates and high ones of lives. Beyond that it has to pay (`docs/packing.md`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from domain.cluster import Gpu
from domain.jobs import Job
from domain.packing import MAX_SET_JOBS
from solver.packing.candidates import PairRule
from solver.placement.cells import pieces_of
from solver.placement.greedy import may_use

MOST_OPTIONS: Final = 200
"""Rides looked at in one decision, the worthiest."""
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
    """Rates of pairs, at the median and at the lower quantile; see `PairRule`."""

    median: PairRule
    lower: PairRule

    def of_host(self, rule: PairRule, host: Job, riders: Iterable[Job]) -> float | None:
        """Rate of a host with riders; None if a pair must not share."""
        rates: list[float] = []
        for rider in riders:
            both = rule.pair(host.model, rider.model)
            if both is None:
                return None
            rates += [both[0]] * rider.num_gpus
        return rule.combine(rates + [1.0] * (host.num_gpus - len(rates)))


def place_on(job: Job, free: Sequence[Gpu], host_gpus: int, node_gpus: Mapping[str, int]) -> tuple[Gpu, ...]:
    """GPUs for a job among those of a host that nobody shares; none if it does not fit there.

    On the fewest nodes that its width needs, the fullest of the host's first where they hold a piece whole; a
    job as wide as its host takes all of its GPUs.
    """
    if job.num_gpus > len(free) or not all(may_use(job.gpu_type, gpu.gpu_type) for gpu in free):
        return ()
    if job.num_gpus == host_gpus:
        return tuple(free)
    by_node: dict[str, list[Gpu]] = {}
    for gpu in free:
        by_node.setdefault(gpu.node, []).append(gpu)
    taken: list[Gpu] = []
    for piece in pieces_of(job.num_gpus, max(node_gpus[gpu.gpu_type] for gpu in free)):
        fits = [(len(here), name) for name, here in by_node.items() if len(here) >= piece]
        if not fits:
            return ()
        taken += by_node.pop(min(fits)[1])[:piece]
    return tuple(taken)


def ride_options(
    waiting: Iterable[WaitingNow], hosts: Sequence[HostNow], rates: RideRates, terms: RideTerms
) -> list[Ride]:
    """Rides that make nobody late and pay, not priced yet; at most `MOST_OPTIONS`, the worthiest.

    Args:
        waiting: jobs, those first that are to be looked at first.
        hosts: running jobs.
        rates: of pairs.
        terms: what rides have to keep to.

    Returns:
        Worthiest first; ties by (submit, id) of the rider, then of the host.
    """
    found: list[Ride] = []
    for one in waiting:
        for host in hosts:
            ride = _ride(one, host, rates, terms)
            if ride is not None:
                found.append(ride)
    found.sort(key=_order)
    return found[:MOST_OPTIONS]


def choose_rides(
    options: Sequence[Ride], price: Callable[[Ride], float | None], most_refused: int
) -> list[Ride]:
    """Take the worthiest, one after another: of a job and of a host one each.

    Args:
        options: worthiest first.
        price: jobs that a ride is expected to slow, given those taken before; None: it is refused.
        most_refused: after so many refusals no more are looked at.
    """
    chosen: list[Ride] = []
    busy: set[str] = set()
    refused: set[str] = set()
    for ride in options:
        if len(refused) >= most_refused:
            break
        if {ride.job.job_id, ride.host.job_id} & busy or ride.job.job_id in refused:
            continue
        charge = price(ride)
        if charge is None:
            refused.add(ride.job.job_id)
            continue
        chosen.append(replace(ride, charge=charge))
        busy |= {ride.job.job_id, ride.host.job_id}
    return chosen


def lost_to_riders_s(host: HostNow, rider: OnHost | None, rates: RideRates, host_lower: float) -> float:
    """Work that a host loses to its riders at most, seconds: a high quantile of how long they share.

    Without samples that move a host runs at the rate of its slowest worker, so the sum over riders is an
    upper bound.
    """
    host_wall_s = host.tail_s / host_lower
    lost_s = 0.0
    for one in (*host.riders, *([] if rider is None else [rider])):
        lower = rates.of_host(rates.lower, host.job, [one.job])
        lost_s += (1.0 - (lower or 0.0)) * min(one.tail_s, host_wall_s)
    return lost_s


def _ride(one: WaitingNow, host: HostNow, rates: RideRates, terms: RideTerms) -> Ride | None:
    if one.job.num_gpus > len(host.free) or len(host.riders) >= MAX_SET_JOBS - 1:
        return None
    lower = rates.lower.pair(one.job.model, host.job.model)
    median = rates.median.pair(one.job.model, host.job.model)
    if lower is None or median is None:
        return None
    wall_s = one.tail_s / lower[0]
    if (1.0 - lower[0]) * wall_s > one.slack_s or (terms.only_inside and wall_s > host.head_s):
        return None
    before = rates.of_host(rates.median, host.job, [rider.job for rider in host.riders])
    riders = [*(rider.job for rider in host.riders), one.job]
    after = rates.of_host(rates.median, host.job, riders)
    host_lower = rates.of_host(rates.lower, host.job, riders)
    if before is None or after is None or host_lower is None or host_lower < 1.0 - terms.sigma:
        return None
    lost_s = lost_to_riders_s(host, OnHost(one.job, wall_s), rates, host_lower)
    if lost_s > host.slack_s * (1.0 - _KEPT_IN_RESERVE):
        return None
    if not _pays(one, host, (median[0], before, after), terms):
        return None
    gpus = place_on(one.job, host.free, host.job.num_gpus, terms.node_gpus)
    if not gpus:
        return None
    value = one.value * median[0] - host.value * (before - after)
    return Ride(one.job, host.job, gpus, median[0], lower[0], after, before, host_lower, value)


def _pays(one: WaitingNow, host: HostNow, rates: tuple[float, float, float], terms: RideTerms) -> bool:
    """Whether a ride gains enough by the c-mu rule, adds enough work, and waiting has lasted long enough."""
    rate, before, after = rates
    lost = before - after
    if rate / one.left_s - lost / host.left_s < terms.gain / one.left_s:
        return False
    if one.job.num_gpus * rate - host.job.num_gpus * lost < terms.work * one.job.num_gpus:
        return False
    shared_s = min(one.left_s / rate, host.left_s / after)
    return one.waited_s >= terms.waits * (1.0 - rate + lost) * shared_s


def _order(ride: Ride) -> tuple[float, float, str, float, str]:
    value = ride.value if math.isfinite(ride.value) else 0.0
    return (-value, ride.job.submit_s, ride.job.job_id, ride.host.submit_s, ride.host.job_id)
